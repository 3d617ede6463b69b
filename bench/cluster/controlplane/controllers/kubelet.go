package main

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// kubelets is how many pods are looked at at once.
const kubelets = 16

// stopsAfter is the annotation of a pod whose containers take a while to end when they are told to.
const stopsAfter = "hollow.shardsched.io/stops-after"

// kubelet stands for the kubelets of all nodes: it makes pods with a node running, and
// takes those away that are deleted, which a kubelet does when their containers have ended: at
// once, or as late as the pod says, but no later than its grace period is over.
func kubelet(_ context.Context, c cluster) (func(context.Context), error) {
	pods := c.objects.Core().V1().Pods()
	var w *work
	w = newWork("kubelet", func(ctx context.Context, key string) error {
		namespace, name, err := cache.SplitMetaNamespaceKey(key)
		if err != nil {
			return err
		}
		p, err := pods.Lister().Pods(namespace).Get(name)
		if err != nil {
			return unlessGone(err)
		}
		if left := time.Until(endOf(p)); left > 0 {
			w.queue.AddAfter(key, left)
			return nil
		}
		if left, working := workLeft(p, time.Now()); working && left > 0 {
			w.queue.AddAfter(key, left)
			return nil
		}
		return c.care(ctx, p)
	})
	if err := w.watch(pods.Informer()); err != nil {
		return nil, err
	}
	return func(ctx context.Context) { w.run(ctx, kubelets) }, nil
}

// endOf is when the containers of a pod that is deleted will have ended; zero: it is not deleted.
func endOf(p *v1.Pod) time.Time {
	if p.DeletionTimestamp == nil || p.Spec.NodeName == "" {
		return time.Time{}
	}
	var grace time.Duration
	if s := p.DeletionGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	takes, err := time.ParseDuration(p.Annotations[stopsAfter])
	if err != nil {
		takes = 0
	}
	return p.DeletionTimestamp.Add(min(takes, grace) - grace)
}

// jobTakes is how long a pod of a Job works that does not say how long in its annotation worksFor.
const (
	jobTakes = 10 * time.Second
	worksFor = "hollow.shardsched.io/works-for"
)

// workLeft is how much longer a pod of a Job works; working: it has begun, and not ended.
func workLeft(p *v1.Pod, now time.Time) (left time.Duration, working bool) {
	by := metav1.GetControllerOfNoCopy(p)
	if by == nil || by.Kind != "Job" || p.Status.Phase != v1.PodRunning || p.Status.StartTime == nil || p.DeletionTimestamp != nil {
		return 0, false
	}
	takes, err := time.ParseDuration(p.Annotations[worksFor])
	if err != nil {
		takes = jobTakes
	}
	return p.Status.StartTime.Add(takes).Sub(now), true
}

func (c cluster) care(ctx context.Context, p *v1.Pod) error {
	pods := c.client.CoreV1().Pods(p.Namespace)
	switch {
	case p.Spec.NodeName == "":
		return nil
	case p.DeletionTimestamp != nil:
		var zero int64
		return pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero,
			Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	}
	now := metav1.NewTime(time.Now())
	if _, working := workLeft(p, now.Time); working {
		_, err := pods.UpdateStatus(ctx, succeeded(p, now), metav1.UpdateOptions{})
		return err
	}
	if p.Status.Phase != v1.PodPending {
		return nil
	}
	_, err := pods.UpdateStatus(ctx, running(p, now), metav1.UpdateOptions{})
	return err
}

// succeeded is the pod as its kubelet tells of it when all containers have ended well.
func succeeded(p *v1.Pod, now metav1.Time) *v1.Pod {
	p = p.DeepCopy()
	p.Status.Phase = v1.PodSucceeded
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		s.Ready, s.Started = false, new(bool)
		s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", FinishedAt: now}}
		if p.Status.StartTime != nil {
			s.State.Terminated.StartedAt = *p.Status.StartTime
		}
	}
	for _, t := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
		setCondition(&p.Status, v1.PodCondition{Type: t, Status: v1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: now})
	}
	return p
}

// running is the pod as its kubelet tells of it when all containers run.
func running(p *v1.Pod, now metav1.Time) *v1.Pod {
	p = p.DeepCopy()
	p.Status.Phase, p.Status.StartTime = v1.PodRunning, &now
	p.Status.ContainerStatuses = nil
	for _, container := range p.Spec.Containers {
		started := true
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, Started: &started,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
		})
	}
	for _, t := range []v1.PodConditionType{v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		setCondition(&p.Status, v1.PodCondition{Type: t, Status: v1.ConditionTrue, LastTransitionTime: now})
	}
	return p
}

func setCondition(s *v1.PodStatus, c v1.PodCondition) {
	for i := range s.Conditions {
		if s.Conditions[i].Type == c.Type {
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}
