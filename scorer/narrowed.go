package scorer

import (
	"fmt"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// narrowed keeps the rows that PreFilter plugins left. It is no plugin of its own and
// runs before all of them.
type narrowed struct {
	oneReason
	names []string // sorted
}

func newNarrowed(s *pb.NameSet) *narrowed {
	why := Reason{
		Plugin:       strings.Join(s.GetPlugins(), " "),
		Text:         fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", s.GetPlugins()),
		Unresolvable: true,
	}
	return &narrowed{oneReason: oneReason{[1]Reason{why}}, names: s.GetNames()}
}

func (n *narrowed) plugin() pb.Plugin { return pb.Plugin_PLUGIN_UNSPECIFIED }

func (n *narrowed) narrow(e *Evaluator, t *Table, rows bitmap) {
	e.any = scratch(e.any, len(rows))
	clear(e.any)
	for _, name := range n.names {
		if row, ok := t.byName[name]; ok {
			e.any.add(row)
		}
	}
	for w := range rows {
		rows[w] &= e.any[w]
	}
}

func (n *narrowed) passes(v view) bool {
	_, ok := slices.BinarySearch(n.names, v.t.names[v.row])
	return ok
}
