package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// preemptionFamily makes pods of several priorities and ages, some of which preempt nobody or are
// leaving, and disruption budgets.
type preemptionFamily struct {
	g       *generator
	budgets []*policyv1.PodDisruptionBudget
}

func (f *preemptionFamily) first() (out Round) {
	for i := range f.g.IntN(5) {
		b := f.budget(fmt.Sprint("budget", i))
		f.budgets = append(f.budgets, b)
		out = append(out, set(b))
	}
	return out
}

// budget protects pods of the label tier, or of none.
func (f *preemptionFamily) budget(name string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	switch f.g.IntN(8) {
	case 0: // selects nothing
	case 1:
		b.Spec.Selector = &metav1.LabelSelector{}
	case 2:
		b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier",
			Operator: metav1.LabelSelectorOpExists}}}
	default:
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": f.tier()}}
	}
	b.Status.DisruptionsAllowed = int32(f.g.IntN(3))
	if len(f.g.pods) > 0 && f.g.chance(20) {
		b.Status.DisruptedPods = map[string]metav1.Time{oneOf(f.g.strange, f.g.pods...).Name: {Time: time.Unix(epoch, 0)}}
	}
	return b
}

func (f *preemptionFamily) tier() string { return oneOf(f.g.strange, "a", "b", "c") }

// node gives a node little room.
func (f *preemptionFamily) node(n *v1.Node) {
	n.Status.Allocatable[v1.ResourceCPU] = resource.MustParse(oneOf(f.g.strange, "500m", "1", "1500m", "2"))
	n.Status.Allocatable[v1.ResourcePods] = resource.MustParse(oneOf(f.g.strange, "3", "5", "8"))
}

func (f *preemptionFamily) pod(p *v1.Pod) Round {
	p.Spec.Priority = ptr.To(oneOf[int32](f.g.strange, 0, 0, 0, -5, 7, 7, 100, 2_000_000_000))
	if f.g.chance(60) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels["tier"] = f.tier()
	}
	if p.Spec.NodeName == "" {
		if f.g.chance(10) {
			p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
		}
		return nil
	}
	if f.g.chance(10) {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(epoch+100, 0)}
		if f.g.chance(50) {
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
				Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
			})
		}
	}
	return nil
}

// change alters a budget, makes or drops one, or changes whom one selects.
func (f *preemptionFamily) change() Round {
	if len(f.budgets) == 0 || f.g.chance(20) {
		f.budgets = append(f.budgets, f.budget(fmt.Sprint("budget", len(f.budgets))))
		return Round{set(f.budgets[len(f.budgets)-1])}
	}
	i := f.g.IntN(len(f.budgets))
	if f.g.chance(20) {
		gone := f.budgets[i]
		f.budgets = slices.Delete(f.budgets, i, i+1)
		return Round{{Type: Removed, Object: gone}}
	}
	f.budgets[i] = f.budget(f.budgets[i].Name)
	return Round{set(f.budgets[i])}
}

// postFilter holds what a decision says of preemption against upstream.
func (c *comparison) postFilter() {
	d, p := &c.decision, c.preemption
	if len(p.Candidates) == 0 && d.Nominated == "" {
		return
	}
	chosen := p.Candidates[d.Nominated]
	if chosen == nil {
		differs(c, "", "nominated node", d.Nominated, strings.Join(p.Nodes(), " or "))
		return
	}
	differs(c, d.Nominated, "victims", strings.Join(d.Victims, " "), strings.Join(chosen.Victims, " "))
	if best := p.Best(); best.Rank() != chosen.Rank() {
		differs(c, d.Nominated, "best candidate", chosen.String(), best.String())
	}
}

// preempts lets come to pass what a decision has begun: the victims go, the pod is nominated, and
// those of lower priority that were nominated to the node are not any more.
func (r *replay) preempts(pod *v1.Pod, d Decision) error {
	if err := r.evict(d.Victims); err != nil {
		return err
	}
	for _, lower := range r.upstream.ClearLower(pod.UID, d.Nominated) {
		r.api.nominate(lower, "")
	}
	r.upstream.Nominate(pod.UID, d.Nominated)
	r.api.nominate(pod, d.Nominated)
	return nil
}

// evict lets victims go.
func (r *replay) evict(victims []string) error {
	for _, name := range victims {
		victim := r.api.podNamed(name)
		if victim == nil {
			return fmt.Errorf("there is no victim %s", name)
		}
		gone := func(uid types.UID) bool { return uid == victim.UID }
		for _, e := range slices.Concat(r.api.remove(victim), r.api.reclaimFrom(gone)) {
			if err := r.apply(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// podNamed finds a pod that is there; nil: there is none.
func (a *apiServer) podNamed(text string) *v1.Pod {
	for _, obj := range a.objects {
		if pod, ok := obj.(*v1.Pod); ok && name(pod) == text {
			return pod
		}
	}
	return nil
}
