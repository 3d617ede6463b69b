package extender

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// BindPod has the extender bind a pod to a node. It is up to the extender to tell the API server.
func (e *Extender) BindPod(ctx context.Context, pod *v1.Pod, node string) error {
	return e.bind(ctx, &extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node})
}

func (e *Extender) bind(ctx context.Context, question *extenderv1.ExtenderBindingArgs) error {
	if !e.IsBinder() {
		return errors.New("unexpected empty bindVerb in extender")
	}
	var answer extenderv1.ExtenderBindingResult
	if err := e.send(ctx, Bind, question, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(clipped(answer.Error))
	}
	return nil
}
