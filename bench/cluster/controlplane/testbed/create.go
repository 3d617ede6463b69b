package testbed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// creators is how many requests CreateAll has under way at once.
const creators = 32

// CreateAll creates objects as Create does, many at a time and in no order.
func (b *Bed) CreateAll(ctx context.Context, objects ...runtime.Object) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	for _, o := range objects {
		g.Go(func() error { return b.Create(ctx, o) })
	}
	return g.Wait()
}

// Create creates objects in their order, as package coordinator/build makes them: UIDs
// and versions are the server's; nodes become ready; containers get an image; the priority
// of a pod or PodGroup becomes a PriorityClass; a status that is given is written too.
func (b *Bed) Create(ctx context.Context, objects ...runtime.Object) error {
	for _, o := range objects {
		if m, ok := o.(metav1.Object); ok {
			m.SetUID("")
			m.SetResourceVersion("")
		}
		if err := b.create(ctx, o); err != nil {
			return fmt.Errorf("create %T: %w", o, err)
		}
	}
	return nil
}

func (b *Bed) create(ctx context.Context, object runtime.Object) (err error) {
	core, storage, apps := b.Admin.CoreV1(), b.Admin.StorageV1(), b.Admin.AppsV1()
	var how metav1.CreateOptions
	switch o := object.(type) {
	case *v1.Pod:
		return b.createPod(ctx, o)
	case *v1.Node:
		markReady(o)
		_, err = core.Nodes().Create(ctx, o, how)
	case *v1.Namespace:
		_, err = core.Namespaces().Create(ctx, o, how)
	case *v1.PersistentVolume:
		_, err = core.PersistentVolumes().Create(ctx, o, how)
	case *v1.PersistentVolumeClaim:
		_, err = core.PersistentVolumeClaims(o.Namespace).Create(ctx, o, how)
	case *v1.Service:
		_, err = core.Services(o.Namespace).Create(ctx, o, how)
	case *v1.ReplicationController:
		_, err = core.ReplicationControllers(o.Namespace).Create(ctx, o, how)
	case *appsv1.Deployment:
		_, err = apps.Deployments(o.Namespace).Create(ctx, o, how)
	case *appsv1.ReplicaSet:
		_, err = apps.ReplicaSets(o.Namespace).Create(ctx, o, how)
	case *appsv1.StatefulSet:
		_, err = apps.StatefulSets(o.Namespace).Create(ctx, o, how)
	case *storagev1.StorageClass:
		_, err = storage.StorageClasses().Create(ctx, o, how)
	case *storagev1.CSINode:
		_, err = storage.CSINodes().Create(ctx, o, how)
	case *storagev1.CSIDriver:
		_, err = storage.CSIDrivers().Create(ctx, o, how)
	case *storagev1.CSIStorageCapacity:
		_, err = storage.CSIStorageCapacities(o.Namespace).Create(ctx, o, how)
	case *storagev1.VolumeAttachment:
		_, err = storage.VolumeAttachments().Create(ctx, o, how)
	case *schedulingv1.PriorityClass:
		_, err = b.Admin.SchedulingV1().PriorityClasses().Create(ctx, o, how)
	case *schedulingv1alpha2.PodGroup:
		return b.createPodGroup(ctx, o)
	case *policyv1.PodDisruptionBudget:
		_, err = b.Admin.PolicyV1().PodDisruptionBudgets(o.Namespace).Create(ctx, o, how)
	case *resourcev1.DeviceClass:
		_, err = b.Admin.ResourceV1().DeviceClasses().Create(ctx, o, how)
	case *resourcev1.ResourceSlice:
		_, err = b.Admin.ResourceV1().ResourceSlices().Create(ctx, o, how)
	case *resourcev1.ResourceClaim:
		_, err = b.Admin.ResourceV1().ResourceClaims(o.Namespace).Create(ctx, o, how)
	case *resourcev1.ResourceClaimTemplate:
		_, err = b.Admin.ResourceV1().ResourceClaimTemplates(o.Namespace).Create(ctx, o, how)
	default:
		err = fmt.Errorf("not a kind that the test bed creates")
	}
	return err
}

// markReady makes a node look as its kubelet would say, where the test does not say.
func markReady(n *v1.Node) {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return
		}
	}
	now := metav1.NewTime(time.Now())
	n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Hollow", LastHeartbeatTime: now, LastTransitionTime: now,
	})
}

func (b *Bed) createPod(ctx context.Context, p *v1.Pod) error {
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			if containers[i].Image == "" {
				containers[i].Image = "pause"
			}
		}
	}
	if err := b.givePriority(ctx, p.Spec.Priority, &p.Spec.PriorityClassName); err != nil {
		return err
	}
	status := p.Status
	var created *v1.Pod
	err := untilClassKnown(ctx, func() (err error) {
		created, err = b.Admin.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("pod %s: %w", key(p), err)
	}
	if status.Phase == "" && status.NominatedNodeName == "" && len(status.Conditions) == 0 {
		return nil
	}
	created.Status = status
	if _, err := b.Admin.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("status of pod %s: %w", key(p), err)
	}
	return nil
}

