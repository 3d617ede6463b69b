package extender

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// PodsOn are the pods of a node, in any order; the error says that there is no such node.
type PodsOn func(node string) ([]*v1.Pod, error)

// Victims asks which of the nodes whose victims are listed will do for a pod, and with which
// victims. The answer may list other nodes and other victims, as long as the pods are on
// them; a node may have no victims in it.
func (e *Extender) Victims(ctx context.Context, pod *v1.Pod, victims map[string]*extenderv1.Victims,
	on PodsOn) (map[string]*extenderv1.Victims, error) {
	if !e.SupportsPreemption() {
		return nil, fmt.Errorf("preempt verb is not defined for extender %v but run into ProcessPreemption", public(e.prefix))
	}
	question := &extenderv1.ExtenderPreemptionArgs{Pod: pod}
	if e.cached {
		question.NodeNameToMetaVictims = metaVictims(victims)
	} else {
		question.NodeNameToVictims = victims
	}
	var answer extenderv1.ExtenderPreemptionResult
	if err := e.send(ctx, Preempt, question, &answer); err != nil {
		return nil, err
	}
	return e.victims(&answer, on)
}

// victims finds the pods of an answer, node by node in the order of their names.
func (e *Extender) victims(answer *extenderv1.ExtenderPreemptionResult, on PodsOn) (map[string]*extenderv1.Victims, error) {
	out := make(map[string]*extenderv1.Victims, len(answer.NodeNameToMetaVictims))
	for _, node := range slices.Sorted(maps.Keys(answer.NodeNameToMetaVictims)) {
		there, err := on(node)
		if err != nil {
			return nil, err
		}
		v := &extenderv1.Victims{Pods: []*v1.Pod{}}
		out[node] = v
		named := answer.NodeNameToMetaVictims[node]
		if named == nil {
			continue
		}
		v.NumPDBViolations = named.NumPDBViolations
		for _, p := range named.Pods {
			if p == nil {
				p = &extenderv1.MetaPod{}
			}
			at := slices.IndexFunc(there, func(x *v1.Pod) bool { return string(x.UID) == p.UID })
			if at < 0 {
				return nil, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not found on that node",
					public(e.prefix), p, node)
			}
			if !slices.Contains(v.Pods, there[at]) {
				v.Pods = append(v.Pods, there[at])
			}
		}
	}
	return out, nil
}

// metaVictims names victims by their UIDs.
func metaVictims(victims map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
	out := make(map[string]*extenderv1.MetaVictims, len(victims))
	for node, v := range victims {
		m := &extenderv1.MetaVictims{Pods: make([]*extenderv1.MetaPod, len(v.Pods)), NumPDBViolations: v.NumPDBViolations}
		for i, p := range v.Pods {
			m.Pods[i] = &extenderv1.MetaPod{UID: string(p.UID)}
		}
		out[node] = m
	}
	return out
}
