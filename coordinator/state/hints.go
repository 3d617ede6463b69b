package state

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Hints gives the queue's hints what they read of profiles and of the cluster.
type Hints struct {
	State    *State
	Profiles map[string]*compile.Profile
	// Preemptors are the pods whose victims are being told to leave.
	Preemptors map[types.UID]struct{}
	// WholeGangs: pod groups may leave whole for single pods.
	WholeGangs bool
}

var _ queue.Profiles = Hints{}

// AddedAffinity is part of queue.Profiles.
func (h Hints) AddedAffinity(p *v1.Pod) *nodeaffinity.NodeSelector {
	if prof := h.Profiles[p.Spec.SchedulerName]; prof != nil {
		return prof.AddedAffinity()
	}
	return nil
}

// HoldsBack is part of queue.Profiles.
func (h Hints) HoldsBack(p *v1.Pod, plugin string) bool {
	prof := h.Profiles[p.Spec.SchedulerName]
	switch {
	case prof == nil:
		return true
	case plugin == rules.DynamicResources:
		return prof.AllocatesDevices()
	case plugin == rules.GangScheduling:
		return prof.PodGroups().Gates
	}
	return plugin != rules.SchedulingGates || !prof.IgnoresGates()
}

var _ queue.KnowsClaims = Hints{}

// Claims is part of queue.KnowsClaims.
func (h Hints) Claims() queue.Claims {
	if h.State.devices == nil {
		return nil
	}
	return h.State.devices
}

var _ queue.KnowsGroups = Hints{}

// Groups is part of queue.KnowsGroups.
func (h Hints) Groups() *groups.Groups { return h.State.groups }

// MayPreempt is part of queue.KnowsGroups.
func (h Hints) MayPreempt(p *v1.Pod) bool {
	prof, g := h.Profiles[p.Spec.SchedulerName], h.State.groups.Of(p)
	if prof == nil || g == nil || preemptsNobody(p, prof) {
		return false
	}
	priority := compile.Priority(p)
	if spec := g.Spec(); spec != nil {
		priority = max(priority, spec.Priority) // by which of them it preempts, gates say
	}
	return h.State.HasBelow(priority) || h.WholeGangs && h.State.groups.WholeBelow(priority)
}

// preemptsNobody tells whether no pod may leave for one, whatever its priority.
func preemptsNobody(p *v1.Pod, prof *compile.Profile) bool {
	return len(prof.PostFilters()) == 0 || p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever
}

// Preempting is part of queue.Profiles.
func (h Hints) Preempting(p *v1.Pod) bool {
	if _, ok := h.Preemptors[p.UID]; !ok {
		return false
	}
	prof := h.Profiles[p.Spec.SchedulerName]
	return prof != nil && prof.GatesPreemptors()
}

// Allocatable is part of queue.Profiles.
func (h Hints) Allocatable(node string) (*pb.Resources, bool) {
	object := h.State.Node(node)
	if object == nil {
		return nil, false
	}
	return compile.Node(object).GetAllocatable(), true
}

// Room is part of queue.Profiles.
func (h Hints) Room(p *v1.Pod, requests *pb.Resources, node string) (int64, bool) {
	prof := h.Profiles[p.Spec.SchedulerName]
	row, ok := h.State.RowOf(node)
	if prof == nil || !ok {
		return 0, false
	}
	left := prof.IgnoresResource
	if d := h.State.devices; d != nil {
		left = func(name string) bool { return prof.IgnoresResource(name) || d.Serves(name) }
	}
	room := h.State.Table(int(row.Shard)).Room(row.Index, requests, left)
	if room < 1 && h.mayPreempt(p, prof, node) {
		// The room that became free may be enough together with the room of victims. One pod is tried to find out.
		room = 1
	}
	return room, true
}

// mayPreempt tells whether a node has pods that a pod may preempt.
func (h Hints) mayPreempt(p *v1.Pod, prof *compile.Profile, node string) bool {
	if preemptsNobody(p, prof) {
		return false
	}
	priority := compile.Priority(p)
	for other := range h.State.PodsOn(node) {
		if compile.Priority(other) < priority {
			return true
		}
	}
	return false
}

// DefaultConstraints is part of queue.Profiles.
func (h Hints) DefaultConstraints(p *v1.Pod) []queue.Constraint {
	prof := h.Profiles[p.Spec.SchedulerName]
	if prof == nil || len(prof.DefaultHardConstraints()) == 0 {
		return nil
	}
	found := h.State.cluster.DefaultSelector(p)
	if found == nil || found.Empty() {
		return nil
	}
	selector, err := labels.Parse(found.String())
	if err != nil {
		selector = labels.Nothing() // the selector of a Service may hold values that no label can have
	}
	var out []queue.Constraint
	for _, c := range prof.DefaultHardConstraints() {
		out = append(out, queue.Constraint{
			TopologyKey: c.TopologyKey,
			Selector:    selector,
			HonorTaints: c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor,
		})
	}
	return out
}

// CELReadsPods tells the queue whether an expression of the profile's CELFilter reads the sums
// over a node's pods.
func (h Hints) CELReadsPods(p *v1.Pod) bool {
	prof := h.Profiles[p.Spec.SchedulerName]
	return prof != nil && prof.CELReadsPods()
}
