package queue

// podTopics are the pods that the constraints count. What default constraints count may change, and so may
// that they are there.
func (s spreading) podTopics(p *Pod) []topic {
	all := topic{of: spreadPods, namespace: p.Obj.Namespace}
	if len(p.Obj.Spec.TopologySpreadConstraints) == 0 || p.spread().broken {
		return []topic{all}
	}
	var out []topic
	for i := range p.spread().constraints {
		if out = append(out, selected(spreadPods, p.Obj.Namespace, p.spread().constraints[i].Selector)...); len(out) > manyTopics {
			return []topic{all}
		}
	}
	return out
}

func spreadPodTouches(e *Event) ([]topic, bool) {
	var out []topic
	if e.pod != nil {
		out = ofPod(out, spreadPods, e.pod.Namespace, e.pod.Labels)
	}
	if e.oldPod != nil {
		out = ofPod(out, spreadPods, e.oldPod.Namespace, e.oldPod.Labels)
	}
	return out, true
}

// nodeTopics are one of the topology keys, of which a node has to have all.
func (s spreading) nodeTopics(p *Pod) []topic {
	if len(p.Obj.Spec.TopologySpreadConstraints) == 0 || p.spread().broken || len(p.spread().constraints) == 0 {
		return []topic{{of: spreadDomains}}
	}
	return []topic{{of: spreadDomains, key: p.spread().constraints[0].TopologyKey}}
}

func spreadNodeTouches(e *Event) ([]topic, bool) {
	out := []topic{{of: spreadDomains}}
	if e.node != nil {
		for k := range e.node.Labels {
			out = append(out, topic{of: spreadDomains, key: k})
		}
	}
	if e.oldNode != nil {
		for k := range e.oldNode.Labels {
			out = append(out, topic{of: spreadDomains, key: k})
		}
	}
	return out, true
}
