package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/scorer"
)

// Extenders may have a say in whom a pod puts out, too: they are shown the best candidates, as many as
// a dry run has, and leave some of them, with these or other victims. They are asked behind the loop:
//
//	decide ── no node ── candidates ──park──> asked ──resume──> decide ── no node ── candidates of now
//	                                                                 that they have left: the best one
//
// Differs from upstream: an extender may not name nodes that are no candidates. Nodes that an extender's
// filter refuses are none.

// noCandidate is upstream's text where extenders leave nothing.
const noCandidate = "no candidate node for preemption"

// shrunk is what extenders have left of candidates.
type shrunk struct {
	victims map[string]*extenderv1.Victims
	err     error
}

// preemptAdvised is DefaultPreemption for a pod whose preemption extenders have a say in. Where they are
// to be asked first the attempt is parked, and its verdict is nobody's.
func (s *Scheduler) preemptAdvised(ctx context.Context, a *attempt, p *pick, list []*extender.Extender) (preempt.Verdict, []*v1.Pod, error) {
	nominees := s.nominees(a.pod.Obj, a.class)
	best, rest, err := s.bestCandidate(ctx, a, p, nominees)
	switch {
	case err != nil:
		return preempt.Verdict{}, nil, err
	case best == nil:
		return preempt.Verdict{Text: preempt.Prefix + s.noCandidates(rest), Nominating: &preempt.Nominating{}}, nil, nil
	}
	candidates := s.wave.candidates(s.judgeNominated(s.wave, a, p, nominees))
	if a.shrunk == nil && s.askPreempters(ctx, a, list, candidates) {
		return preempt.Verdict{Code: preempt.Error}, nil, nil
	}
	if a.shrunk.err != nil {
		return preempt.Verdict{Code: preempt.Error, Text: preempt.Prefix + a.shrunk.err.Error()}, nil, nil
	}
	node, victims := s.bestAdvised(a, candidates)
	if node == "" {
		return preempt.Verdict{Text: preempt.Prefix + noCandidate}, nil, nil
	}
	return preempt.Verdict{Code: preempt.Success, Nominating: &preempt.Nominating{Node: node}}, victims, nil
}

// candidates are those of a dry run that a pod may have, by node. own are the rows that were judged
// here.
func (w *wave) candidates(own []*judgedRow) map[string]*scorer.PreemptionCandidate {
	out := map[string]*scorer.PreemptionCandidate{}
	for i := range w.found.Candidates {
		c := &w.found.Candidates[i]
		if w.judged[cache.Row{Shard: c.Shard, Index: c.Row}] == nil {
			out[c.Name] = c
		}
	}
	for _, r := range own {
		if c := r.result.Best(); c != nil {
			out[c.Name] = c
		}
	}
	return out
}

// askPreempters asks extenders about candidates, and parks the attempt until they have answered.
func (s *Scheduler) askPreempters(ctx context.Context, a *attempt, list []*extender.Extender, candidates map[string]*scorer.PreemptionCandidate) (parked bool) {
	victims := make(map[string]*extenderv1.Victims, len(candidates))
	there := make(map[string][]*v1.Pod, len(candidates))
	for name, c := range candidates {
		v := &extenderv1.Victims{NumPDBViolations: int64(c.Violations)}
		for _, number := range c.Victims {
			if pod, _ := s.cache.PodNumbered(number); pod != nil {
				v.Pods = append(v.Pods, pod)
			}
		}
		victims[name], there[name] = v, slices.Collect(s.cache.PodsOn(name))
	}
	on := func(node string) ([]*v1.Pod, error) {
		if pods, ok := there[node]; ok {
			return pods, nil
		}
		return nil, fmt.Errorf("nodeinfo not found for node name %q", node)
	}
	pod := a.pod.Obj
	ask := func(ctx context.Context) *shrunk {
		left, err := extender.Shrink(ctx, list, pod, victims, on)
		return &shrunk{left, err}
	}
	if s.extenders.inline {
		a.shrunk = ask(ctx)
		return false
	}
	kept, life := s.park(a), s.life
	a.away = true
	s.extenders.calls.Go(func() {
		kept.shrunk = ask(life)
		if life.Err() == nil {
			s.resume(kept, kept.answer)
		}
	})
	return true
}

// bestAdvised is the best of the nodes that extenders have left and that are candidates yet, with the
// victims that they want, as far as these are there and may be put out; "": there is none.
func (s *Scheduler) bestAdvised(a *attempt, candidates map[string]*scorer.PreemptionCandidate) (string, []*v1.Pod) {
	var best *scorer.PreemptionCandidate
	var victims []*v1.Pod
	for _, name := range slices.Sorted(maps.Keys(a.shrunk.victims)) {
		c := candidates[name]
		pods := s.putOut(a.pod.Obj, name, a.shrunk.victims[name].Pods)
		if c == nil || len(pods) == 0 {
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
