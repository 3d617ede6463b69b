package extender

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Inquiry is what extenders are asked about a pod.
type Inquiry struct {
	Pod *v1.Pod
	// Nodes are those that the filters of the pod's profile let through. They are not changed.
	Nodes []*v1.Node
	// Own is the place in Nodes of the node that the pod is nominated to, which is tried before
	// all and then alone; below 0: there is none.
	Own int
}

// Refusal is why an extender refuses a node.
type Refusal struct {
	Reason string
	// Unresolvable says that no preemption would change it.
	Unresolvable bool
	// Silent says that it gives no reason.
	Silent bool
	// By is the extender's place in the list.
	By int
}

// Answer is what extenders make of a pod, all of them together.
type Answer struct {
	// Kept are the nodes that all have kept, by name, and what the scores of all add to each
	// one's total. A node that is alone is not scored.
	Kept map[string]int64
	// Refused are the nodes that are not kept. They may be about nodes that were not asked about.
	Refused map[string]Refusal
	// Scores are what each extender of the list scored the nodes that are kept, before its weight; nil: it did not.
	Scores []extenderv1.HostPriorityList
	// Alone says that the pod's own node is kept, and that nobody was asked about the others.
	Alone bool
	// Narrowed says that nodes were asked about that are not kept.
	Narrowed bool
}

// Interested are the extenders that have something to say about where a pod goes.
func Interested(list []*Extender, pod *v1.Pod) []*Extender {
	var out []*Extender
	for _, e := range list {
		if (e.IsFilter() || e.IsPrioritizer()) && e.IsInterested(pod) {
			out = append(out, e)
		}
	}
	return out
}

// Ask asks extenders about a pod that they are interested in: their filters one after the other,
// each about what those before have kept, then for their scores, all at once. The error is that
// of a filter which may not be ignored; one that fails to score adds nothing.
func Ask(ctx context.Context, list []*Extender, q Inquiry) (*Answer, error) {
	a := &Answer{Refused: map[string]Refusal{}}
	if q.Own >= 0 {
		own, err := a.filter(ctx, list, q.Pod, q.Nodes[q.Own:q.Own+1])
		if err != nil {
			klog.FromContext(ctx).Error(err, "Evaluation failed on nominated node", "pod", klog.KObj(q.Pod), "node", q.Nodes[q.Own].Name)
		}
		if err == nil && len(own) > 0 {
			a.Alone, a.Kept = true, map[string]int64{own[0].Name: 0}
			return a, nil
		}
	}
	left, err := a.filter(ctx, list, q.Pod, q.Nodes)
	if err != nil {
		return nil, err
	}
	a.Narrowed = len(left) != len(q.Nodes)
	a.Kept = make(map[string]int64, len(left))
	for _, n := range left {
		a.Kept[n.Name] = 0
	}
	if len(left) > 1 {
		a.score(ctx, list, q.Pod, left)
	}
	return a, nil
}

// filter returns the nodes that all keep, and takes the reasons of others.
func (a *Answer) filter(ctx context.Context, list []*Extender, pod *v1.Pod, nodes []*v1.Node) ([]*v1.Node, error) {
	for by, e := range list {
		if len(nodes) == 0 {
			break
		}
		f, err := e.FilterNodes(ctx, pod, nodes)
		if err != nil {
			if e.ignorable && ctx.Err() == nil {
				klog.FromContext(ctx).Info("Skipping extender as it returned error and has ignorable flag set", "extender", e.Label(),
					"err", err)
				continue
			}
			return nil, err
		}
		for name, reason := range f.Failed {
			a.Refused[name] = Refusal{Reason: reason, By: by}
		}
		for name, reason := range f.Unresolvable {
			a.Refused[name] = Refusal{Reason: reason, Unresolvable: true, By: by}
		}
		kept, isKept := make([]*v1.Node, len(f.Kept)), make([]bool, len(nodes))
		for i, at := range f.Kept {
			kept[i], isKept[at] = nodes[at], true
		}
		for i, n := range nodes {
			if _, told := a.Refused[n.Name]; !told && !isKept[i] {
				a.Refused[n.Name] = Refusal{Silent: true, By: by}
			}
		}
		nodes = kept
	}
	return nodes, nil
}

// score adds up what all that score say of the nodes that are kept.
func (a *Answer) score(ctx context.Context, list []*Extender, pod *v1.Pod, nodes []*v1.Node) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	a.Scores = make([]extenderv1.HostPriorityList, len(list))
	for by, e := range list {
		if !e.IsPrioritizer() {
			continue
		}
		wg.Go(func() {
			scores, err := e.Scores(ctx, pod, nodes)
			if err != nil {
				klog.FromContext(ctx).V(5).Info("Failed to run extender's priority function. No score given by this extender.",
					"error", err, "pod", klog.KObj(pod), "extender", e.Label())
				return
			}
			mu.Lock()
			defer mu.Unlock()
			a.Scores[by] = scores
			for _, x := range scores {
				if sum, ok := a.Kept[x.Host]; ok {
					a.Kept[x.Host] = sum + e.Weigh(x.Score)
				}
			}
		})
	}
	wg.Wait()
}

// Binder is the extender that binds a pod; nil: none does.
func Binder(list []*Extender, pod *v1.Pod) *Extender {
	for _, e := range list {
		if e.IsBinder() && e.IsInterested(pod) {
			return e
		}
	}
	return nil
}

// Preempters are the extenders that take part in choosing the victims of a pod.
func Preempters(list []*Extender, pod *v1.Pod) []*Extender {
	var out []*Extender
	for _, e := range list {
		if e.SupportsPreemption() && e.IsInterested(pod) {
			out = append(out, e)
		}
	}
	return out
}

// Shrink has extenders, one after the other, choose among nodes and their victims. What is left
// may be nothing. The error is one of preemption, of an extender that may not be ignored.
func Shrink(ctx context.Context, list []*Extender, pod *v1.Pod, victims map[string]*extenderv1.Victims,
	on PodsOn) (map[string]*extenderv1.Victims, error) {
	for _, e := range list {
		if len(victims) == 0 {
			break
		}
		left, err := e.Victims(ctx, pod, victims, on)
		if err == nil {
			err = e.unharmed(ctx, left)
		}
		if err != nil {
			if e.ignorable && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Skipped extender as it returned error and has ignorable flag set", "extender", e.Label(),
					"err", err)
				continue
			}
			return nil, err
		}
		victims = left
	}
	return victims, nil
}

// unharmed looks for nodes without victims: an error, or, of an extender that may be ignored,
// nodes that are left out.
func (e *Extender) unharmed(ctx context.Context, victims map[string]*extenderv1.Victims) error {
	for _, node := range slices.Sorted(maps.Keys(victims)) {
		if len(victims[node].Pods) > 0 {
			continue
		}
		if !e.ignorable {
			return fmt.Errorf("expected at least one victim pod on node %q", node)
		}
		delete(victims, node)
		klog.FromContext(ctx).V(2).Info("Ignored node for which the extender didn't report victims",
			"node", klog.KRef("", node), "extender", e.Label())
	}
	return nil
}
