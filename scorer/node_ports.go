package scorer

import (
	"math/bits"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// nodePorts is the plugin NodePorts: a host port is for one pod of a node.
type nodePorts struct {
	oneReason
	wanted []portUse // sorted
}

func newNodePorts(q *pb.Query) *nodePorts {
	const text = "node(s) didn't have free ports for the requested pod ports"
	r := &nodePorts{oneReason: newReason(pb.Plugin_PLUGIN_NODE_PORTS, text, false)}
	r.wanted = sortedPorts(q.GetHostPorts(), nil)
	return r
}

func (r *nodePorts) plugin() pb.Plugin { return pb.Plugin_PLUGIN_NODE_PORTS }

func (r *nodePorts) narrow(_ *Evaluator, t *Table, rows bitmap) {
	if len(r.wanted) == 0 {
		return
	}
	short := len(r.wanted) <= shortList
	for w, word := range rows {
		for ; word != 0; word &= word - 1 {
			row := w*wordRows + bits.TrailingZeros64(word)
			if held := t.ports[row]; len(held) <= shortList && short {
				if pairsConflict(r.wanted, held) { // inlined, as most rows and pods have few ports
					rows.remove(uint32(row))
				}
			} else if conflictOfMany(r.wanted, held) {
				rows.remove(uint32(row))
			}
		}
	}
}

func (r *nodePorts) passes(v view) bool { return !conflict(r.wanted, v.ports()) }
