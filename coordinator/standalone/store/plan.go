package store

import (
	"bytes"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// plan is what an object's apply comes to, given what is there.
type plan struct {
	index   int
	ref     objects.Ref
	obj     objects.Object
	write   write
	outcome pb.ApplyOutcome
	// class is what a new claim gets that leaves its storage class to the cluster.
	class string
}

// decide completes the object with what only the store knows and compares it with what is
// there (nil: nothing).
func (s *Store) decide(p *plan, current *mvccpb.KeyValue) (field.ErrorList, error) {
	forget(p.obj)
	p.write = write{key: s.keys.object(p.ref), seen: modRevision(current)}
	if current == nil {
		s.create(p)
		p.outcome = pb.ApplyOutcome_APPLY_OUTCOME_CREATED
	} else {
		old, err := decode(current)
		if err != nil {
			return nil, err
		}
		errs, err := inherit(p.obj, old)
		if err != nil || len(errs) > 0 {
			return errs, err
		}
		p.outcome = pb.ApplyOutcome_APPLY_OUTCOME_CONFIGURED
	}
	raw, err := encode(p.obj)
	if err != nil {
		return nil, err
	}
	if current != nil && bytes.Equal(raw, current.Value) {
		p.outcome = pb.ApplyOutcome_APPLY_OUTCOME_UNCHANGED
	}
	p.write.value = raw
	return nil, nil
}

// forget drops what a client can not set, such as what a dump of another cluster carries.
// A claim keeps its uid: the volumes of the dump name their claims by it.
func forget(obj objects.Object) {
	if objects.KindOf(obj) != objects.KindPersistentVolumeClaim {
		obj.SetUID("")
	}
	obj.SetResourceVersion("")
	obj.SetSelfLink("")
	obj.SetGeneration(0)
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetManagedFields(nil)
	obj.SetGenerateName("")
}

func (s *Store) create(p *plan) {
	if p.obj.GetUID() == "" {
		p.obj.SetUID(s.uid())
	}
	p.obj.SetCreationTimestamp(metav1.NewTime(s.now()))
	switch obj := p.obj.(type) {
	case *v1.Pod:
		obj.SetGeneration(1)
		objects.MergeLabelKeys(obj, obj.Labels)
		objects.NameClaims(obj)
	case *schedulingv1alpha2.PodGroup:
		obj.SetGeneration(1)
	case *v1.PersistentVolumeClaim:
		if p.class != "" && objects.NamesNoClass(obj) {
			obj.Spec.StorageClassName = &p.class
		}
	}
}

// inherit carries over from the old object what an apply does not change, and refuses what it
// may not.
func inherit(obj, old objects.Object) (field.ErrorList, error) {
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetGeneration(old.GetGeneration())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	switch obj := obj.(type) {
	case *v1.Pod:
		if old, ok := old.(*v1.Pod); ok {
			return inheritPod(obj, old)
		}
	case *v1.Node:
		if old, ok := old.(*v1.Node); ok {
			// As with kubectl, a manifest without a status leaves the one that is there.
			if obj.Status.Capacity == nil && obj.Status.Allocatable == nil {
				obj.Status = old.Status
			}
			return nil, nil
		}
	case *v1.PersistentVolume:
		if old, ok := old.(*v1.PersistentVolume); ok {
			return inheritVolume(obj, old), nil
		}
	case *v1.PersistentVolumeClaim:
		if old, ok := old.(*v1.PersistentVolumeClaim); ok {
			return inheritClaim(obj, old), nil
		}
	case *resourcev1.ResourceClaim:
		if old, ok := old.(*resourcev1.ResourceClaim); ok {
			return inheritResourceClaim(obj, old), nil
		}
	case *resourcev1.ResourceClaimTemplate:
		if old, ok := old.(*resourcev1.ResourceClaimTemplate); ok {
			return unchanged(field.NewPath("spec"), obj.Spec, old.Spec), nil
		}
	case *resourcev1.ResourceSlice:
		if old, ok := old.(*resourcev1.ResourceSlice); ok {
			return inheritSlice(obj, old), nil
		}
	case *schedulingv1alpha2.PodGroup:
		if old, ok := old.(*schedulingv1alpha2.PodGroup); ok {
			obj.Status = old.Status // the scheduler's
			return unchanged(field.NewPath("spec"), obj.Spec, old.Spec), nil
		}
	case *schedulingv1.PriorityClass:
		if old, ok := old.(*schedulingv1.PriorityClass); ok {
			return append(unchanged(field.NewPath("value"), obj.Value, old.Value),
				unchanged(field.NewPath("preemptionPolicy"), obj.PreemptionPolicy, old.PreemptionPolicy)...), nil
		}
	default:
		if objects.KindOf(obj) == objects.KindOf(old) {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("a %s is stored under the key of %s", objects.KindOf(old), objects.RefOf(obj))
}

// inheritPod keeps what the scheduler has written. The spec of a pod that is on a node is
// what its room was promised for, so it stays. That the pod has ended is the client's to
// tell: it only gives room back.
func inheritPod(pod, old *v1.Pod) (field.ErrorList, error) {
	phase, ended := pod.Status.Phase, objects.IsTerminal(pod)
	pod.Status = old.Status
	objects.NameClaims(pod)
	if ended {
		pod.Status.Phase = phase
	}
	labels := pod.Labels
	if old.Spec.NodeName != "" {
		labels = objects.MergedLabels(old) // as they were when the selectors were made
	}
	objects.MergeLabelKeys(pod, labels)
	name := field.NewPath("spec", "nodeName")
	switch {
	case pod.Spec.NodeName == "":
		pod.Spec.NodeName = old.Spec.NodeName
	case pod.Spec.NodeName != old.Spec.NodeName && old.Spec.NodeName == "":
		return field.ErrorList{field.Forbidden(name, "the pod is there and pending; only the scheduler puts it on a node")}, nil
	case pod.Spec.NodeName != old.Spec.NodeName:
		return field.ErrorList{field.Forbidden(name, fmt.Sprintf("the pod is on node %s and can not be moved", old.Spec.NodeName))}, nil
	}
	if errs := unchanged(field.NewPath("spec", "schedulingGroup"), pod.Spec.SchedulingGroup, old.Spec.SchedulingGroup); len(errs) > 0 {
		return errs, nil
	}
	same, err := equalSpecs(&pod.Spec, &old.Spec)
	switch {
	case err != nil || same:
		return nil, err
	case old.Spec.NodeName != "":
		return field.ErrorList{field.Forbidden(field.NewPath("spec"),
			fmt.Sprintf("the pod is on node %s and may not be changed but for labels and annotations", old.Spec.NodeName))}, nil
	}
	pod.Generation = old.Generation + 1
	return nil, nil
}

func equalSpecs(a, b *v1.PodSpec) (bool, error) {
	x, err := a.Marshal()
	if err != nil {
		return false, fmt.Errorf("encode a pod spec: %w", err)
	}
	y, err := b.Marshal()
	if err != nil {
		return false, fmt.Errorf("encode a pod spec: %w", err)
	}
	return bytes.Equal(x, y), nil
}
