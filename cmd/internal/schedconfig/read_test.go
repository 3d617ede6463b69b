package schedconfig

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestRead reads configurations and prints each profile's score plugins with
// their weights, or the error.
func TestRead(t *testing.T) {
	datadriven.RunTest(t, "testdata/read", func(t *testing.T, d *datadriven.TestData) string {
		dir := t.TempDir()
		file := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(file, []byte(d.Input+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Read(file)
		if err != nil {
			return strings.ReplaceAll(err.Error(), dir+"/", "") + "\n"
		}
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
			fmt.Fprintf(&b, "%s:", name)
			for _, s := range c.Profiles[name].Scores() {
				fmt.Fprintf(&b, " %s×%d", strings.TrimPrefix(s.Plugin.String(), "PLUGIN_"), s.Weight)
			}
			b.WriteByte('\n')
		}
		if len(c.WithoutEffect) > 0 {
			fmt.Fprintf(&b, "without effect: %s\n", strings.Join(c.WithoutEffect, ", "))
		}
		return b.String()
	})
}

func TestNoFileIsTheDefault(t *testing.T) {
	c, err := Read("")
	if err != nil {
		t.Fatal(err)
	}
	if got := len(c.Profiles["default-scheduler"].Scores()); got != 5 {
		t.Errorf("got %d score plugins, want 5", got)
	}
}
