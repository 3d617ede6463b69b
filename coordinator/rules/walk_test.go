package rules

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TestEachRuleIsWhole walks the catalogue: it names the file that a rule lacks. docs/adding-a-rule.md says what to write there.
func TestEachRuleIsWhole(t *testing.T) {
	rows, guide := read(t, "../../docs/configuration.md"), read(t, "../../docs/adding-a-rule.md")
	cases, waits := folder(t, "../../scorer/testdata"), folder(t, "../queue/testdata/scripts")
	for _, r := range All() {
		named := regexp.MustCompile(`\b` + r.Name + `\b`).MatchString
		if !named(rows) {
			t.Errorf("%s: want a row in docs/configuration.md, got no word of it", r.Name)
		}
		if r.Evaluated(groups.All()) && (r.At(framework.Filter) || r.At(framework.PreEnqueue)) != (r.Hints != nil) {
			t.Errorf("%s: want Hints where it can refuse pods or hold them back, and only there", r.Name)
		}
		if r.Plugin == pb.Plugin_PLUGIN_UNSPECIFIED || r.Name == CELFilter || r.Name == CELScore {
			continue // expressions have cases of their own, scorer/cel_test.go and coordinator/queue/cel_filter_test.go
		}
		if !named(cases) {
			t.Errorf("%s: want a case in scorer/testdata/golden, got none", r.Name)
		}
		if r.Plugin.Filters() && !named(waits) {
			t.Errorf("%s: want a case in coordinator/queue/testdata/scripts, got none", r.Name)
		}
	}
	if !strings.Contains(guide, VolumeZone) {
		t.Errorf("docs/adding-a-rule.md: want it to follow %s", VolumeZone)
	}
}

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// folder is the text of all files below a folder.
func folder(t *testing.T, root string) string {
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b.WriteString(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