func (b *Bed) createPodGroup(ctx context.Context, g *schedulingv1alpha2.PodGroup) error {
	if err := b.givePriority(ctx, g.Spec.Priority, &g.Spec.PriorityClassName); err != nil {
		return err
	}
	return untilClassKnown(ctx, func() error {
		_, err := b.Admin.SchedulingV1alpha2().PodGroups(g.Namespace).Create(ctx, g, metav1.CreateOptions{})
		return err
	})
}

// untilClassKnown creates something again as long as the server's admission, which hears of a class through a watch, lacks the class.
func untilClassKnown(ctx context.Context, create func() error) error {
	err := create()
	for lacksClass(err) && ctx.Err() == nil {
		select {
		case <-time.After(readyPoll):
		case <-ctx.Done():
		}
		err = create()
	}
	return err
}

// lacksClass tells whether the server does not know one of the priority classes of the bed.
func lacksClass(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "no PriorityClass with name priority-")
}

// givePriority gives what has a priority but no class the class priority-<value>: the server
// takes priorities from classes only.
func (b *Bed) givePriority(ctx context.Context, priority *int32, of *string) error {
	if priority == nil || *of != "" {
		return nil
	}
	value := *priority
	name := fmt.Sprintf("priority-%d", value)
	if value < 0 {
		name = fmt.Sprintf("priority-minus-%d", -int64(value))
	}
	*of = name
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.priorities[value] {
		return nil
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	if err := b.Create(ctx, class); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	b.priorities[value] = true
	return nil
}

// atOnce deletes without waiting for a kubelet.
func atOnce() metav1.DeleteOptions {
	var zero int64
	return metav1.DeleteOptions{GracePeriodSeconds: &zero}
}

// DeletePods deletes pods, given as namespace/name, at once, and waits until they are gone.
func (b *Bed) DeletePods(ctx context.Context, keys ...string) error {
	g, in := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	for _, k := range keys {
		g.Go(func() error {
			namespace, name := split(k)
			err := b.Admin.CoreV1().Pods(namespace).Delete(in, name, atOnce())
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	_, err := b.Pods.Until(ctx, "are gone", IsGone, keys...)
	return err
}

// Clear deletes what Create creates, but for namespaces and priority classes, and waits
// until the pods are gone. Of kinds that the API server does not serve there is nothing.
func (b *Bed) Clear(ctx context.Context) error {
	core, storage, apps := b.Admin.CoreV1(), b.Admin.StorageV1(), b.Admin.AppsV1()
	now, all := atOnce(), metav1.ListOptions{}
	namespaces, err := core.Namespaces().List(ctx, all)
	if err != nil {
		return err
	}
	for _, n := range namespaces.Items {
		for _, remove := range []func(context.Context, metav1.DeleteOptions, metav1.ListOptions) error{
			apps.Deployments(n.Name).DeleteCollection, apps.ReplicaSets(n.Name).DeleteCollection, apps.StatefulSets(n.Name).DeleteCollection,
			core.ReplicationControllers(n.Name).DeleteCollection, core.Pods(n.Name).DeleteCollection,
			core.PersistentVolumeClaims(n.Name).DeleteCollection, storage.CSIStorageCapacities(n.Name).DeleteCollection,
			b.Admin.PolicyV1().PodDisruptionBudgets(n.Name).DeleteCollection,
			b.Admin.ResourceV1().ResourceClaims(n.Name).DeleteCollection,
			b.Admin.ResourceV1().ResourceClaimTemplates(n.Name).DeleteCollection,
		} {
			if err := remove(ctx, now, all); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("clear namespace %s: %w", n.Name, err)
			}
		}
		if err := b.deleteServices(ctx, n.Name); err != nil {
			return err
		}
	}
	for _, remove := range []func(context.Context, metav1.DeleteOptions, metav1.ListOptions) error{
		core.Nodes().DeleteCollection, core.PersistentVolumes().DeleteCollection, storage.StorageClasses().DeleteCollection,
		storage.CSINodes().DeleteCollection, storage.CSIDrivers().DeleteCollection, storage.VolumeAttachments().DeleteCollection,
		b.Admin.ResourceV1().DeviceClasses().DeleteCollection, b.Admin.ResourceV1().ResourceSlices().DeleteCollection,
	} {
		if err := remove(ctx, now, all); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("clear: %w", err)
		}
	}
	var keys []string
	for _, p := range b.Pods.All() {
		keys = append(keys, key(p))
	}
	_, err = b.Pods.Until(ctx, "are gone", IsGone, keys...)
	return err
}

// deleteServices leaves the API server's own.
func (b *Bed) deleteServices(ctx context.Context, namespace string) error {
	services, err := b.Admin.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, s := range services.Items {
		if s.Name == "kubernetes" {
			continue
		}
		if err := b.Admin.CoreV1().Services(namespace).Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete service %s/%s: %w", namespace, s.Name, err)
		}
	}
	return nil
}
