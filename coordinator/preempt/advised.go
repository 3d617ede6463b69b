package preempt

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
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

// nothingLeft is upstream's text where extenders leave nothing.
const nothingLeft = "no candidate node for preemption"

// Advice is what extenders have left of an attempt's candidates.
type Advice struct {
	victims map[string]*extenderv1.Victims // by node
	err     error
	// rounds is how often extenders were asked in this attempt, and answered tells whether they have.
	rounds   int
	answered bool
}

// advised is DefaultPreemption for a pod whose preemption extenders have a say in.
func (f *Finder) advised(ctx context.Context, p *Preemptor, list []*extender.Extender) (Outcome, error) {
	x := p.Advice
	if x == nil {
		x = &Advice{}
	}
	for {
		if x.answered {
			node, victims := f.bestOf(ctx, p, x.victims)
			switch {
			case x.err != nil:
				return Outcome{Status: fwk.NewStatus(fwk.Error, Prefix+x.err.Error())}, nil
			case node != "":
				return Outcome{Result: nominate(node), Victims: f.complete(victims)}, nil
			case len(x.victims) == 0 || x.rounds >= extenders.MaxRounds:
				return Outcome{Status: refusal(nothingLeft)}, nil
			}
		}
		found, err := f.find(ctx, p, p.Shown(f.Nodes.Nodes()))
		if err != nil {
			return Outcome{}, err
		}
		if len(found.best) == 0 {
			return f.noCandidate(found), nil
		}
		shown := found.best[:min(p.Shown(found.all.Tried), len(found.best))]
		wait, err := f.ask(ctx, p.Pod, x, list, shown)
		switch {
		case err != nil:
			return Outcome{}, err
		case wait:
			return Outcome{Status: fwk.NewStatus(fwk.Error), Asking: x}, nil
		}
	}
}

// ask asks extenders about candidates. With wait they have not answered yet, or it is not the pod's turn.
func (f *Finder) ask(ctx context.Context, p *queue.Pod, x *Advice, list []*extender.Extender,
	candidates []*scorer.PreemptionCandidate) (wait bool, err error) {
	lane := f.Lanes.Lane("preempt", list)
	if !lane.Turn(p) {
		return true, nil
	}
	victims := make(map[string]*extenderv1.Victims, len(candidates))
	there := make(map[string][]*v1.Pod, len(candidates))
	for _, c := range candidates {
		pods, err := f.victims(p.Obj, c)
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
	return lane.Ask(ctx, p, func(ctx context.Context) func() {
		left, err := extender.Shrink(ctx, list, p.Obj, victims, on)
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
		pods := f.preemptable(p.Pod.Obj, name, left[name].Pods)
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
	out, units := make([]*v1.Pod, 0, len(victims)), wholeUnits{f, f.ownWhole(by)}
	for _, v := range victims {
		now, on, _ := f.Nodes.Pod(v.UID)
		if on != node || units.leavesBelow(now) >= compile.Priority(by) {
			return nil
		}
		out = append(out, now)
	}
	return out
}

// withVictims is a candidate with other victims, most important first.
func (f *Finder) withVictims(c *scorer.PreemptionCandidate, pods []*v1.Pod, violations int64) *scorer.PreemptionCandidate {
	x := *c
	x.Victims, x.Elsewhere, x.Violations = make([]uint64, len(pods)), 0, int(violations)
	x.TopPriority, x.PrioritySum, x.EarliestStart = math.MinInt32, 0, math.MaxInt64
	first, seen := true, map[*scorer.Unit]bool{}
	for _, p := range pods {
		u := scorer.Unit{Priority: compile.Priority(p), Pods: 1, Start: f.Now().UnixMicro()}
		if p.Status.StartTime != nil {
			u.Start = p.Status.StartTime.UnixMicro()
		}
		if whole := (wholeUnits{Finder: f}).of(p); whole != nil {
			if x.Elsewhere--; seen[whole] {
				continue
			}
			seen[whole], x.Elsewhere = true, x.Elsewhere+whole.Pods
			if whole.Pods == 0 {
				continue
			}
			u = scorer.Unit{Priority: whole.Priority, Pods: whole.Pods, Start: cmp.Or(whole.Start, u.Start)}
		}
		x.PrioritySum += uint64(u.Pods) * uint64(int64(u.Priority)+1<<31)
		switch {
		case first:
			x.TopPriority, x.EarliestStart, first = u.Priority, u.Start, false
		case u.Priority == x.TopPriority:
			x.EarliestStart = min(x.EarliestStart, u.Start)
		}
	}
	return &x
}
