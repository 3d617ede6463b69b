package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// nodeUnschedulable is the plugin NodeUnschedulable: a cordoned node takes only pods
// that tolerate the taint that cordoning stands for.
type nodeUnschedulable struct {
	oneReason
	tolerated bool
}

func (r *nodeUnschedulable) make(q *pb.Query) *nodeUnschedulable {
	cordon := taint{key: "node.kubernetes.io/unschedulable", effect: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE}
	*r = nodeUnschedulable{
		oneReason: newReason(pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE, "node(s) were unschedulable", true),
		tolerated: tolerates(q.GetTolerations(), &cordon),
	}
	return r
}

func (r *nodeUnschedulable) plugin() pb.Plugin { return pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE }

func (r *nodeUnschedulable) narrow(_ *Evaluator, t *Table, rows bitmap) {
	if !r.tolerated {
		rows.without(t.unschedulable)
	}
}

func (r *nodeUnschedulable) passes(v view) bool {
	return r.tolerated || !v.t.unschedulable.has(v.row)
}
