package queue

import (
	"k8s.io/apimachinery/pkg/labels"
)

// affinityPodTopics: of the terms that all have to match, the one that says most about what it looks at; and
// the pod's own labels, by which a pod that is gone may have kept it away.
func affinityPodTopics(p *Pod) []topic {
	want, hate := p.affinity(), p.antiAffinity()
	if want.broken || hate.broken {
		return []topic{{of: anyAffinity}}
	}
	out := append(want.topics(wantedPods), hate.topics(hatedPods)...)
	var own []topic
	for k, v := range p.Obj.Labels {
		own = append(own, topic{of: ownLabels, key: k, value: "=" + v})
	}
	return append(out, atMost(own, topic{of: ownLabels})...)
}

// topics are those of the term by which the fewest pods are looked at.
func (a *affinityTerms) topics(of subject) (best []topic) {
	rank := 0
	for i := range a.terms {
		list := a.terms[i].topics(of)
		if n := narrowness(list); best == nil || n > rank {
			best, rank = list, n
		}
	}
	return best
}

// narrowness is larger where topics are of fewer pods.
func narrowness(list []topic) int {
	switch {
	case len(list) == 0:
		return 6 // of none
	case list[0].of == anyAffinity:
		return 0
	}
	n := 1
	if list[0].value != "" {
		n += 2
	} else if list[0].key != "" {
		n++
	}
	if list[0].namespace != anywhere {
		n += 2
	}
	return n
}

func (t *affinityTerm) topics(of subject) []topic {
	if t.anyNamespace {
		return selected(of, anywhere, t.labelSelector)
	}
	out := []topic{}
	for _, namespace := range t.namespaces {
		if out = append(out, selected(of, namespace, t.labelSelector)...); len(out) > manyTopics {
			return []topic{{of: anyAffinity}}
		}
	}
	return out
}

// affinityPodTouches is the counterpart of affinityPodTopics.
func affinityPodTouches(e *Event) ([]topic, bool) {
	out := []topic{{of: anyAffinity}}
	if e.pod != nil {
		out = ofPod(ofPod(out, wantedPods, e.pod.Namespace, e.pod.Labels), wantedPods, anywhere, e.pod.Labels)
	}
	if e.oldPod != nil {
		out = ofPod(ofPod(out, hatedPods, e.oldPod.Namespace, e.oldPod.Labels), hatedPods, anywhere, e.oldPod.Labels)
	}
	if e.pod != nil {
		return out, true
	}
	theirs := e.oldPodAntiTerms()
	if theirs.broken {
		return nil, false
	}
	kept, ok := theirs.keeps()
	if !ok {
		return nil, false
	}
	return append(out, kept...), true
}

// keeps are the topics of the pods that the terms keep away, by their own labels; false where labels do not
// tell.
func (a *affinityTerms) keeps() ([]topic, bool) {
	if len(a.terms) == 0 {
		return nil, true
	}
	out := []topic{{of: ownLabels}}
	narrow := false
	for i := range a.terms {
		requirements, _ := a.terms[i].labelSelector.Requirements()
		for _, r := range requirements {
			// Where pods of one bucket differ in a label that is read, each is asked.
			out = append(out, topic{of: ownLabels, key: r.Key()})
		}
		if !narrow {
			var values []topic
			values, narrow = ownValues(a.terms[i].labelSelector)
			out = append(out, values...)
		}
	}
	return out, narrow
}

// ownValues are labels of which a pod that a selector matches has one; false where there may be none.
func ownValues(s labels.Selector) (out []topic, ok bool) {
	if _, selectable := s.Requirements(); !selectable {
		return nil, true
	}
	for _, t := range selected(ownLabels, "", s) {
		if t.value == "" {
			return nil, false
		}
		out = append(out, t)
	}
	return out, true
}

// affinityNodeTopics are the topology keys of the terms.
func affinityNodeTopics(p *Pod) []topic {
	want, hate := p.affinity(), p.antiAffinity()
	if want.broken || hate.broken {
		return []topic{{of: anyAffinity}}
	}
	out := domainTopics(wantedDomains, want)
	if len(hate.terms) > 0 {
		out = append(out, topic{of: hatedDomains}) // a new node helps in any case
		out = append(out, domainTopics(hatedDomains, hate)...)
	}
	return atMost(out, topic{of: anyAffinity})
}

func domainTopics(of subject, a *affinityTerms) (out []topic) {
	known := map[string]bool{}
	for i := range a.terms {
		if key := a.terms[i].key; !known[key] {
			known[key] = true
			out = append(out, topic{of: of, key: key})
		}
	}
	return out
}

// affinityNodeTouches are the keys in which a node joins or leaves a domain.
func affinityNodeTouches(e *Event) ([]topic, bool) {
	out := []topic{{of: anyAffinity}}
	for k, v := range e.node.Labels {
		if !inDomain(e.oldNode, k, v) {
			out = append(out, topic{of: wantedDomains, key: k})
		}
	}
	if e.oldNode == nil {
		return append(out, topic{of: hatedDomains}), true
	}
	for k, v := range e.oldNode.Labels {
		if !inDomain(e.node, k, v) {
			out = append(out, topic{of: hatedDomains, key: k})
		}
	}
	return out, true
}
