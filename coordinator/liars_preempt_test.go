package coordinator

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// drawPreemption makes full nodes, pods of many priorities that come in two batches, and budgets.
func drawPreemption(t *rapid.T, claims bool) scene {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 8))
	c := build.Crowd(r, build.CrowdSize{
		Nodes:   rapid.IntRange(1, 8).Draw(t, "nodes"),
		Present: rapid.IntRange(0, 30).Draw(t, "present"),
		Pending: rapid.IntRange(1, 30).Draw(t, "pods"),
		Kinds:   rapid.IntRange(1, 5).Draw(t, "kinds"),
		Claims:  claims,
	})
	for _, n := range c.Nodes {
		n.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(int64(1+r.IntN(5)), resource.DecimalSI)
	}
	never := v1.PreemptNever
	for i, p := range slices.Concat(c.Present, c.Pending) {
		priority := int32(10 * r.IntN(4))
		p.Spec.Priority = &priority
		if r.IntN(8) == 0 {
			p.Spec.PreemptionPolicy = &never
		}
		if i < len(c.Present) {
			start := metav1.Unix(int64(1+r.IntN(1<<30)), 0)
			p.Status.StartTime = &start
			p.DeletionTimestamp = nil
		}
	}
	for _, name := range []string{"one", "two"}[:r.IntN(3)] {
		c.Others = append(c.Others, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: build.Selector([]string{"app=a", "app in (a,b)", "app notin (a)"}[r.IntN(3)])},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(r.IntN(3))},
		})
	}
	for _, obj := range c.Others { // of which upstream takes one pod at a time for granted
		if claim, ok := obj.(*v1.PersistentVolumeClaim); ok && slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod) {
			claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		}
	}
	first := r.IntN(len(c.Pending) + 1)
	return scene{nodes: c.Nodes, present: c.Present, pending: c.Pending[:first], later: c.Pending[first:], others: c.Others, profiles: withPreemption()}
}

// nominateTo takes in to which node a pod that waits is nominated; "": to none.
func (o *oneByOne) nominateTo(left map[string]*v1.Pod, p *v1.Pod, node string) {
	p = p.DeepCopy()
	p.Status.NominatedNodeName = node
	left[string(p.UID)] = p
	delete(o.nominated, p.UID)
	o.nominate([]*v1.Pod{p})
}

// takes tells whether a node takes a pod.
func (o *oneByOne) takes(p *v1.Pod, node string) bool {
	class, err := o.compile(p)
	if err != nil || class.Rejected != nil {
		return false
	}
	kept := o.keptFrom(p)
	class, err = o.compile(p)
	o.must(nil, err)
	row, _ := o.state.RowOf(node)
	return o.look(class, kept, func(r uint32) bool { return r == row.Index }).feasible > 0
}

// victims are the pods that leave a node for a pod that it does not take, most important first, as upstream
// finds them: all of lower priority leave, and come back one by one as long as the pod fits. none: that is of no use.
func (o *oneByOne) victims(p *v1.Pod, node string) (out []string) {
	if p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever {
		return nil
	}
	var lower []*v1.Pod
	for other := range o.state.PodsOn(node) {
		if compile.Priority(other) < compile.Priority(p) {
			lower = append(lower, other)
		}
	}
	start := func(p *v1.Pod) int64 {
		if p.Status.StartTime == nil {
			return epoch.UnixMicro()
		}
		return p.Status.StartTime.UnixMicro()
	}
	slices.SortFunc(lower, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(compile.Priority(b), compile.Priority(a)), cmp.Compare(start(a), start(b)), cmp.Compare(o.placed[a.UID], o.placed[b.UID]))
	})
	if len(lower) == 0 {
		return nil
	}
	o.leave(lower)
	fits := o.takes(p, node)
	victim := map[types.UID]bool{}
	violating := o.violating(lower)
	for _, against := range []bool{true, false} {
		for _, x := range lower {
			if violating[x.UID] != against {
				continue
			}
			o.must(o.state.SetPod(withNode(x, node)))
			if victim[x.UID] = fits && !o.takes(p, node); victim[x.UID] {
				o.leave([]*v1.Pod{x})
			}
		}
	}
	for _, x := range lower {
		if victim[x.UID] {
			o.must(o.state.SetPod(withNode(x, node)))
			out = append(out, x.Namespace+"/"+x.Name)
		}
	}
	return out
}

// violating are the pods of a list that leave against a budget.
func (o *oneByOne) violating(list []*v1.Pod) map[types.UID]bool {
	out, allowed := map[types.UID]bool{}, map[string]int32{}
	for _, p := range list {
		for _, obj := range o.others {
			b, ok := obj.(*policyv1.PodDisruptionBudget)
			if !ok || b.Namespace != p.Namespace {
				continue
			}
			if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err != nil || !s.Matches(labels.Set(p.Labels)) {
				continue
			}
			allowed[b.Name]++
			out[p.UID] = out[p.UID] || allowed[b.Name] > b.Status.DisruptionsAllowed
		}
	}
	return out
}

// leave takes pods away.
func (o *oneByOne) leave(list []*v1.Pod) {
	for _, p := range list {
		_, _, err := o.state.RemovePod(p)
		o.must(nil, err)
	}
}

// checkRefused holds what a decision without a node has done to others: pods leave the node that the pod is
// nominated to then as upstream has them leave, or no node would help it.
func (o *oneByOne) checkRefused(left map[string]*v1.Pod, p *v1.Pod, got observe.DecisionLine) (evicted int) {
	if got.Nominated == "" {
		o.checkHelpless(p, got.Message)
		if p.Spec.PreemptionPolicy == nil {
			o.nominateTo(left, p, "")
		}
		return 0
	}
	if d := gocmp.Diff(o.victims(p, got.Nominated), got.Victims); d != "" || len(got.Victims) == 0 {
		o.t.Fatalf("decision %d: victims of pod %s on node %s (-want +got):\n%s", got.Seq, got.Pod, got.Nominated, d)
	}
	var leaving []*v1.Pod
	for x := range o.state.PodsOn(got.Nominated) {
		if slices.Contains(got.Victims, x.Namespace+"/"+x.Name) {
			leaving = append(leaving, x)
		}
	}
	o.leave(leaving)
	for _, other := range left {
		if other.Status.NominatedNodeName == got.Nominated && compile.Priority(other) < compile.Priority(p) {
			o.nominateTo(left, other, "")
		}
	}
	o.nominateTo(left, p, got.Nominated)
	return len(leaving)
}

// checkHelpless holds that a pod which no node takes has no victims anywhere.
func (o *oneByOne) checkHelpless(p *v1.Pod, message string) {
	for n := range o.state.Objects() {
		if v := o.victims(p, n.Name); len(v) > 0 {
			o.t.Fatalf("pod %s waits (%s), and would fit on node %s without %s", p.Name, message, n.Name, strings.Join(v, " "))
		}
	}
}
