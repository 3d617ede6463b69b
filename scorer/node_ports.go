package scorer

import (
	"math/bits"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// nodePorts is the plugin NodePorts: a host port is for one pod of a node.
type nodePorts struct {
	oneReason
	wanted []hostPort
}

func newNodePorts(q *pb.Query) *nodePorts {
	const text = "node(s) didn't have free ports for the requested pod ports"
	r := &nodePorts{oneReason: newReason(pb.Plugin_PLUGIN_NODE_PORTS, text, false)}
	for _, p := range q.GetHostPorts() {
		r.wanted = append(r.wanted, newHostPort(p))
	}
	return r
}

func (r *nodePorts) plugin() pb.Plugin { return pb.Plugin_PLUGIN_NODE_PORTS }

// free tells whether the pod collides with none of the ports that are held.
func (r *nodePorts) free(held []portUse) bool {
	for i := range held {
		for j := range r.wanted {
			if r.wanted[j].conflicts(&held[i].hostPort) {
				return false
			}
		}
	}
	return true
}

func (r *nodePorts) narrow(_ *Evaluator, t *Table, rows bitmap) {
	if len(r.wanted) == 0 {
		return
	}
	for w, word := range rows {
		for ; word != 0; word &= word - 1 {
			row := w*wordRows + bits.TrailingZeros64(word)
			if held := t.ports[row]; len(held) > 0 && !r.free(held) {
				rows.remove(uint32(row))
			}
		}
	}
}

func (r *nodePorts) passes(v view) bool { return r.free(v.ports()) }
