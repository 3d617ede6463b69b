package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// nodeName is the plugin NodeName: a pod that names its node goes nowhere else.
type nodeName struct {
	oneReason
	name string
}

func (r *nodeName) make(q *pb.Query) *nodeName {
	*r = nodeName{newReason(pb.Plugin_PLUGIN_NODE_NAME, "node(s) didn't match the requested node name", true), q.GetNodeName()}
	return r
}

func (r *nodeName) plugin() pb.Plugin { return pb.Plugin_PLUGIN_NODE_NAME }

func (r *nodeName) narrow(_ *Evaluator, t *Table, rows bitmap) {
	if r.name != "" {
		rows.onlyNamed(t, r.name)
	}
}

// onlyNamed leaves the row of the node with that name.
func (b bitmap) onlyNamed(t *Table, name string) {
	if row, ok := t.byName[name]; ok {
		b.only(row)
	} else {
		clear(b)
	}
}

func (r *nodeName) passes(v view) bool { return r.name == "" || r.name == v.t.names[v.row] }
