package observe

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/internal/testkit/claims"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/devices"
	"github.com/shardsched/shardsched/scorer/devices/selector"
)

// TestGoldenShortages runs the scripts in testdata/shortages, in the words of internal/testkit/claims: why a node has no devices for
// claims, and how that counts among all nodes.
func TestGoldenShortages(t *testing.T) {
	compiler := selector.NewCompiler()
	searcher := &devices.Searcher{}
	claims.Golden(t, "testdata/shortages", func(t *testing.T, scene *claims.Scene, node *v1.Node) string {
		turned := scene.Turn(compiler)
		pools, use, err := turned.Gather(node)
		if err != nil {
			t.Fatal(err)
		}
		d := searcher.Diagnose(pools, use, turned.Demand, devices.DefaultBudget)
		if d.Verdict == devices.Allocated {
			return "nothing is missing\n"
		}
		w := wording{DeviceShortage: &scorer.DeviceShortage{Diagnosis: &d, Demand: turned.Demand, Pools: pools}}
		for _, c := range scene.Claims {
			w.claims = append(w.claims, types.NamespacedName{Namespace: c.Namespace, Name: c.Name})
		}
		return shortageText(&w)
	})
}

func shortageText(w *wording) string {
	var b strings.Builder
	m := w.message()
	if m.Note != "" {
		fmt.Fprintf(&b, "note: %s\n", m.Note)
	}
	for _, r := range m.Requests {
		fmt.Fprintf(&b, "claim %s, request %s: %d of %d devices; class %s has %d of the node's %d\n", m.Claim, r.Request, r.Found,
			r.Wanted, r.Class, r.InClass, r.Devices)
		for _, n := range r.Nearest {
			fmt.Fprintf(&b, "  %s/%s/%s: %s\n", n.Driver, n.Pool, n.Device, n.Cause)
		}
	}
	counts, out := newShortages(), &pb.ExplainResponse{}
	for i := range w.Lacks {
		counts.count(w, &w.Lacks[i])
	}
	counts.tell(out)
	for _, c := range out.Shortages {
		fmt.Fprintf(&b, "%d: %s %s: %s\n", c.Devices, c.Claim, c.Request, c.Cause)
	}
	return b.String()
}
