package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	schedulingclient "k8s.io/client-go/kubernetes/typed/scheduling/v1alpha2"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	upstreamprofile "k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/ptr"
)

// Scheduler is kube-scheduler's own loop (pkg/scheduler) over objects that are put in: its queue, its cycle of a pod, its cycle of
// a pod group where PodGroups has switched that on, and its binding cycles. What it writes goes nowhere.
type Scheduler struct {
	*scheduler.Scheduler
	objects *objects
	sink    sink
	failed  []Failure
}

// Evicted are the pods that preemption has deleted so far, by name.
func (s *Scheduler) Evicted() []string { return s.sink.evicted }

// Condition is what the last write says of a PodGroup's condition: its reason and message.
func (s *Scheduler) Condition() (reason, message string) {
	return s.sink.condition.Reason, s.sink.condition.Message
}

// Failure is an attempt at a pod that ended without a node.
type Failure struct {
	Pod     types.UID
	Message string
}

// NewScheduler makes one with an empty cluster, which looks at so many nodes as percent says; 0: as upstream does by default. It
// works until ctx ends.
func NewScheduler(ctx context.Context, c *Config, percent int32) (*Scheduler, error) {
	ctx = klog.NewContext(ctx, quiet())
	objects, err := newObjects(ctx)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{objects: objects, sink: sink{binds: make(chan *v1.Binding, 1<<16)}}
	recorder := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} } // says nothing
	s.Scheduler, err = scheduler.New(ctx, &s.sink, objects.informers, nil, upstreamprofile.RecorderFactory(recorder),
		scheduler.WithProfiles(c.internal.Profiles...), scheduler.WithParallelism(DefaultParallelism),
		scheduler.WithPercentageOfNodesToScore(ptr.To(percent)))
	if err != nil {
		return nil, fmt.Errorf("make scheduler: %w", err)
	}
	handle := s.FailureHandler
	s.FailureHandler = func(ctx context.Context, f framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status,
		n *fwk.NominatingInfo, since time.Time,
	) {
		s.failed = append(s.failed, Failure{info.Pod.UID, status.Message()})
		handle(ctx, f, info, status, n, since)
	}
	return s, nil
}

// Set adds an object. A pod with spec.nodeName is on its node, one without waits in the queue.
func (s *Scheduler) Set(obj Object) error {
	switch obj := obj.(type) {
	case *v1.Node:
		s.Cache.AddNode(quiet(), obj)
		return nil
	case *v1.Pod:
		if err := s.objects.informers.Core().V1().Pods().Informer().GetIndexer().Add(obj); err != nil {
			return err
		}
		if obj.Spec.NodeName != "" {
			return s.Cache.AddPod(quiet(), obj)
		}
		s.Cache.AddPodGroupMember(obj)
		s.SchedulingQueue.Add(klog.NewContext(context.Background(), quiet()), obj)
		if groupsOn() {
			s.SchedulingQueue.MoveAllToActiveOrBackoffQueue(quiet(), framework.EventUnscheduledPodAdd, nil, obj, nil)
		}
		return nil
	}
	return s.objects.set(obj)
}

// Remove drops a pod that is on a node.
func (s *Scheduler) Remove(pod *v1.Pod) error {
	if err := s.objects.informers.Core().V1().Pods().Informer().GetIndexer().Delete(pod); err != nil {
		return err
	}
	if err := s.Cache.RemovePod(quiet(), pod); err != nil {
		return err
	}
	s.SchedulingQueue.MoveAllToActiveOrBackoffQueue(quiet(), framework.EventAssignedPodDelete, pod, nil, nil)
	return nil
}

// Next attempts the next pod of the queue, or the pod group that it is of, with so many members that are not on nodes. It returns
// who was bound where, by UID, and who was not. The queue must not be empty, and no plugin may refuse to bind.
func (s *Scheduler) Next(ctx context.Context, members int) (bound map[types.UID]string, failed []Failure, err error) {
	s.failed = nil
	s.ScheduleOne(klog.NewContext(ctx, quiet()))
	bound = map[types.UID]string{}
	for len(bound) < members-len(s.failed) {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case b := <-s.sink.binds:
			bound[b.UID] = b.Target.Name
		}
	}
	return bound, s.failed, nil
}

// sink is an API server that takes bindings, deletions and statuses, and keeps the bindings, who was deleted, and the last condition of a
// PodGroup. What it is not asked for, it does not have.
type sink struct {
	clientset.Interface
	binds     chan *v1.Binding
	evicted   []string
	condition metav1.Condition
}

func (s *sink) CoreV1() corev1client.CoreV1Interface { return sinkCore{s: s} }

func (s *sink) SchedulingV1alpha2() schedulingclient.SchedulingV1alpha2Interface {
	return sinkScheduling{s: s}
}

type sinkCore struct {
	corev1client.CoreV1Interface
	s *sink
}

func (c sinkCore) Pods(string) corev1client.PodInterface { return sinkPods{s: c.s} }

type sinkPods struct {
	corev1client.PodInterface
	s *sink
}

// Bind takes a binding.
func (p sinkPods) Bind(_ context.Context, b *v1.Binding, _ metav1.CreateOptions) error {
	p.s.binds <- b
	return nil
}

// Delete takes a victim.
func (p sinkPods) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	p.s.evicted = append(p.s.evicted, name)
	return nil
}

// Patch takes a status.
func (p sinkPods) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*v1.Pod, error) {
	return &v1.Pod{}, nil
}

type sinkScheduling struct {
	schedulingclient.SchedulingV1alpha2Interface
	s *sink
}

func (c sinkScheduling) PodGroups(string) schedulingclient.PodGroupInterface {
	return sinkPodGroups{s: c.s}
}

type sinkPodGroups struct {
	schedulingclient.PodGroupInterface
	s *sink
}

// Patch takes a status.
func (g sinkPodGroups) Patch(_ context.Context, _ string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string) (
	*schedulingv1alpha2.PodGroup, error,
) {
	now := &schedulingv1alpha2.PodGroup{}
	if err := json.Unmarshal(patch, now); err != nil {
		return nil, err
	}
	for _, c := range now.Status.Conditions {
		g.s.condition = c
	}
	return now, nil
}
