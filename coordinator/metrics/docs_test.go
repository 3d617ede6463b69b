package metrics_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/coordinator/metrics"
)

// docs/metrics.md is a page that operators search: it has every metric, and no other.
func TestTheDocumentationListsEveryMetric(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed[m[1]] = true
	}
	defined := map[string]bool{}
	for _, list := range [][]metrics.Definition{metrics.Upstream(), metrics.Own()} {
		for _, d := range list {
			defined[d.Name] = true
		}
	}
	name := regexp.MustCompile(`(?:Name:\s*|NewDesc\()"(shardsched_[a-z_]+)"`)
	for _, dir := range []string{"coordinator", "worker", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range name.FindAllStringSubmatch(string(text), -1) {
				defined[m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range defined {
		if !listed[n] {
			t.Errorf("%s is not in docs/metrics.md", n)
		}
	}
	for n := range listed {
		if !defined[n] {
			t.Errorf("%s is in docs/metrics.md, and nowhere else", n)
		}
	}
}
