package kube

import (
	"fmt"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/scorer/scan"
)

// trimmer cuts objects down to what is read of them, and lets them share what is equal. An
// object is its own until it is trimmed, and shared from then on.
type trimmer struct {
	whole  Whole
	large  *lru.Cache[types.UID, struct{}] // pods without a node that were over largePod before they were trimmed
	mu     sync.Mutex
	shared *shared
}

// Whole says which objects are kept as they are, but for their managed fields: others than the
// rules see them.
//
// Differs from upstream: a node that is shown to an extender has no managed fields either.
type Whole struct {
	// Nodes are all nodes, Pending the pods without a node, Pods all pods, and All all objects.
	Nodes, Pending, Pods, All bool
	// Scheduled has pods keep the condition PodScheduled when they have a node, which tells since when: some 150 bytes each.
	Scheduled bool
}

// largePods is how many are known: who makes more of them has those patched as others are that it has made before.
const largePods = 1 << 16

func newTrimmer(w Whole) *trimmer {
	large, err := lru.New[types.UID, struct{}](largePods)
	if err != nil {
		panic(err) // the number is above zero
	}
	return &trimmer{whole: w, large: large, shared: newShared()}
}

// Transform makes objects what a Source with that Whole keeps of them: it changes those that it is
// given, which are shared from then on. It is safe for concurrent use.
func Transform(w Whole) cache.TransformFunc { return newTrimmer(w).transform }

// keeps tells whether an object stays as it is.
func (w Whole) keeps(obj any) bool {
	if _, ok := obj.(metav1.Object); ok && w.All {
		return true
	}
	switch obj := obj.(type) {
	case *v1.Node:
		return w.Nodes
	case *v1.Pod:
		return w.Pods || w.Pending && obj.Spec.NodeName == ""
	}
	return false
}

// transform is a cache.TransformFunc. An object that meets a bug of ours stays as it is.
func (t *trimmer) transform(obj any) (out any, err error) {
	defer func() {
		if v := recover(); v != nil {
			p := scan.Recovered(v)
			klog.Background().Error(p, "An object is kept as it came, it met a bug where it was to be trimmed",
				"type", fmt.Sprintf("%T", obj), "stack", string(p.Stack))
			out, err = obj, nil
		}
	}()
	if t.whole.keeps(obj) {
		obj.(metav1.Object).SetManagedFields(nil)
		return obj, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch obj := obj.(type) {
	case *v1.Pod:
		if obj.Spec.NodeName == "" && obj.Size() > largePod {
			t.large.Add(obj.UID, struct{}{})
		}
		t.shared.pod(obj, t.whole.Scheduled)
	case *v1.Node:
		t.shared.node(obj)
	case *v1.Namespace:
		meta := t.shared.labelled(&obj.ObjectMeta)
		*obj = v1.Namespace{ObjectMeta: meta}
	case *v1.Service:
		*obj = v1.Service{ObjectMeta: t.shared.nameOnly(&obj.ObjectMeta),
			Spec: v1.ServiceSpec{Selector: t.shared.labelMap(obj.Spec.Selector)}}
	case *v1.ReplicationController:
		*obj = v1.ReplicationController{ObjectMeta: t.shared.nameOnly(&obj.ObjectMeta),
			Spec: v1.ReplicationControllerSpec{Selector: t.shared.labelMap(obj.Spec.Selector)}}
	case *appsv1.ReplicaSet:
		*obj = appsv1.ReplicaSet{ObjectMeta: t.shared.nameOnly(&obj.ObjectMeta), Spec: appsv1.ReplicaSetSpec{Selector: obj.Spec.Selector}}
	case *appsv1.StatefulSet:
		*obj = appsv1.StatefulSet{ObjectMeta: t.shared.nameOnly(&obj.ObjectMeta), Spec: appsv1.StatefulSetSpec{Selector: obj.Spec.Selector}}
	case *storagev1.VolumeAttachment:
		*obj = storagev1.VolumeAttachment{ObjectMeta: t.shared.nameOnly(&obj.ObjectMeta), Spec: obj.Spec}
		obj.Spec.Source.InlineVolumeSpec = nil
	case *policyv1.PodDisruptionBudget:
		*obj = policyv1.PodDisruptionBudget{
			ObjectMeta: t.shared.nameOnly(&obj.ObjectMeta), Spec: policyv1.PodDisruptionBudgetSpec{Selector: obj.Spec.Selector},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: obj.Status.DisruptionsAllowed,
				DisruptedPods: obj.Status.DisruptedPods},
		}
	case *schedulingv1alpha2.PodGroup:
		// All that is said of it stays, for its conditions are compared with what is to be written, and annotations ask for more.
		obj.SetManagedFields(nil)
		delete(obj.GetAnnotations(), v1.LastAppliedConfigAnnotation)
	case *resourcev1.DeviceClass:
		*obj = resourcev1.DeviceClass{ObjectMeta: t.shared.nameOnly(&obj.ObjectMeta), Spec: obj.Spec}
	case *resourcev1.ResourceSlice:
		t.shared.slice(obj)
	case *resourcev1.ResourceClaim:
		obj.SetManagedFields(nil) // all else stays, for claims are written back whole
		obj.Spec = t.shared.claim(&obj.Spec)
	case *v1.PersistentVolume, *v1.PersistentVolumeClaim, *storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver,
		*storagev1.CSIStorageCapacity:
		trimStorage(obj.(metav1.Object))
	}
	return obj, nil
}

