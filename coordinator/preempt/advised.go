package preempt

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/scorer"
)

// BestOf is the best of the nodes that extenders have left and that are candidates now, with the victims that the extenders
// want, where all of these are there and may be preempted; "": there is none.
func (f *Finder) BestOf(ctx context.Context, p *Preemptor, left map[string]*extenderv1.Victims) (string, []*v1.Pod) {
	var best *scorer.PreemptionCandidate
	var victims []*v1.Pod
	if p.Answer == nil {
		return "", nil
	}
	x := f.rowByRow(p)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		pods := f.preemptable(p.Pod, name, left[name].Pods)
		if len(pods) == 0 {
			continue
		}
		c := f.tryNode(ctx, x, name)
		if c == nil {
			continue
		}
		if c = f.withVictims(c, pods, left[name].NumPDBViolations); best == nil || scorer.BeforeCandidate(c, best) {
			best, victims = c, pods
		}
	}
	if best == nil {
		return "", nil
	}
	return best.Name, victims
}

// preemptable are victims as they are now; nothing where one of them is not on the node any more, or may not be preempted.
func (f *Finder) preemptable(by *v1.Pod, node string, victims []*v1.Pod) []*v1.Pod {
	out := make([]*v1.Pod, 0, len(victims))
	for _, v := range victims {
		now, on, _ := f.Nodes.Pod(v.UID)
		if on != node || compile.Priority(now) >= compile.Priority(by) {
			return nil
		}
		out = append(out, now)
	}
	return out
}

// withVictims is a candidate with other victims, most important first.
func (f *Finder) withVictims(c *scorer.PreemptionCandidate, pods []*v1.Pod, violations int64) *scorer.PreemptionCandidate {
	x := *c
	x.Victims = make([]uint64, len(pods))
	x.Violations, x.TopPriority, x.PrioritySum = int(violations), compile.Priority(pods[0]), 0
	for i, p := range pods {
		x.PrioritySum += uint64(int64(compile.Priority(p)) + 1<<31)
		if compile.Priority(p) != x.TopPriority {
			continue
		}
		start := f.Now().UnixMicro()
		if p.Status.StartTime != nil {
			start = p.Status.StartTime.UnixMicro()
		}
		if i == 0 || start < x.EarliestStart {
			x.EarliestStart = start
		}
	}
	return &x
}
