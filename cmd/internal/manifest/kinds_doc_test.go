package manifest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheDocsListTheKinds holds the table of docs/operations.md, and the commands below it that name all kinds, to Kinds.
func TestTheDocsListTheKinds(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Objects\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, table, _ := strings.Cut(section, "| --- | --- | --- |\n")
	var kinds, shorts []string
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			break
		}
		for _, kind := range strings.Split(cells[1], ",") {
			kinds = append(kinds, strings.TrimSpace(kind))
		}
		for _, short := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(cells[2], -1) {
			shorts = append(shorts, short[1])
		}
	}
	var wantKinds, wantShorts, plurals, resources []string
	for _, k := range Kinds() {
		wantKinds = append(wantKinds, k.Kind)
		if k.Short != "" {
			wantShorts = append(wantShorts, k.Short)
		}
		if k.Plural != "podgroups" { // few API servers serve them
			plurals = append(plurals, k.Plural)
		}
		resources = append(resources, strings.TrimSuffix(k.Plural+"."+k.Group, "."))
	}
	for _, list := range []*[]string{&kinds, &shorts, &wantKinds, &wantShorts} {
		slices.Sort(*list)
	}
	if d := cmp.Diff(wantKinds, kinds); d != "" {
		t.Errorf("kinds in the table (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wantShorts, shorts); d != "" {
		t.Errorf("short names in the table (-want +got):\n%s", d)
	}
	for _, want := range []string{"--verb=list --resource=" + strings.Join(resources, ",") + "\n", "kubectl get " + strings.Join(plurals, ",") + " -A -o json"} {
		if !strings.Contains(section, want) {
			t.Errorf("the section has no %q", want)
		}
	}
}
