package conformance

import (
	"context"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// roomGiven is what upstream tells a member that fits while pods have to leave for the pod group as a whole.
const roomGiven = "pod group is unschedulable"

// look notes how ours has given the pod group room, where it has.
func (a *attempt) look() {
	for _, d := range a.decisions {
		kept := strings.HasPrefix(d.Message, held) // its nomination, from an earlier attempt
		a.room = a.room || a.whole && d.Nominated != "" && d.Node == "" && !kept
		a.alone = a.alone || a.whole && len(d.Victims) > 0
	}
}

// makeRoom lets the pods go that leave for the pod group as a whole.
func (a *attempt) makeRoom() error {
	for _, d := range a.decisions {
		var err error
		switch {
		case a.alone && len(d.Victims) > 0:
			err = a.preempts(a.upstream.Pending(types.UID(d.UID)), d)
		case a.room && !a.alone:
			err = a.evict(d.evicted)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compareRoom compares whether pods leave for the pod group as a whole, and which, where ours promises the same: the members are alike, and
// need nothing but what they request.
func (a *attempt) compareRoom(ctx context.Context) error {
	g := a.upstream.PodGroup(a.members[0])
	if !a.whole || a.failed || a.succeeded() || g == nil {
		return nil
	}
	if g.Spec.SchedulingConstraints == nil && (!a.alike() || a.apart() || a.sameUnits() || a.severalBudgets()) {
		a.result.GroupUncompared++
		return nil
	}
	want, err := a.upstream.PreemptGroup(ctx, a.members)
	if err != nil {
		return err
	}
	var got []string
	for _, d := range a.decisions {
		for _, name := range d.evicted {
			if pod := a.api.podNamed(name); pod == nil || pod.DeletionTimestamp == nil { // upstream tells no pod again that leaves
				got = append(got, name)
			}
		}
	}
	slices.Sort(got)
	switch {
	case a.room != (want.Refused == ""):
		a.differs(a.decisions[0], "room for the pod group", map[bool]string{true: strings.Join(got, " ") + " leave", false: "none"}[a.room],
			want.Refused+strings.Join(want.Victims, " "))
	case !slices.Equal(got, want.Victims):
		a.differs(a.decisions[0], "victims of the pod group", strings.Join(got, " "), strings.Join(want.Victims, " "))
	case a.room:
		a.result.GroupPreemptions++
	default:
		a.result.GroupRefusals++
	}
	return nil
}

// alike tells whether all members ask for the same, and whether a node takes them by what they request and by what it is.
func (a *attempt) alike() bool {
	first := a.members[0]
	s := &first.Spec
	if hasHostPorts(first) || len(s.Volumes) > 0 || len(s.ResourceClaims) > 0 || len(s.TopologySpreadConstraints) > 0 ||
		s.Affinity != nil && (s.Affinity.PodAffinity != nil || s.Affinity.PodAntiAffinity != nil) {
		return false
	}
	return !slices.ContainsFunc(a.members[1:], func(p *v1.Pod) bool {
		return !reflect.DeepEqual(p.Spec, first.Spec) || !reflect.DeepEqual(p.Labels, first.Labels)
	})
}

func hasHostPorts(p *v1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c v1.Container) bool { return len(c.Ports) > 0 })
}

// apart tells whether pods may keep members away from nodes that they are on.
func (a *attempt) apart() bool {
	for _, obj := range a.api.objects {
		if p, ok := obj.(*v1.Pod); ok && p.Spec.Affinity != nil && p.Spec.Affinity.PodAntiAffinity != nil {
			return true
		}
	}
	return false
}

// sameUnits tells whether two pod groups that leave as a whole are equal but for their start: upstream's is any.
func (a *attempt) sameUnits() bool {
	type unit struct {
		priority int32
		pods     int
	}
	pods, seen := map[*schedulingv1alpha2.PodGroup]int{}, map[unit]bool{}
	for _, obj := range a.api.objects {
		if p, ok := obj.(*v1.Pod); ok && a.upstream.Placed(p.UID) != nil {
			if g := a.leavesWhole(p); g != nil {
				pods[g]++
			}
		}
	}
	for g, n := range pods {
		u := unit{pods: n}
		if g.Spec.Priority != nil {
			u.priority = *g.Spec.Priority
		}
		if n > 1 && seen[u] {
			return true
		}
		seen[u] = true
	}
	return false
}

// severalBudgets tells whether disruption budgets may be charged by more than one pod of a unit, or a pod charge several of them: how
// upstream charges them goes by the order of a map.
func (a *attempt) severalBudgets() bool {
	var budgets []*policyv1.PodDisruptionBudget
	for _, obj := range a.api.objects {
		if b, ok := obj.(*policyv1.PodDisruptionBudget); ok {
			budgets = append(budgets, b)
		}
	}
	for _, obj := range a.api.objects {
		p, ok := obj.(*v1.Pod)
		if !ok || a.upstream.Placed(p.UID) == nil {
			continue
		}
		n := 0
		for _, b := range budgets {
			s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err == nil && b.Namespace == p.Namespace && s.Matches(labels.Set(p.Labels)) {
				n++
			}
		}
		if n > 1 || n > 0 && a.leavesWhole(p) != nil {
			return true
		}
	}
	return false
}

// leavesWhole is the pod group that a pod leaves with; nil: it leaves by itself.
func (a *attempt) leavesWhole(p *v1.Pod) *schedulingv1alpha2.PodGroup {
	g := a.upstream.PodGroup(p)
	if g == nil || g.Spec.DisruptionMode == nil || *g.Spec.DisruptionMode != schedulingv1alpha2.DisruptionModePodGroup {
		return nil
	}
	return g
}
