package cmd

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// marker stands in the code wherever it departs from upstream on purpose.
const marker = "// Differs from upstream:"

// TestDifferencesAreListed holds docs/differences.md and the code against each other: each
// file with a marker stands in the last column of a row, and each row names files that have
// one.
func TestDifferencesAreListed(t *testing.T) {
	marked := markedFiles(t)
	listed := map[string]bool{}
	for _, row := range differenceRows(t) {
		files := row[len(row)-1]
		if len(files) == 0 {
			t.Errorf("docs/differences.md: the row %q names no file", row[0])
		}
		for _, quoted := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(files, -1) {
			listed[quoted[1]] = true
			if !marked[quoted[1]] {
				t.Errorf("docs/differences.md: the row %q names %s, which has no %q", row[0], quoted[1], marker)
			}
		}
	}
	for file := range marked {
		if !listed[file] {
			t.Errorf("%s has a %q, and no row of docs/differences.md names it", file, marker)
		}
	}
}

// markedFiles are the product's files that have a marker.
func markedFiles(t *testing.T) map[string]bool {
	out := map[string]bool{}
	for _, folder := range []string{"cmd", "coordinator", "proto", "scorer", "worker"} {
		err := filepath.WalkDir(filepath.Join("..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(marker)) {
				out[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// differenceRows are the cells of the tables' rows, without their heads.
func differenceRows(t *testing.T) [][]string {
	text, err := os.ReadFile("../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	columns := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if columns == 0 {
			columns = len(cells)
		}
		if len(cells) != columns {
			t.Fatalf("docs/differences.md: %d columns, want %d: %s", len(cells), columns, line)
		}
		if cells[0] != "what" && cells[0] != "---" {
			out = append(out, cells)
		}
	}
	if len(out) == 0 {
		t.Fatal("docs/differences.md: no row of a table")
	}
	return out
}

// TestDocsNameWhatThereIs holds what the documents say of the code to the code: each path in backticks exists, and the names
// behind a Go file stand in that file.
func TestDocsNameWhatThereIs(t *testing.T) {
	quoted := regexp.MustCompile("`([^` ]+)`")
	path, name := regexp.MustCompile(`^[\w.-]+/[\w./-]*$`), regexp.MustCompile(`^[A-Za-z]\w*$`)
	for doc, root := range map[string]string{"docs/architecture.md": "..", "docs/adding-a-rule.md": "..", "CONTRIBUTING.md": "..", "bench/README.md": "../bench"} {
		text, err := os.ReadFile(filepath.Join("..", doc))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			file, code := "", []byte(nil)
			for _, q := range quoted.FindAllStringSubmatch(line, -1) {
				switch {
				case path.MatchString(q[1]):
					if _, err := os.Stat(filepath.Join(root, q[1])); err != nil {
						t.Errorf("%s: want a file or a folder, got %v", doc, err)
					}
					file, code = q[1], nil
					if strings.HasSuffix(file, ".go") || strings.HasSuffix(file, ".proto") {
						code, _ = os.ReadFile(filepath.Join(root, file)) // without it the path is told
					}
				case code != nil && name.MatchString(q[1]) && !regexp.MustCompile(`\b`+q[1]+`\b`).Match(code):
					t.Errorf("%s: want %s in %s, got no word of it", doc, q[1], file)
				}
			}
		}
	}
}
