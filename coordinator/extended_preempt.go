package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/scorer"
)

// Extenders may have a say in whom a pod puts out, too: they are shown the best candidates, and leave
// some of them, with these or other victims. They are asked behind the loop, in lanes as for filters:
//
//	decide ── no node ── candidates ──park──> asked ──resume──> decide ── no node ── which of those that
//	                                                  they have left are candidates now: the best one
//
// Where none is any more, they are asked again, about the candidates of now.
//
// Differs from upstream: of the nodes that an extender leaves, those that are no candidates by then are
// passed over, as are those with a victim that is gone, or of no lower priority. It may name nodes that
// it was shown only. Nodes that an extender's filter refuses are no candidates.

// noCandidate is upstream's text where extenders leave nothing.
const noCandidate = "no candidate node for preemption"

// shrunk is what extenders have left of candidates.
type shrunk struct {
	victims map[string]*extenderv1.Victims
	err     error
	// rounds is how often they were asked in this attempt, and answered says that they have.
	rounds   int
	answered bool
}

// preemptAdvised is DefaultPreemption for a pod whose preemption extenders have a say in. Where they are
// to be asked first the attempt is parked, and nobody reads its status.
func (s *Scheduler) preemptAdvised(ctx context.Context, a *attempt, p *answers.Answer, list []*extender.Extender) (*fwk.PostFilterResult, *fwk.Status, []*v1.Pod, error) {
	nominees := s.nominees(a.pod.Obj, a.class)
	if a.shrunk == nil {
		a.shrunk = &shrunk{}
	}
	for {
		if x := a.shrunk; x.answered {
			node, victims := s.bestAdvised(ctx, a, p, nominees)
			switch {
			case x.err != nil:
				return nil, fwk.NewStatus(fwk.Error, preempt.Prefix+x.err.Error()), nil, nil
			case node != "":
				return preempt.Nominate(node), nil, victims, nil
			case len(x.victims) == 0 || x.rounds >= extenders.MaxRounds:
				return nil, preempt.Unhelpful(noCandidate), nil, nil
			}
		}
		found, err := s.findCandidates(ctx, a, p, nominees, a.prof.Candidates(s.cache.Nodes()))
		if err != nil {
			return nil, fwk.NewStatus(fwk.Error), nil, err
		}
		if len(found.list) == 0 {
			r, status := s.nobody(found)
			return r, status, nil, nil
		}
		shown := found.list[:min(a.prof.Candidates(found.all.Tried), len(found.list))]
		if parked, err := s.askPreempters(ctx, a, list, shown); parked || err != nil {
			return nil, fwk.NewStatus(fwk.Error), nil, err
		}
	}
}

// askPreempters asks extenders about candidates, or parks the attempt until they have answered, or
// until its turn.
func (s *Scheduler) askPreempters(ctx context.Context, a *attempt, list []*extender.Extender, candidates []*scorer.PreemptionCandidate) (parked bool, err error) {
	lane := s.extenders.Lane("preempt", list)
	if !lane.Turn(a.pod) {
		s.park(a)
		return true, nil
	}
	victims := make(map[string]*extenderv1.Victims, len(candidates))
	there := make(map[string][]*v1.Pod, len(candidates))
	for _, c := range candidates {
		pods, err := s.victimsOf(a.pod.Obj, c)
		if err != nil {
			return false, err
		}
		victims[c.Name] = &extenderv1.Victims{Pods: pods, NumPDBViolations: int64(c.Violations)}
		there[c.Name] = slices.Collect(s.cache.PodsOn(c.Name))
	}
	on := func(node string) ([]*v1.Pod, error) {
		if pods, ok := there[node]; ok {
			return pods, nil
		}
		return nil, fmt.Errorf("nodeinfo not found for node name %q", node)
	}
	pod, x := a.pod.Obj, a.shrunk
	parked = lane.Ask(ctx, a.pod, func(ctx context.Context) func() {
		left, err := extender.Shrink(ctx, list, pod, victims, on)
		return func() { *x = shrunk{victims: left, err: err, rounds: x.rounds + 1, answered: true} }
	})
	if parked {
		s.park(a)
	}
	return parked, nil
}

// bestAdvised is the best of the nodes that extenders have left and that are candidates now, with the
// victims that they want, where these are there and may be put out; "": there is none.
func (s *Scheduler) bestAdvised(ctx context.Context, a *attempt, p *answers.Answer, nominees []*nominee) (string, []*v1.Pod) {
	var best *scorer.PreemptionCandidate
	var victims []*v1.Pod
	if p == nil {
		return "", nil
	}
	asked, with := s.askHere(a, p), byRow(nominees)
	for _, name := range slices.Sorted(maps.Keys(a.shrunk.victims)) {
		pods := s.putOut(a.pod.Obj, name, a.shrunk.victims[name].Pods)
		if len(pods) == 0 {
			continue
		}
		c := s.candidateAt(ctx, a, p, asked, with, name)
		if c == nil {
			continue
		}
		if c = s.withVictims(c, pods, a.shrunk.victims[name].NumPDBViolations); best == nil || scorer.BeforeCandidate(c, best) {
			best, victims = c, pods
		}
	}
	if best == nil {
		return "", nil
	}
	return best.Name, victims
}

// putOut are victims as they are now; nothing where one of them is not on the node any more, or may
// not be put out.
func (s *Scheduler) putOut(by *v1.Pod, node string, victims []*v1.Pod) []*v1.Pod {
	out := make([]*v1.Pod, 0, len(victims))
	for _, v := range victims {
		now, on, _ := s.cache.Pod(v.UID)
		if on != node || compile.Priority(now) >= compile.Priority(by) {
			return nil
		}
		out = append(out, now)
	}
	return out
}

// withVictims is a candidate with other victims, most important first.
func (s *Scheduler) withVictims(c *scorer.PreemptionCandidate, pods []*v1.Pod, violations int64) *scorer.PreemptionCandidate {
	x := *c
	x.Victims = make([]uint64, len(pods))
	x.Violations, x.TopPriority, x.PrioritySum = int(violations), compile.Priority(pods[0]), 0
	for i, p := range pods {
		x.PrioritySum += uint64(int64(compile.Priority(p)) + 1<<31)
		if compile.Priority(p) != x.TopPriority {
			continue
		}
		start := s.cfg.QueueNow().UnixMicro()
		if p.Status.StartTime != nil {
			start = p.Status.StartTime.UnixMicro()
		}
		if i == 0 || start < x.EarliestStart {
			x.EarliestStart = start
		}
	}
	return &x
}
