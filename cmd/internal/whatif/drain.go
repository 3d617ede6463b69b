package whatif

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// budget is a PodDisruptionBudget with its selector.
type budget struct {
	ref      objects.Ref
	object   *policyv1.PodDisruptionBudget
	selector labels.Selector
}

// budgetsIn are those of a namespace, by name.
func (c *Cluster) budgetsIn(namespace string) []*budget {
	if c.budgets == nil {
		c.budgets = map[string][]*budget{}
		for ref, obj := range c.objects {
			b, ok := obj.(*policyv1.PodDisruptionBudget)
			if !ok {
				continue
			}
			selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err != nil {
				continue // an API server has no such budget
			}
			c.budgets[ref.Namespace] = append(c.budgets[ref.Namespace], &budget{ref, b, selector})
		}
		for _, all := range c.budgets {
			slices.SortFunc(all, func(a, b *budget) int { return compareNames(a.ref, b.ref) })
		}
	}
	return c.budgets[namespace]
}

func compareNames(a, b objects.Ref) int {
	return compareKeys(Key{"", a.Namespace, a.Name}, Key{"", b.Namespace, b.Name})
}

// budgetsOf are those that count a pod.
func (c *Cluster) budgetsOf(p *pod) (of []*budget) {
	for _, b := range c.budgetsIn(p.obj.Namespace) {
		if b.selector.Matches(labels.Set(p.obj.Labels)) {
			of = append(of, b)
		}
	}
	return of
}

// standing is how many pods of a budget are healthy, and how many have to be: what the disruption controller works out
// (k8s.io/kubernetes/pkg/controller/disruption). ok is false where a percentage, or maxUnavailable, is of pods without a controller that
// has a scale: the budget allows nothing then.
func (c *Cluster) standing(b *budget) (healthy, desired int, ok bool) {
	owners := map[Key]bool{}
	count, scalable := 0, true
	for owner, pods := range c.owned {
		if owner.Namespace != b.ref.Namespace {
			continue
		}
		for _, p := range pods {
			if !b.selector.Matches(labels.Set(p.obj.Labels)) {
				continue
			}
			count++
			if p.ready {
				healthy++
			}
			owner := c.keeper(p.owner)
			owners[owner] = true
			switch owner.Kind {
			case "Pod", "Job", "DaemonSet", "Node":
				scalable = false
			}
		}
	}
	scale := 0
	for owner := range owners {
		if w := c.workloads[owner]; w != nil {
			scale += w.wants(c)
		}
	}
	switch s := &b.object.Spec; {
	case s.MaxUnavailable != nil:
		return healthy, max(0, scale-scaled(s.MaxUnavailable, scale, true)), scalable
	case s.MinAvailable != nil && s.MinAvailable.Type == 0:
		return healthy, s.MinAvailable.IntValue(), true
	case s.MinAvailable != nil:
		return healthy, scaled(s.MinAvailable, scale, true), scalable
	}
	return healthy, count, true
}

// counts tells whether a budget has any pods.
func (c *Cluster) counts(b *budget) bool {
	for owner, pods := range c.owned {
		if owner.Namespace == b.ref.Namespace && slices.ContainsFunc(pods, func(p *pod) bool {
			return b.selector.Matches(labels.Set(p.obj.Labels))
		}) {
			return true
		}
	}
	return false
}

// breakBudgets notes the budgets that a pod's preemption has broken.
func (c *Cluster) breakBudgets(p *pod) {
	if !p.ready {
		return
	}
	for _, b := range c.budgetsOf(p) {
		healthy, desired, _ := c.standing(b)
		if least, was := c.broken[b.ref]; healthy < desired && (!was || healthy < least) {
			c.broken[b.ref] = healthy
		}
	}
}

// refusal is why the eviction API does not let a pod go; empty: it does.
func (c *Cluster) refusal(p *pod) string {
	of := c.budgetsOf(p)
	if p.node == "" || len(of) == 0 {
		return ""
	}
	if len(of) > 1 {
		return fmt.Sprintf("more than one PodDisruptionBudget counts it, %s and %s: the eviction API evicts no such pod", of[0].ref.Name,
			of[1].ref.Name)
	}
	b := of[0]
	healthy, desired, ok := c.standing(b)
	name := b.ref.Namespace + "/" + b.ref.Name
	policy := or(b.object.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget)
	switch {
	case !p.ready && (policy == policyv1.AlwaysAllow || ok && healthy >= desired && desired > 0):
		return ""
	case !ok:
		return fmt.Sprintf("PodDisruptionBudget %s allows no eviction: it is of pods whose controller has no scale", name)
	case healthy <= desired:
		return fmt.Sprintf("PodDisruptionBudget %s allows no eviction: %d pods are healthy, and %d have to be", name, healthy, desired)
	}
	return ""
}

// drain empties a node as `kubectl drain --ignore-daemonsets --delete-emptydir-data --force` does: pod by pod, as budgets allow, again and
// again while pods go.
type drain struct {
	node string
	// left is why pods are still there, by namespace/name.
	left map[string]string
	// forced are pods without a controller: kubectl asks for --force, and nobody makes them again.
	forced []string
	// daemons stay.
	daemons int
}

func (d *drain) step(c *Cluster) (did bool) {
	d.left, d.daemons = map[string]string{}, 0
	for _, p := range c.on(d.node) {
		switch {
		case p.owner.Kind == "DaemonSet" && c.workloads[p.owner] != nil, isMirror(p.obj):
			d.daemons++
			continue
		}
		if why := c.refusal(p); why != "" {
			d.left[p.key()] = why
			continue
		}
		if p.owner.Kind == "Pod" {
			d.forced = append(d.forced, p.key())
		}
		c.evicted(p)
		did = true
	}
	return did
}

func isMirror(p *v1.Pod) bool {
	_, is := p.Annotations[v1.MirrorPodAnnotationKey]
	return is
}

// Drain is what draining a node has come to.
type Drain struct {
	Node string `json:"node"`
	// Left are the pods that could not be evicted, and why.
	Left []Left `json:"left,omitempty"`
	// Forced are pods that nobody makes again.
	Forced []string `json:"forced,omitempty"`
	// Daemons are pods of DaemonSets, and of the kubelet itself. They stay.
	Daemons int `json:"daemons"`
}

// Left is a pod, namespace/name, that is not evicted.
type Left struct {
	Pod string `json:"pod"`
	Why string `json:"why"`
}

func (d *drain) report() Drain {
	out := Drain{Node: d.node, Forced: d.forced, Daemons: d.daemons}
	for _, name := range slices.Sorted(maps.Keys(d.left)) {
		out.Left = append(out.Left, Left{name, d.left[name]})
	}
	return out
}
