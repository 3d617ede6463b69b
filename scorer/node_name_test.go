package scorer

import (
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Names are found wherever in the bitmap's words their row is.
func TestNodeNameAtWordEdges(t *testing.T) {
	rows := benchRows(130)
	table := loadTable(t, 0, rows)
	e := NewEvaluator(nil)
	for _, at := range []int{0, 63, 64, 65, 127, 128, 129} {
		q := &pb.Query{ClassId: 1, Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_NAME}, NodeName: rows[at].Node.Name}
		r := evaluate(e, table, newClass(t, q), Options{Candidates: 2})
		if r.Feasible != 1 || r.Groups[0].Candidates[0].Row != uint32(at) {
			t.Errorf("row %d: got %s, want this row alone", at, describe(r))
		}
	}
}
