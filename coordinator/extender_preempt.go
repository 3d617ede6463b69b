package coordinator

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/preempt"
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

// advice is what extenders have left of an attempt's candidates.
type advice struct {
	victims map[string]*extenderv1.Victims // by node
	err     error
	// rounds is how often extenders were asked in this attempt, and answered tells whether they have.
	rounds   int
	answered bool
}

// preemptAdvised is DefaultPreemption for a pod whose preemption extenders have a say in. Where they have to be asked first,
// the attempt is parked, and nobody reads its status.
func (s *Scheduler) preemptAdvised(ctx context.Context, a *attempt, p *preempt.Preemptor,
	list []*extender.Extender) (*fwk.PostFilterResult, *fwk.Status, []*v1.Pod, error) {
	if a.advice == nil {
		a.advice = &advice{}
	}
	for {
		if x := a.advice; x.answered {
			node, victims := s.candidates.BestOf(ctx, p, x.victims)
			switch {
			case x.err != nil:
				return nil, fwk.NewStatus(fwk.Error, preempt.Prefix+x.err.Error()), nil, nil
			case node != "":
				return preempt.Nominate(node), nil, victims, nil
			case len(x.victims) == 0 || x.rounds >= extenders.MaxRounds:
				return nil, preempt.Refusal(noCandidate), nil, nil
			}
		}
		found, err := s.findCandidates(ctx, a, p, a.prof.Candidates(s.state.Nodes()))
		if err != nil {
			return nil, fwk.NewStatus(fwk.Error), nil, err
		}
		if len(found.Best) == 0 {
			r, status := s.candidates.NoCandidate(found)
			return r, status, nil, nil
		}
		shown := found.Best[:min(a.prof.Candidates(found.All.Tried), len(found.Best))]
		if parked, err := s.askPreempters(ctx, a, list, shown); parked || err != nil {
			return nil, fwk.NewStatus(fwk.Error), nil, err
		}
	}
}

// askPreempters asks extenders about candidates, or parks the attempt until they have answered, or
// until its turn.
func (s *Scheduler) askPreempters(ctx context.Context, a *attempt, list []*extender.Extender,
	candidates []*scorer.PreemptionCandidate) (parked bool, err error) {
	lane := s.extenders.Lane("preempt", list)
	if !lane.Turn(a.pod) {
		s.park(a)
		return true, nil
	}
	victims := make(map[string]*extenderv1.Victims, len(candidates))
	there := make(map[string][]*v1.Pod, len(candidates))
	for _, c := range candidates {
		pods, err := s.candidates.Victims(a.pod.Obj, c)
		if err != nil {
			return false, err
		}
		victims[c.Name] = &extenderv1.Victims{Pods: pods, NumPDBViolations: int64(c.Violations)}
		there[c.Name] = slices.Collect(s.state.PodsOn(c.Name))
	}
	on := func(node string) ([]*v1.Pod, error) {
		if pods, ok := there[node]; ok {
			return pods, nil
		}
		return nil, fmt.Errorf("nodeinfo not found for node name %q", node)
	}
	pod, x := a.pod.Obj, a.advice
	parked = lane.Ask(ctx, a.pod, func(ctx context.Context) func() {
		left, err := extender.Shrink(ctx, list, pod, victims, on)
		return func() { *x = advice{victims: left, err: err, rounds: x.rounds + 1, answered: true} }
	})
	if parked {
		s.park(a)
	}
	return parked, nil
}
