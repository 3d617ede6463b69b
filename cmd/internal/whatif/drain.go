package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

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
	c.findBudgets()
	return c.budgets[namespace]
}

// allBudgets are those of all namespaces, in no order.
func (c *Cluster) allBudgets() (all []*budget) {
	c.findBudgets()
	for _, in := range c.budgets {
		all = append(all, in...)
	}
	return all
}

func (c *Cluster) findBudgets() {
	if c.budgets == nil {
		c.budgets, c.selected = map[string][]*budget{}, map[labelSet][]*budget{}
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
			slices.SortFunc(all, func(a, b *budget) int { return cmp.Compare(a.ref.Name, b.ref.Name) })
		}
	}
}

// labelSet is the labels of pods of a namespace. Many pods share one: budgets are held against each once.
type labelSet struct{ namespace, text string }

// budgetsOf are those that count a pod.
func (c *Cluster) budgetsOf(p *pod) []*budget {
	all := c.budgetsIn(p.obj.Namespace)
	if len(all) == 0 {
		return nil
	}
	if p.labels == "" {
		p.labels = labels.Set(p.obj.Labels).String()
	}
	set := labelSet{p.obj.Namespace, p.labels}
	of, known := c.selected[set]
	if !known {
		for _, b := range all {
			if b.selector.Matches(labels.Set(p.obj.Labels)) {
				of = append(of, b)
			}
		}
		c.selected[set] = of
	}
	return of
}

// standing is how many pods a budget counts, how many of them are healthy, and how many have to be: what the disruption controller works
// out (k8s.io/kubernetes/pkg/controller/disruption). ok is false where a percentage, or maxUnavailable, is of nothing that has a scale, or
// of a controller that has none: the budget allows nothing then.
type standing struct {
	pods, healthy, desired int
	ok                     bool
	owners                 map[Key]bool
}

// standings are those of a namespace's budgets; empty: of all.
func (c *Cluster) standings(namespace string) map[*budget]*standing {
	all := map[*budget]*standing{}
	for _, b := range c.allBudgets() {
		if namespace == "" || b.ref.Namespace == namespace {
			all[b] = &standing{ok: true, owners: map[Key]bool{}}
		}
	}
	if len(all) == 0 {
		return all
	}
	for owner, pods := range c.owned {
		if namespace != "" && owner.Namespace != namespace {
			continue
		}
		for _, p := range pods {
			for _, b := range c.budgetsOf(p) {
				s := all[b]
				s.pods++
				if p.ready {
					s.healthy++
				}
				s.owners[c.keeper(owner)] = true
			}
		}
	}
	for b, s := range all {
		c.desire(b, s)
	}
	return all
}

// desire works out how many pods of a budget have to be healthy.
func (c *Cluster) desire(b *budget, s *standing) {
	scale, scalable := 0, true
	for owner := range s.owners {
		switch owner.Kind {
		case "Pod":
			continue
		case "Job", "DaemonSet", "Node":
			scalable = false
		}
		if w := c.workloads[owner]; w != nil {
			scale += w.wants(c)
		}
	}
	scalable = scalable && scale > 0
	switch spec := &b.object.Spec; {
	case spec.MaxUnavailable != nil:
		s.desired, s.ok = max(0, scale-scaled(spec.MaxUnavailable, scale, true)), scalable
	case spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int:
		s.desired = spec.MinAvailable.IntValue()
	case spec.MinAvailable != nil:
		s.desired, s.ok = scaled(spec.MinAvailable, scale, true), scalable
	default:
		s.desired = s.pods
	}
}

// breakBudgets notes the budgets that a pod's preemption has broken.
func (c *Cluster) breakBudgets(p *pod) {
	if !p.ready {
		return
	}
	of := c.budgetsOf(p)
	if len(of) == 0 {
		return
	}
	all := c.standings(p.obj.Namespace)
	for _, b := range of {
		s := all[b]
		if least, was := c.broken[b.ref]; s.healthy < s.desired && (!was || s.healthy < least) {
			c.broken[b.ref] = s.healthy
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
	now := c.standings(p.obj.Namespace)[b]
	healthy, desired, ok := now.healthy, now.desired, now.ok
	name := b.ref.Namespace + "/" + b.ref.Name
	policy := or(b.object.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget)
	switch {
	case !p.ready && (policy == policyv1.AlwaysAllow || ok && healthy >= desired && desired > 0):
		return ""
	case !ok:
		return fmt.Sprintf("PodDisruptionBudget %s allows no eviction: its pods have no controller with a scale that it could count by", name)
	case healthy <= desired:
		return fmt.Sprintf("PodDisruptionBudget %s allows no eviction: %d pods are healthy, and %d have to be", name, healthy, desired)
	}
	return ""
}

// drain empties a node as `kubectl drain --ignore-daemonsets --delete-emptydir-data --force` does: those pods that are there when it
// begins, as budgets allow, again and again.
type drain struct {
	node string
	pods []*pod
	// left is why pods are still there, by namespace/name.
	left map[string]string
	// forced are pods without a controller: kubectl asks for --force, and nobody makes them again.
	forced []string
	// emptied are pods with emptyDir volumes: kubectl asks for --delete-emptydir-data.
	emptied []string
	// daemons stay.
	daemons int
}

func (d *drain) step(c *Cluster) (did bool) {
	d.left, d.daemons = map[string]string{}, 0
	for _, p := range d.pods {
		switch {
		case p.gone:
			continue
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
		if slices.ContainsFunc(p.obj.Spec.Volumes, func(v v1.Volume) bool { return v.EmptyDir != nil }) {
			d.emptied = append(d.emptied, p.key())
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
	// Emptied are pods whose emptyDir volumes are lost.
	Emptied []string `json:"emptied,omitempty"`
	// Daemons are pods of DaemonSets, and of the kubelet itself. They stay.
	Daemons int `json:"daemons"`
}

// Left is a pod, namespace/name, that is not evicted.
type Left struct {
	Pod string `json:"pod"`
	Why string `json:"why"`
}

func (d *drain) report() Drain {
	out := Drain{Node: d.node, Forced: d.forced, Emptied: d.emptied, Daemons: d.daemons}
	for _, name := range slices.Sorted(maps.Keys(d.left)) {
		out.Left = append(out.Left, Left{name, d.left[name]})
	}
	return out
}
