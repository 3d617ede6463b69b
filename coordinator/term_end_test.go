package coordinator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// What only reads ends no term: package observe knows no scheduler, and in the files that it reads by nothing calls fail, which
// has the list of what does.
func TestReadsEndNoTerm(t *testing.T) {
	readers := []string{"explain.go", "summary.go"}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	callers := 0
	for _, f := range files {
		name := f.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "fail" {
					callers++
					if slices.Contains(readers, name) {
						t.Errorf("%s ends the term: a read has its caller get the error", name)
					}
				}
			}
			return true
		})
	}
	if callers == 0 {
		t.Error("nothing calls fail: this test looks at nothing")
	}
}
