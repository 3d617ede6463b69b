package manifest

import (
	"maps"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// applies tells whether an object is a manifest that is meant for what a cluster has already under its name: the cluster's own has a
// UID, a manifest has none, or that of the cluster's in another file, as what kubectl get writes has once it is edited. Nodes and pods
// are not applied: a second one of these is taken for a slip of the pen.
func applies(obj, there Object) bool {
	mine, its := uid(obj.Value), uid(there.Value)
	return obj.Kind != "Node" && obj.Kind != "Pod" && its != "" && (mine == "" || mine == its && obj.doc.file != there.doc.file)
}

func uid(obj runtime.Object) string { return string(obj.(metav1.Object).GetUID()) }

// applyTo has an object keep what a cluster has written of the one that it is applied to, as kubectl apply does: who it is, labels
// and annotations that the manifest does not name, its status, what a claim and a volume are bound to, and how many replicas an
// autoscaler or a hand has set.
func (o Object) applyTo(there runtime.Object) {
	obj := o.Value
	applyMeta(obj.(metav1.Object), there.(metav1.Object))
	if status := reflect.ValueOf(obj).Elem().FieldByName("Status"); status.IsValid() {
		status.Set(reflect.ValueOf(there).Elem().FieldByName("Status"))
	}
	if o.unscaled {
		*replicasOf(obj) = *replicasOf(there)
	}
	switch obj := obj.(type) {
	case *v1.PersistentVolumeClaim:
		there := there.(*v1.PersistentVolumeClaim)
		if obj.Spec.VolumeName == "" {
			obj.Spec.VolumeName = there.Spec.VolumeName
		}
		if obj.Spec.StorageClassName == nil {
			obj.Spec.StorageClassName = there.Spec.StorageClassName
		}
	case *v1.PersistentVolume:
		if obj.Spec.ClaimRef == nil {
			obj.Spec.ClaimRef = there.(*v1.PersistentVolume).Spec.ClaimRef
		}
	}
}

// LeaveReplicas takes the default number of replicas back from a manifest that names none, and is applied to nothing: how many there
// are to be depends on how many pods there are.
func (o Object) LeaveReplicas() {
	if o.unscaled && o.Over == nil {
		*replicasOf(o.Value) = nil
	}
}

// SetReplicas has an object be of so many replicas; false: it has no such number.
func SetReplicas(obj runtime.Object, n int32) bool {
	at := replicasOf(obj)
	if at == nil {
		return false
	}
	*at = &n
	return true
}

// replicasOf is where an object says how many replicas it has; nil: nowhere.
func replicasOf(obj runtime.Object) **int32 {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return &obj.Spec.Replicas
	case *appsv1.ReplicaSet:
		return &obj.Spec.Replicas
	case *appsv1.StatefulSet:
		return &obj.Spec.Replicas
	case *v1.ReplicationController:
		return &obj.Spec.Replicas
	}
	return nil
}

func applyMeta(obj, there metav1.Object) {
	obj.SetUID(there.GetUID())
	obj.SetResourceVersion(there.GetResourceVersion())
	obj.SetGeneration(there.GetGeneration())
	obj.SetCreationTimestamp(there.GetCreationTimestamp())
	obj.SetDeletionTimestamp(there.GetDeletionTimestamp())
	obj.SetLabels(both(there.GetLabels(), obj.GetLabels()))
	obj.SetAnnotations(both(there.GetAnnotations(), obj.GetAnnotations()))
	if obj.GetOwnerReferences() == nil {
		obj.SetOwnerReferences(there.GetOwnerReferences())
	}
	if obj.GetFinalizers() == nil {
		obj.SetFinalizers(there.GetFinalizers())
	}
}

// both has the entries of both; of what both have, the second's.
func both(first, second map[string]string) map[string]string {
	if len(first) == 0 {
		return second
	}
	all := maps.Clone(first)
	maps.Copy(all, second)
	return all
}
