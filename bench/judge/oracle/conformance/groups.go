package conformance

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// PodGroups are the feature gates of pod groups in a scenario, and whether room is held for the first that can't start, which upstream
// doesn't do: there, its members are nominated.
type PodGroups struct {
	Topology    bool `json:"topology,omitempty"`
	Preemption  bool `json:"preemption,omitempty"`
	Reservation bool `json:"reservation,omitempty"`
}

// ours are the gates as our scheduler has them.
func (p *PodGroups) ours() groups.Gates {
	if p == nil {
		return groups.Gates{}
	}
	return groups.Gates{Workload: true, Gang: true, Topology: p.Topology, Preemption: p.Preemption}
}

// open switches upstream's gates on for as long as a scenario runs.
func (p *PodGroups) open() (restore func(), err error) {
	if p == nil {
		return func() {}, nil
	}
	return oracle.PodGroups(oracle.Gates{Topology: p.Topology, Preemption: p.Preemption})
}

// groupFamily makes pods members of pod groups: gangs whose members are alike or of several classes, all of whom have to fit or
// fewer, and pod groups of the basic policy; some for a domain, some that come after their pods, or never.
type groupFamily struct {
	g    *generator
	open []*schedulingv1alpha2.PodGroup // that may get more members
	made int
	// tight says that nodes take few pods, so that gangs are short of room, and preempts that pods of lower priority make some: in some
	// scenarios for a pod group as a whole.
	tight, preempts bool
	// mates are the first members of pod groups.
	mates map[types.UID]*v1.Pod
	// late are those that come later.
	late []*schedulingv1alpha2.PodGroup
}

func newGroupFamily(g *generator) *groupFamily {
	f := &groupFamily{g: g, mates: map[types.UID]*v1.Pod{}, preempts: !g.hasDevices() && g.chance(map[bool]int{true: 70, false: 35}[g.long])}
	if g.groups.Reservation = g.long && g.chance(20); g.groups.Reservation { // else nominations may be those of preemption
		f.preempts = false
	}
	f.tight = f.preempts || g.chance(50)
	spreads := slices.ContainsFunc(g.families, func(f family) bool { _, is := f.(*defaultsFamily); return is })
	g.groups.Preemption = g.long && f.preempts && !spreads && g.chance(50)
	return f
}

// first are disruption budgets where pod groups preempt as a whole.
func (f *groupFamily) first() Round {
	if !f.g.groups.Preemption {
		return nil
	}
	return (&preemptionFamily{g: f.g}).first()
}

// node says where a node is: pod groups ask for domains.
func (f *groupFamily) node(n *v1.Node) {
	f.g.place(n)
	if f.tight {
		n.Status.Allocatable[v1.ResourcePods] = resource.MustParse(oneOf(f.g.strange, "1", "2", "3", "5"))
	}
}

func (f *groupFamily) pod(p *v1.Pod) Round {
	if !f.preempts {
		p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	}
	if f.g.long && f.preempts && f.g.chance(30) { // those that come later may preempt those that were first
		p.Spec.Priority = ptr.To(int32(f.g.started))
	}
	if f.g.groups.Preemption && f.g.chance(60) {
		metav1.SetMetaDataLabel(&p.ObjectMeta, "tier", (&preemptionFamily{g: f.g}).tier())
	}
	if p.Spec.NodeName == "unknown" || !f.g.chance(map[bool]int{true: 75, false: 15}[p.Spec.NodeName == ""]) {
		return nil
	}
	return f.join(p)
}

// join makes a pod a member, of a pod group of its namespace that there is or of a new one.
func (f *groupFamily) join(p *v1.Pod) (out Round) {
	i := slices.IndexFunc(f.open, func(g *schedulingv1alpha2.PodGroup) bool { return g.Namespace == p.Namespace })
	if i < 0 || f.g.chance(15) {
		group, late := f.group(p.Namespace)
		f.open = append(f.open, group)
		i = len(f.open) - 1
		if late {
			f.late = append(f.late, group)
		} else {
			out = append(out, set(group))
		}
	}
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To(f.open[i].Name)}
	if first := f.mates[f.open[i].UID]; first == nil {
		f.mates[f.open[i].UID] = p
	} else if f.g.groups.Preemption && f.g.chance(85) {
		node := p.Spec.NodeName
		p.Labels, p.Spec = maps.Clone(first.Labels), *first.Spec.DeepCopy()
		p.Spec.NodeName = node
	}
	if f.g.chance(20) {
		f.open = slices.Delete(f.open, i, i+1)
	}
	return out
}

// group is a new pod group, which comes late where that is said.
func (f *groupFamily) group(namespace string) (group *schedulingv1alpha2.PodGroup, late bool) {
	f.made++
	name := fmt.Sprintf("group-%d", f.made)
	b := build.Gang(name, int32(1+f.g.IntN(6)))
	if f.g.chance(15) {
		b = build.PodGroup(name)
	}
	b.Namespace(namespace)
	if f.g.groups.Preemption {
		b.Priority(oneOf(f.g.strange, 0, 100, 2_000_000_000, int32(f.g.started), int32(f.g.started)))
		if f.g.chance(40) {
			b.Whole()
		}
	}
	if f.g.groups.Topology && f.g.chance(map[bool]int{true: 10, false: 50}[f.g.groups.Preemption]) {
		b.Within(oneOf(f.g.strange, v1.LabelTopologyZone, v1.LabelTopologyRegion, rack, rack, rack, "zone", "example.com/nowhere"))
	}
	return b.Obj(), f.g.chance(8)
}

// twin has the mates of a class come together.
func (f *groupFamily) twin(_, _ *v1.Pod) Round { return nil }

// change brings a pod group that is late, or a mate.
func (f *groupFamily) change() Round {
	if len(f.late) > 0 && f.g.chance(50) {
		group := f.late[0]
		f.late = f.late[1:]
		return Round{set(group)}
	}
	i := slices.IndexFunc(f.g.pods, func(p *v1.Pod) bool { return p.Spec.SchedulingGroup != nil && f.g.chance(20) })
	if i < 0 {
		return f.g.addPod()
	}
	f.g.made++
	name := fmt.Sprintf("mate-%d", f.g.made)
	return Round{f.g.add(f.g.twin(f.g.pods[i], build.Pod(name).Obj()))}
}

// besideGroups are the families that scenarios of pod groups have beside.
func besideGroups() []Family {
	return []Family{Gates, Profiles, Spread, Defaults, Affinity, Disks, Features, Devices}
}
