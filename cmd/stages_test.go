package cmd

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// variable is what the Makefile sets a variable to, word by word.
func variable(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + name + ` *:= ((?:.*\\\n)*.*)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("the Makefile has no %s", name)
	}
	return strings.Fields(strings.ReplaceAll(string(found[1]), "\\\n", " "))
}

// TestStagesLeaveNoTestOut holds the Makefile's lists to the code. Package folders that PURE does not name are tested
// under the race detector, so what it names may have nothing for the race detector to see; and what is not built with
// the race detector has to be tested without it.
func TestStagesLeaveNoTestOut(t *testing.T) {
	pure := variable(t, "PURE")
	plain := slices.Concat(pure, variable(t, "AGAIN"))
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "../bench" || path != ".." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		name := strings.TrimPrefix(path, "../")
		folder := filepath.Dir(name)
		seen[folder] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.go") {
			if (leavesRaceOut(file) || asksForShort(file)) && !slices.Contains(plain, folder) {
				t.Errorf("%s is not tested whole with the race detector, and no stage tests %s without it", name, folder)
			}
		} else if why := concurrent(file); why != "" && slices.Contains(pure, folder) && !strings.HasSuffix(name, ".pb.go") {
			t.Errorf("%s has %s, want %s tested under the race detector: take it out of PURE", name, why, folder)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range plain {
		if !seen[folder] {
			t.Errorf("the Makefile names %s, want a folder with Go code", folder)
		}
	}
}

// asksForShort tells whether a file of tests calls testing.Short.
func asksForShort(file *ast.File) bool {
	return slices.ContainsFunc(slices.Collect(ast.Preorder(file)), func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Short" && fmt.Sprint(s.X) == "testing"
	})
}

// leavesRaceOut tells whether a file is not built with the race detector.
func leavesRaceOut(file *ast.File) bool {
	for _, g := range file.Comments {
		for _, c := range g.List {
			if x, err := constraint.Parse(c.Text); err == nil {
				return !x.Eval(func(tag string) bool { return tag == "race" || tag == "linux" || tag == "amd64" })
			}
		}
	}
	return false
}

// concurrent names the first thing in a file that goroutines share or need; empty: there is none.
func concurrent(file *ast.File) (what string) {
	for _, i := range file.Imports {
		switch p := strings.Trim(i.Path.Value, `"`); p {
		case "sync", "sync/atomic", "golang.org/x/sync/errgroup":
			return p
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.GoStmt:
			what = "a go statement"
		case *ast.ChanType:
			what = "a channel"
		}
		return what == ""
	})
	return what
}
