package scorer

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// nodeDeclaredFeatures is the plugin NodeDeclaredFeatures: a node must declare each
// feature that the pod cannot run without.
type nodeDeclaredFeatures struct {
	oneReason
	required []string
}

func newNodeDeclaredFeatures(q *pb.Query) *nodeDeclaredFeatures {
	const text = "node(s) didn't match Pod's required features"
	return &nodeDeclaredFeatures{newReason(pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES, text, true), q.GetRequiredFeatures()}
}

func (r *nodeDeclaredFeatures) plugin() pb.Plugin { return pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES }

// admits tells whether a node of that trait declares all that is required.
func (r *nodeDeclaredFeatures) admits(x *trait) bool {
	for _, f := range r.required {
		if _, ok := slices.BinarySearch(x.features, f); !ok {
			return false
		}
	}
	return true
}

func (r *nodeDeclaredFeatures) narrow(e *Evaluator, t *Table, rows bitmap) {
	traits := t.traits.contents.contents
	keep := e.allKeep(len(traits), 0)
	for i := range traits {
		keep[i] = uint8(asInt(r.admits(&traits[i])))
	}
	narrowDense(t.traits.ofRow, keep, rows)
}

func (r *nodeDeclaredFeatures) passes(v view) bool { return r.admits(v.t.traits.of(v.row)) }
