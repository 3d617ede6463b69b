package answers

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/scorer"
)

// LeftOut is the node that a pod is nominated to, where a PreFilter has narrowed the nodes to others. This node is tried all the
// same, before the others, with the pod's class as it is without the narrowing.
type LeftOut struct {
	Row   cache.Row
	Class *scorer.Class
}

// LeftOut is a pod's nominated node where it is left out; nil: it is not, or there is no such node.
func (e *Engine) LeftOut(c *compile.Class, nominated string) *LeftOut {
	row, ok := e.tables.RowOf(nominated)
	if names := c.Query.GetNarrowed(); !ok || names == nil || slices.Contains(names.GetNames(), nominated) {
		return nil
	}
	return &LeftOut{row, e.Pinned(c.Scorer.Unnarrowed())}
}

// Reasons is why the node refuses the pod: with the narrowing, as the answer of the pod's class says, and instead without. n are
// the pods that are nominated to the node, too; nil: none.
func (l *LeftOut) Reasons(a *Answer, n *Nominee) (with, instead []scorer.Reason) {
	instead = slices.Clone(a.RefusedWith(l.Row, n, l.Class))
	return a.WhyRefused(l.Row), instead
}
