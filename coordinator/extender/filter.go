package extender

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Filtered is what an extender's filter comes to.
type Filtered struct {
	// Kept are the nodes that will do: places in the list that it was asked about, in the order
	// in which it named them, each once.
	Kept []int
	// Failed are the reasons of nodes that will not do, by name, and Unresolvable of those that no
	// preemption would change; a node in both counts as the latter. Either may name nodes
	// that were not asked about, and nodes that are neither kept nor named have no reason.
	Failed, Unresolvable extenderv1.FailedNodesMap
}

// FilterNodes asks which nodes will do for a pod. An extender that does not filter keeps all.
func (e *Extender) FilterNodes(ctx context.Context, pod *v1.Pod, nodes []*v1.Node) (*Filtered, error) {
	if !e.IsFilter() {
		return &Filtered{Kept: all(len(nodes))}, nil
	}
	var answer extenderv1.ExtenderFilterResult
	if err := e.send(ctx, Filter, e.question(pod, nodes), &answer); err != nil {
		return nil, err
	}
	return e.filtered(&answer, nodes)
}

// filtered reads an answer about nodes.
func (e *Extender) filtered(answer *extenderv1.ExtenderFilterResult, nodes []*v1.Node) (*Filtered, error) {
	if answer.Error != "" {
		return nil, errors.New(clipped(answer.Error))
	}
	f := &Filtered{Failed: answer.FailedNodes, Unresolvable: answer.FailedAndUnresolvableNodes}
	place := make(map[string]int, len(nodes))
	for i, n := range nodes {
		place[n.Name] = i
	}
	keep := func(name string) error {
		at, ok := place[name]
		if !ok {
			return fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", public(e.prefix),
				clipped(name))
		}
		if at >= 0 {
			f.Kept = append(f.Kept, at)
			place[name] = -1
		}
		return nil
	}
	switch {
	case e.cached && answer.NodeNames != nil:
		for _, name := range *answer.NodeNames {
			if err := keep(name); err != nil {
				return nil, err
			}
		}
	case answer.Nodes != nil:
		for i := range answer.Nodes.Items {
			if err := keep(answer.Nodes.Items[i].Name); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// question is what filters and scores are asked: names for an extender with a cache, whole nodes
// for any other.
func (e *Extender) question(pod *v1.Pod, nodes []*v1.Node) *extenderv1.ExtenderArgs {
	q := &extenderv1.ExtenderArgs{Pod: pod}
	if e.cached {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name
		}
		q.NodeNames = &names
		return q
	}
	q.Nodes = &v1.NodeList{}
	for _, n := range nodes {
		q.Nodes.Items = append(q.Nodes.Items, *n)
	}
	return q
}

// all are the places of n nodes.
func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
