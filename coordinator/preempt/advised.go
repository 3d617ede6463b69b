package preempt

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/scorer"
)

// Extenders may have a say in whom a pod preempts, too: they are shown the best candidates, and leave
// some of them, with these or other victims. They are asked behind the loop, in lanes as for filters:
//
//	decide ── no node ── candidates ──park──> asked ──resume──> decide ── no node ── the best of those nodes
//	                                                  that they have left and that are candidates now
//
// Where none of these nodes is a candidate any more, they are asked again, about the candidates of now.
//
// Differs from upstream: of the nodes that an extender leaves, those are passed over that are no candidates by then, or have
// a victim that is gone or of no lower priority. An extender may name only nodes that it was shown. Nodes that an extender's
// filter refuses are no candidates.

// noCandidate is upstream's text where extenders leave nothing.
const noCandidate = "no candidate node for preemption"

// Advice is what extenders have left of an attempt's candidates.
type Advice struct {
	victims map[string]*extenderv1.Victims // by node
	err     error
	// rounds is how often extenders were asked in this attempt, and answered tells whether they have.
	rounds   int
	answered bool
}

// Advisers are the extenders that have a say in whom a pod preempts.
type Advisers struct {
	List  []*extender.Extender
	Lanes *extenders.Lanes
	Pod   *queue.Pod
	// Advice is kept from one call to the next in an attempt.
	Advice *Advice
	// Shown is how many candidates they are shown, of so many nodes.
	Shown func(nodes int) int
	// Find is Finder.Find for the preemptor.
	Find func(ctx context.Context, n int) (Found, error)
}

// Advised is DefaultPreemption for a pod whose preemption extenders have a say in. With wait they have to be asked first: the
// attempt is to be parked, and is resumed once they have answered, or once it is its turn to have them asked.
func (f *Finder) Advised(ctx context.Context, p *Preemptor, by *Advisers) (r *fwk.PostFilterResult, status *fwk.Status,
	victims []*v1.Pod, wait bool, err error) {
	for {
		if x := by.Advice; x.answered {
			node, victims := f.bestOf(ctx, p, x.victims)
			switch {
			case x.err != nil:
				return nil, fwk.NewStatus(fwk.Error, Prefix+x.err.Error()), nil, false, nil
			case node != "":
				return Nominate(node), nil, victims, false, nil
			case len(x.victims) == 0 || x.rounds >= extenders.MaxRounds:
				return nil, Refusal(noCandidate), nil, false, nil
			}
		}
		found, err := by.Find(ctx, by.Shown(f.Nodes.Nodes()))
		if err != nil {
			return nil, nil, nil, false, err
		}
		if len(found.Best) == 0 {
			r, status := f.NoCandidate(found)
			return r, status, nil, false, nil
		}
		shown := found.Best[:min(by.Shown(found.All.Tried), len(found.Best))]
		if wait, err := f.ask(ctx, by, shown); wait || err != nil {
			return nil, nil, nil, wait, err
		}
	}
}

// ask asks extenders about candidates. With wait they have not answered yet, or it is not the pod's turn.
func (f *Finder) ask(ctx context.Context, by *Advisers, candidates []*scorer.PreemptionCandidate) (wait bool, err error) {
	lane := by.Lanes.Lane("preempt", by.List)
	if !lane.Turn(by.Pod) {
		return true, nil
	}
	victims := make(map[string]*extenderv1.Victims, len(candidates))
	there := make(map[string][]*v1.Pod, len(candidates))
	for _, c := range candidates {
		pods, err := f.Victims(by.Pod.Obj, c)
		if err != nil {
			return false, err
		}
		victims[c.Name] = &extenderv1.Victims{Pods: pods, NumPDBViolations: int64(c.Violations)}
		there[c.Name] = slices.Collect(f.Nodes.PodsOn(c.Name))
	}
	on := func(node string) ([]*v1.Pod, error) {
		if pods, ok := there[node]; ok {
			return pods, nil
		}
		return nil, fmt.Errorf("nodeinfo not found for node name %q", node)
	}
	pod, list, x := by.Pod.Obj, by.List, by.Advice
	return lane.Ask(ctx, by.Pod, func(ctx context.Context) func() {
		left, err := extender.Shrink(ctx, list, pod, victims, on)
		return func() { *x = Advice{victims: left, err: err, rounds: x.rounds + 1, answered: true} }
	}), nil
}

// bestOf is the best of the nodes that extenders have left and that are candidates now, with the victims that the extenders
// want, where all of these are there and may be preempted; "": there is none.
func (f *Finder) bestOf(ctx context.Context, p *Preemptor, left map[string]*extenderv1.Victims) (string, []*v1.Pod) {
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