// trimStorage leaves an object of storage as it is, but for what writes of it left behind.
// PersistentVolumes and claims are changed by patches, so that nothing is lost by it.
func trimStorage(obj metav1.Object) {
	obj.SetManagedFields(nil)
	delete(obj.GetAnnotations(), v1.LastAppliedConfigAnnotation)
}

// slice keeps the devices. Those of one model have their attributes and capacities in common.
func (s *shared) slice(r *resourcev1.ResourceSlice) {
	spec := &r.Spec
	spec.Driver, spec.Pool.Name = s.text(spec.Driver), s.text(spec.Pool.Name)
	for i := range spec.Devices {
		d := &spec.Devices[i]
		d.Name = s.text(d.Name)
		if len(d.Attributes)+len(d.Capacity) > 0 {
			c := resourcev1.Device{Attributes: d.Attributes, Capacity: d.Capacity}
			c = s.devices.get(s.key(&c), c)
			d.Attributes, d.Capacity = c.Attributes, c.Capacity
		}
	}
	*r = resourcev1.ResourceSlice{ObjectMeta: s.nameOnly(&r.ObjectMeta), Spec: *spec}
}

// nameOnly is the metadata of an object whose labels nobody reads.
func (s *shared) nameOnly(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: s.text(m.Namespace), UID: m.UID, ResourceVersion: m.ResourceVersion,
		Generation: m.Generation, CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
}

// labelled is nameOnly with labels.
func (s *shared) labelled(m *metav1.ObjectMeta) metav1.ObjectMeta {
	out := s.nameOnly(m)
	out.Labels = s.labelMap(m.Labels)
	return out
}

// node keeps what rows are made of, and the conditions' status.
func (s *shared) node(n *v1.Node) {
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		t.Key, t.Value, t.Effect = s.text(t.Key), s.text(t.Value), v1.TaintEffect(s.text(string(t.Effect)))
	}
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		*c = v1.NodeCondition{Type: v1.NodeConditionType(s.text(string(c.Type))), Status: v1.ConditionStatus(s.text(string(c.Status)))}
	}
	for i := range n.Status.Images {
		n.Status.Images[i] = s.image(&n.Status.Images[i])
	}
	for i := range n.Status.DeclaredFeatures {
		n.Status.DeclaredFeatures[i] = s.text(n.Status.DeclaredFeatures[i])
	}
	*n = v1.Node{
		ObjectMeta: s.labelled(&n.ObjectMeta),
		Spec:       v1.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		Status: v1.NodeStatus{
			Allocatable: s.amounts(n.Status.Allocatable), Conditions: n.Status.Conditions,
			Images: n.Status.Images, DeclaredFeatures: n.Status.DeclaredFeatures,
		},
	}
}
