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

// differenceRows are the cells of the table's rows, without its head.
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
		out = append(out, cells)
	}
	if len(out) < 3 {
		t.Fatalf("docs/differences.md: %d rows, want a table", len(out))
	}
	return out[2:]
}
