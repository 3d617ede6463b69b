package queue

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Constraint is a hard topology spread constraint, as far as events matter to it.
type Constraint struct {
	TopologyKey string
	// Selector is complete: matchLabelKeys are in it.
	Selector labels.Selector
	// HonorTaints: nodes with taints that the pod does not tolerate do not count.
	HonorTaints bool
}

// PodTopologySpread waits for pods that the constraints count, and for nodes that belong
// to their domains.
func PodTopologySpread(profiles Profiles) Plugin {
	s := spreading{profiles}
	return Plugin{
		Alike: spreadLikeness,
		Events: []Registration{
			{Resource: AnyPod, Actions: Add | UpdatePodLabel | UpdatePodToleration | Delete, Helps: s.podChanged, Topics: s.podTopics,
				Touches: spreadPodTouches},
			{Resource: Node, Actions: Add | Delete | UpdateNodeLabel | UpdateNodeTaint, Helps: s.nodeChanged, Topics: s.nodeTopics,
				Touches: spreadNodeTouches},
		},
	}
}

// spreadLikeness covers the pod's own constraints, or what default ones are found by.
func spreadLikeness(p *v1.Pod) likeness {
	var d digest
	d.text(p.Namespace)
	d.number(uint64(len(p.Spec.TopologySpreadConstraints)))
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		d.message(c)
		for _, k := range c.MatchLabelKeys {
			v, ok := p.Labels[k]
			d.flag(ok)
			d.text(v)
		}
	}
	if len(p.Spec.TopologySpreadConstraints) == 0 {
		d.text(p.Spec.SchedulerName)
		d.labels(p.Labels)
		if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
			d.list([]string{owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)})
		}
	}
	return d.sum()
}

type spreading struct {
	profiles Profiles
}

// constraints are a pod's hard ones, or its profile's where it has none of either kind.
func (s spreading) constraints(p *Pod) ([]Constraint, bool) {
	if len(p.Obj.Spec.TopologySpreadConstraints) > 0 {
		own := p.spread()
		return own.constraints, !own.broken
	}
	if s.profiles == nil {
		return nil, true
	}
	return s.profiles.DefaultConstraints(p.Obj), true
}

// podChanged: a pod that counts for a constraint comes or goes; one on a node, or the pod
// itself, comes to count for one or ceases to; or the pod itself tolerates other nodes, and a
// constraint leaves those out that it does not.
func (s spreading) podChanged(p *Pod, e *Event) bool {
	if e.pod != nil && !spreadsWith(p, e.pod) || e.oldPod != nil && !spreadsWith(p, e.oldPod) {
		return false
	}
	constraints, ok := s.constraints(p)
	if !ok {
		return true
	}
	if e.oldPod != nil && e.pod != nil {
		if IsOwn(p, e) && !equality.Semantic.DeepEqual(e.oldPod.Spec.Tolerations, e.pod.Spec.Tolerations) && honorTaints(constraints) {
			return true
		}
		if e.sameLabels() {
			return false
		}
	}
	for i := range constraints {
		if s := constraints[i].Selector; counts(s, e.oldPod) != counts(s, e.pod) {
			return true
		}
	}
	return false
}

// counts tells whether a selector matches a pod, which may be nil.
func counts(s labels.Selector, p *v1.Pod) bool { return p != nil && s.Matches(labels.Set(p.Labels)) }

// spreadsWith tells whether a pod may count for another's constraints: it is the pod itself,
// or one of its namespace that is on a node or nominated to one.
func spreadsWith(p *Pod, other *v1.Pod) bool {
	return other.UID == p.Obj.UID || hadNode(other) && other.Namespace == p.Obj.Namespace
}

func honorTaints(constraints []Constraint) bool {
	for i := range constraints {
		if constraints[i].HonorTaints {
			return true
		}
	}
	return false
}

// nodeChanged: a node with all topology keys comes or goes, gets them or loses one, changes
// one or its taints.
func (s spreading) nodeChanged(p *Pod, e *Event) bool {
	constraints, ok := s.constraints(p)
	if !ok {
		return true
	}
	was, now := e.oldNode != nil && hasKeys(e.oldNode, constraints), e.node != nil && hasKeys(e.node, constraints)
	if e.oldNode == nil || e.node == nil || was != now {
		return was || now
	}
	return now && (movesDomain(e.oldNode, e.node, constraints) ||
		!equality.Semantic.DeepEqual(e.oldNode.Spec.Taints, e.node.Spec.Taints))
}

func hasKeys(n *v1.Node, constraints []Constraint) bool {
	for i := range constraints {
		if _, ok := n.Labels[constraints[i].TopologyKey]; !ok {
			return false
		}
	}
	return true
}

func movesDomain(old, now *v1.Node, constraints []Constraint) bool {
	for i := range constraints {
		if key := constraints[i].TopologyKey; old.Labels[key] != now.Labels[key] {
			return true
		}
	}
	return false
}

// spreadTerms are a pod's own hard constraints.
type spreadTerms struct {
	constraints []Constraint
	// broken: a selector can not be read.
	broken bool
}

func ownConstraints(p *v1.Pod) *spreadTerms {
	out := &spreadTerms{}
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return &spreadTerms{broken: true}
		}
		out.constraints = append(out.constraints, Constraint{
			TopologyKey: c.TopologyKey,
			Selector:    withLabels(s, p, c.MatchLabelKeys),
			HonorTaints: c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor,
		})
	}
	return out
}

// withLabels adds the pod's own values of the keys, where it has them, to a selector. One
// that matches nothing stays so.
func withLabels(s labels.Selector, p *v1.Pod, keys []string) labels.Selector {
	requirements, selectable := s.Requirements()
	own := labels.Set{}
	for _, k := range keys {
		if v, ok := p.Labels[k]; ok {
			own[k] = v
		}
	}
	if len(own) == 0 || !selectable {
		return s
	}
	return labels.SelectorFromSet(own).Add(requirements...)
}
