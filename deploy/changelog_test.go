package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestEachVersionHasWhatItStores holds that there are golden files of each version that CHANGELOG.md has a section of: what a release
// has stored, later ones are held to.
func TestEachVersionHasWhatItStores(t *testing.T) {
	text, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(headings) == 0 {
		t.Fatal("CHANGELOG.md: want a section for each version, got none")
	}
	for i, h := range headings {
		parts := regexp.MustCompile(`^(v\d+\.\d+\.\d+\S*), (.+)$`).FindStringSubmatch(h[1])
		if parts == nil {
			t.Errorf("CHANGELOG.md: want a version, a comma, and a date or \"not released\", got the heading %q", h[1])
			continue
		}
		if _, err := time.Parse(time.DateOnly, parts[2]); err != nil && !(i == 0 && parts[2] == "not released") {
			t.Errorf("CHANGELOG.md: %s: want a date, or for the first one \"not released\", got %q", parts[1], parts[2])
		}
		for _, file := range []string{"record/testdata/stored/%.record", "record/testdata/stored/%.jsonl", "standalone/store/testdata/stored/%.jsonl"} {
			file = filepath.Join("../coordinator", strings.ReplaceAll(file, "%", parts[1]))
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v: make golden VERSION=%s", parts[1], err, parts[1])
			}
		}
	}
}
