package scripted

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Widgets is the custom resource that plugins wait for, as resource.version.group.
const Widgets = "widgets.v1.script.shardsched.io"

// EventsToRegister is part of fwk.EnqueueExtensions: nodes that come or get other labels, labels of
// the pod itself, and Widgets.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: p.hint("node", named)},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}, QueueingHintFn: p.hint("pod", itself)},
		{Event: fwk.ClusterEvent{Resource: Widgets, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: p.hint("widget", wanted)},
	}, nil
}

// hint answers what the pod's annotations say where the event is about it, and is printed then.
func (p *Plugin) hint(kind string, about func(pod *v1.Pod, old, now metav1.Object) bool) fwk.QueueingHintFn {
	return func(_ klog.Logger, pod *v1.Pod, old, now any) (fwk.QueueingHint, error) {
		was, _ := old.(metav1.Object)
		is, ok := now.(metav1.Object)
		if !ok {
			return fwk.Queue, fmt.Errorf("an event of a %s brings %T", kind, now)
		}
		if !about(pod, was, is) {
			return fwk.QueueSkip, nil
		}
		answer := p.said(pod, "Hint", "")
		p.note(pod, "Hint", "", kind+" "+is.GetName(), answer)
		if answer == "QueueSkip" {
			return fwk.QueueSkip, nil
		}
		return fwk.Queue, nil
	}
}

// named: a node that comes with the label script/wake.NAMESPACE, or whose label gets another value.
func named(pod *v1.Pod, old, now metav1.Object) bool {
	wake := Prefix + "wake." + pod.Namespace
	return now.GetLabels()[wake] != "" && (old == nil || old.GetLabels()[wake] != now.GetLabels()[wake])
}

func itself(pod *v1.Pod, _, now metav1.Object) bool { return pod.UID == now.GetUID() }

func wanted(pod *v1.Pod, _, now metav1.Object) bool {
	return pod.Annotations[Prefix+"widget"] == now.GetName()
}
