package queue

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// InterPodAffinity waits for pods that a pod wants beside it or does not want there, and for
// nodes in other domains. Its hints do not know the labels of namespaces: a term that finds
// its pods by a namespaceSelector alone matches none of them, unless the selector matches a
// namespace without labels. Such pods wait for the flush, as upstream's do.
func InterPodAffinity(Profiles) Plugin {
	return Plugin{
		Alike: affinityLikeness,
		Events: []Registration{
			{Resource: AnyPod, Actions: Add | UpdatePodLabel | Delete, Helps: affinityPodChanged, Labels: labelsKeptAway,
				Topics: affinityPodTopics, Touches: affinityPodTouches},
			{Resource: Node, Actions: Add | UpdateNodeLabel, Helps: affinityNodeChanged, Topics: affinityNodeTopics,
				Touches: affinityNodeTouches},
		},
	}
}

// affinityLikeness covers the terms, and the namespace that they may stand in for. The
// pod's own labels are those that labelsKeptAway names.
func affinityLikeness(p *v1.Pod) likeness {
	var d digest
	d.text(p.Namespace)
	if a := p.Spec.Affinity; a != nil {
		for _, terms := range [][]v1.PodAffinityTerm{affinityOf(a), antiAffinityOf(a)} {
			d.number(uint64(len(terms)))
			for i := range terms {
				d.message(&terms[i])
			}
		}
	}
	return d.sum()
}

// labelsKeptAway are the labels by which the pod that is gone kept others away.
func labelsKeptAway(e *Event) []string {
	if e.pod != nil {
		return nil
	}
	var keys []string
	for _, t := range e.oldPodAntiTerms().terms {
		requirements, _ := t.labelSelector.Requirements()
		for _, r := range requirements {
			keys = append(keys, r.Key())
		}
	}
	return keys
}

// affinityPodChanged: the pod's own labels changed; or a pod on a node, or nominated to one,
// comes to match all affinity terms, ceases to match all anti-affinity terms, or goes and
// matched all of those or had anti-affinity terms that all match this pod.
func affinityPodChanged(p *Pod, e *Event) bool {
	if e.oldPod != nil && IsOwn(p, e) {
		return true
	}
	if e.pod != nil && !hadNode(e.pod) || e.oldPod != nil && !hadNode(e.oldPod) {
		return false
	}
	want, hate := p.affinity(), p.antiAffinity()
	switch {
	case want.broken || hate.broken:
		return true
	case e.oldPod == nil:
		return want.matchedBy(e.pod)
	case e.pod == nil:
		theirs := e.oldPodAntiTerms()
		return hate.matchedBy(e.oldPod) || theirs.broken || theirs.matchedBy(p.Obj)
	}
	return !want.matchedBy(e.oldPod) && want.matchedBy(e.pod) || hate.matchedBy(e.oldPod) && !hate.matchedBy(e.pod)
}

// affinityNodeChanged: the node is in a domain of an affinity term, and was not in that one
// before; or it is new or left a domain of an anti-affinity term.
func affinityNodeChanged(p *Pod, e *Event) bool {
	want := p.affinity()
	if want.broken {
		return true
	}
	for i := range want.terms {
		if now, ok := e.node.Labels[want.terms[i].key]; ok && !inDomain(e.oldNode, want.terms[i].key, now) {
			return true
		}
	}
	hate := p.antiAffinity()
	if hate.broken {
		return true
	}
	for i := range hate.terms {
		if e.oldNode == nil {
			return true
		}
		if was, ok := e.oldNode.Labels[hate.terms[i].key]; ok && !inDomain(e.node, hate.terms[i].key, was) {
			return true
		}
	}
	return false
}

// shorten leaves terms, requirements and lists of namespaces out beyond so many parts. What all terms match is still
// matched, and more.
//
// Differs from upstream: pods that the rest would not match are tried again, too.
func (a *affinityTerms) shorten(parts int) {
	for i := range a.terms {
		if parts--; parts < 0 {
			a.terms = a.terms[:i]
			return
		}
		t := &a.terms[i]
		if parts -= len(t.namespaces); parts < 0 {
			t.anyNamespace, parts = true, parts+len(t.namespaces)
		}
		requirements, _ := t.labelSelector.Requirements()
		var kept []labels.Requirement
		for _, r := range requirements {
			if n := 1 + len(r.ValuesUnsorted()); n <= parts {
				kept, parts = append(kept, r), parts-n
			}
		}
		if len(kept) < len(requirements) {
			t.labelSelector = labels.NewSelector().Add(kept...)
		}
	}
}

// inDomain tells whether a node, which may be nil, has a label.
func inDomain(n *v1.Node, key, value string) bool {
	if n == nil {
		return false
	}
	v, ok := n.Labels[key]
	return ok && v == value
}

// affinityTerms are required terms of a pod.
type affinityTerms struct {
	terms []affinityTerm
	// broken: a selector can not be read.
	broken bool
}

type affinityTerm struct {
	key           string
	namespaces    []string
	anyNamespace  bool
	labelSelector labels.Selector
}

func requiredAffinity(p *v1.Pod) *affinityTerms {
	return readTerms(p.Namespace, affinityOf(p.Spec.Affinity))
}

func requiredAntiAffinity(p *v1.Pod) *affinityTerms {
	return readTerms(p.Namespace, antiAffinityOf(p.Spec.Affinity))
}

func affinityOf(a *v1.Affinity) []v1.PodAffinityTerm {
	if a == nil || a.PodAffinity == nil {
		return nil
	}
	return a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func antiAffinityOf(a *v1.Affinity) []v1.PodAffinityTerm {
	if a == nil || a.PodAntiAffinity == nil {
		return nil
	}
	return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func readTerms(namespace string, list []v1.PodAffinityTerm) *affinityTerms {
	out := &affinityTerms{}
	for i := range list {
		t := affinityTerm{key: list[i].TopologyKey, namespaces: list[i].Namespaces}
		if len(t.namespaces) == 0 && list[i].NamespaceSelector == nil {
			t.namespaces = []string{namespace}
		}
		ofNamespaces, err := metav1.LabelSelectorAsSelector(list[i].NamespaceSelector)
		if err != nil {
			return &affinityTerms{broken: true}
		}
		t.anyNamespace = ofNamespaces.Matches(labels.Set(nil))
		if t.labelSelector, err = metav1.LabelSelectorAsSelector(list[i].LabelSelector); err != nil {
			return &affinityTerms{broken: true}
		}
		out.terms = append(out.terms, t)
	}
	return out
}

// matchedBy tells whether a pod matches all terms, of which there has to be one.
func (a *affinityTerms) matchedBy(p *v1.Pod) bool {
	for i := range a.terms {
		t := &a.terms[i]
		if !t.anyNamespace && !slices.Contains(t.namespaces, p.Namespace) || !t.labelSelector.Matches(labels.Set(p.Labels)) {
			return false
		}
	}
	return len(a.terms) > 0
}
