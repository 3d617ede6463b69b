package rules

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// GangScheduling has as many pods of a PodGroup start as it needs, or none.
const GangScheduling = queue.GangScheduling

func gangScheduling() *Rule {
	return &Rule{
		Name:   GangScheduling,
		Points: []framework.Point{framework.PreEnqueue, framework.Permit},
		With:   func(g groups.Gates) bool { return g.Gang },
		Loop:   true,
		Hints:  gangHints,
		Words:  gangWords(),
	}
}

// gangHints holds the members of a pod group back until there is a PodGroup and, for a gang, minCount of them. The queue is told of
// both by the pod groups, not by events.
func gangHints(profiles queue.Profiles) queue.Plugin {
	known, ok := profiles.(queue.KnowsGroups)
	if !ok || known.Groups() == nil {
		return queue.Plugin{}
	}
	return queue.Plugin{PreEnqueue: func(p *v1.Pod) string {
		if g := known.Groups().Of(p); g != nil && (g.GivenUp() || profiles.HoldsBack(p, GangScheduling)) {
			return g.Gate()
		}
		return ""
	}}
}

// The beginnings of what GangScheduling says of a member that it holds back.
const (
	saysNoPodGroup = "waiting for pods's pod group"
	saysFewExist   = "waiting for minCount pods from a gang to appear"
	saysTooLarge   = "minCount is "
	saysShort      = "pod group is unschedulable, waiting for minCount pods"
	saysPreempting = "pod group is unschedulable, pod group is waiting for preemption"
)

// gangWords: Lacks and Wants tell what the mates of a member lack.
func gangWords() *Words {
	want := func(p *v1.Pod, reasons []string) Want {
		name := "pod group"
		if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
			name += " " + short(*g.PodGroupName)
		}
		switch {
		case len(said(reasons, saysNoPodGroup)) > 0:
			return Want{Cause: name + " does not exist", Help: "nobody makes the PodGroup for the pod: it has to be created"}
		case len(said(reasons, saysFewExist)) > 0:
			return Want{Cause: name + " has fewer pods than its minCount", Help: "more pods of the pod group"}
		case len(said(reasons, saysTooLarge)) > 0:
			return Want{Cause: name + ": " + short(reasons[0]), Help: "a smaller minCount"}
		case len(said(reasons, saysShort)) > 0:
			return Want{Cause: "the pod fits, and too few pods of " + name + " do", Help: "room for its mates: explain podgroup tells how much"}
		case len(said(reasons, saysPreempting)) > 0:
			return Want{Cause: name + " waits for pods to leave", Help: "nothing: pods of lower priority are leaving"}
		}
		return Want{Cause: name + " is given up", Help: "a new pod of the pod group, or a change of its PodGroup"}
	}
	return &Words{
		Says:  []string{saysNoPodGroup, saysFewExist, saysTooLarge, saysShort, saysPreempting},
		Lacks: func(r *Refused) []string { return []string{want(r.Pod, r.Reasons).Cause} },
		Wants: func(a *Asked) []Want { return []Want{want(a.Pod, a.Reasons)} },
	}
}

// TopologyPlacementGenerator proposes the domains of a label of nodes, one of which takes all pods of a PodGroup.
const TopologyPlacementGenerator = queue.TopologyPlacementGenerator

func topologyPlacementGenerator() *Rule {
	return &Rule{
		Name:   TopologyPlacementGenerator,
		Points: []framework.Point{framework.PlacementGenerate},
		With:   func(g groups.Gates) bool { return g.Topology },
		Loop:   true,
	}
}

// PodGroupPodsCount prefers domains that take more pods of a PodGroup.
const PodGroupPodsCount = "PodGroupPodsCount"

func podGroupPodsCount() *Rule {
	return &Rule{
		Name:   PodGroupPodsCount,
		Points: []framework.Point{framework.PlacementScore},
		Weight: 1,
		With:   func(g groups.Gates) bool { return g.Topology },
		Loop:   true,
	}
}
