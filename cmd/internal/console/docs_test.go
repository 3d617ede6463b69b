package console

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheDocumentTellsTheAPI holds docs/console.md to what the gateway offers.
func TestTheDocumentTellsTheAPI(t *testing.T) {
	text, err := os.ReadFile("../../../docs/console.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\|(.*)\\|$").FindAllStringSubmatch(string(text), -1) {
		told[row[1]] = strings.TrimSpace(strings.ReplaceAll(row[2], "`", ""))
	}
	for name, r := range newGateway(nil).rpcs {
		want := fieldNames(r.request.Descriptor().Fields())
		if want == "none" {
			want = ""
		}
		if got, ok := told[name]; !ok || got != want {
			t.Errorf("docs/console.md: %s: got the parameters %q, want %q", name, got, want)
		}
		delete(told, name)
	}
	for name := range told {
		t.Errorf("docs/console.md: %s is no call that is offered", name)
	}
}
