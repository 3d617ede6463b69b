package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// TestApplyKeepsWhatTheClusterHasWritten holds that a manifest which is applied changes what it names, and leaves alone what a cluster
// writes: a claim stays bound, and a manifest without replicas leaves them to whoever has set them.
func TestApplyKeepsWhatTheClusterHasWritten(t *testing.T) {
	const text = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, uid: u1, labels: {a: "1", b: "1"}, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, volumeName: pv-1, resources: {requests: {storage: 1Gi}}}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1, uid: u2}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /x}, claimRef: {name: data, namespace: default}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, uid: u3}, spec: {replicas: 7, serviceName: old}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, uid: u4}, spec: {replicas: 7}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, labels: {b: "2"}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 2Gi}, hostPath: {path: /x}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: new}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3}}
`
	set, err := Read([]string{"-"}, Options{Stdin: strings.NewReader(text), Check: func(obj runtime.Object) field.ErrorList {
		if obj, ok := obj.(objects.Object); ok {
			objects.Default(obj)
		}
		return nil
	}}, &Report{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, o := range set.Objects {
		switch x := o.Value.(type) {
		case *v1.PersistentVolumeClaim:
			got["claim"] = []any{x.Name, string(x.UID), x.Labels, x.Spec.VolumeName, *x.Spec.StorageClassName, string(x.Status.Phase),
				x.Annotations["pv.kubernetes.io/bind-completed"], x.Spec.Resources.Requests.Storage().String()}
		case *v1.PersistentVolume:
			got["volume"] = []any{string(x.UID), x.Spec.ClaimRef.Name, x.Spec.Capacity.Storage().String()}
		case *appsv1.StatefulSet:
			got["set"] = []any{int(*x.Spec.Replicas), x.Spec.ServiceName, int(*o.Over.Value.(*appsv1.StatefulSet).Spec.Replicas)}
		case *appsv1.Deployment:
			got["deployment"] = []any{int(*x.Spec.Replicas), int(*o.Over.Value.(*appsv1.Deployment).Spec.Replicas)}
		}
	}
	want := map[string]any{
		"claim":      []any{"data", "u1", map[string]string{"a": "1", "b": "2"}, "pv-1", "fast", "Bound", "yes", "2Gi"},
		"volume":     []any{"u2", "data", "2Gi"},
		"set":        []any{7, "new", 7},
		"deployment": []any{3, 7},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("applied (-want +got):\n%s", d)
	}
}

// What kubectl get has written and somebody has edited is applied, too, where it stands in a file of its own.
func TestAnEditedObjectIsAppliedToTheClustersOwn(t *testing.T) {
	there := &appsv1.Deployment{}
	there.Name, there.Namespace, there.UID, there.Spec.Replicas = "web", "default", "u1", new(int32)
	there.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	const edited = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, uid: %s}, spec: {replicas: 60}}`
	for uid, want := range map[string]string{"u1": "", "u2": "standard input:1: Deployment default/web: metadata.name: given twice; first at the cluster"} {
		set, err := Read([]string{"-"}, Options{Stdin: strings.NewReader(fmt.Sprintf(edited, uid)), First: []runtime.Object{there}, From: "the cluster"}, &Report{})
		if want != "" {
			if err == nil || err.Error() != want {
				t.Errorf("another one of the name: got %v, want %s", err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if o := set.Objects[0]; o.Over == nil || *o.Value.(*appsv1.Deployment).Spec.Replicas != 60 {
			t.Errorf("got %v over %v, want 60 replicas over the cluster's own", o, o.Over)
		}
	}
}

// TestGivenObjectsStandFirst holds that objects of no file are read like those of one.
func TestGivenObjectsStandFirst(t *testing.T) {
	there := &v1.Service{}
	there.Name, there.Namespace, there.UID = "web", "default", "u1"
	there.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("Service"))
	again := there.DeepCopy()
	again.UID = "u2"
	_, err := Read([]string{"-"}, Options{Stdin: strings.NewReader("# none\n---\n" + node("a")), First: []runtime.Object{there, again}, From: "the cluster"}, &Report{})
	want := "the cluster: Service default/web: metadata.name: given twice; first at the cluster"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
