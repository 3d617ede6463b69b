package fanout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTracker runs scripts of what happens to one part. A line is
//
//	primary answered|failed     what became of the primary
//	backups N                   N backups were started
//	backup I answered|failed|running
//	hedge                       is it worth starting backups?
//	compared                    answers count only if they agree
//	agreed                      and they do
//
// and each prints what the part needs next.
func TestTracker(t *testing.T) {
	datadriven.RunTest(t, "testdata/tracker", func(t *testing.T, d *datadriven.TestData) string {
		var tr tracker
		var out strings.Builder
		for _, line := range strings.Split(d.Input, "\n") {
			fmt.Fprintf(&out, "%s: %s\n", line, track(t, &tr, strings.Fields(line)))
		}
		return out.String()
	})
}

// track makes one thing happen.
func track(t *testing.T, tr *tracker, words []string) string {
	standings := map[string]standing{"running": running, "answered": answered, "failed": failed}
	switch words[0] {
	case "primary":
		tr.primary = standings[words[1]]
	case "backups":
		tr.backups = make([]standing, len(words[1:]))
		for i, w := range words[1:] {
			tr.backups[i] = standings[w]
		}
	case "compared":
		tr.compared = true
	case "agreed":
		tr.settled = true
	case "hedge":
		return fmt.Sprint(tr.hedge())
	default:
		t.Fatalf("unknown word %q", words[0])
	}
	return [...]string{wait: "wait", startBackups: "start backups", usePrimary: "use primary", useBackups: "use backups", compare: "compare", useOwn: "use own"}[tr.next()]
}
