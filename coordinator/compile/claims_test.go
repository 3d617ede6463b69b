package compile

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Pods of a workload, each with a claim of its own that waits for its pod, lead to one query
// made ready once, for as long as nothing tells their claims apart.
func TestPodsWithClaimsOfTheirOwnShareAQuery(t *testing.T) {
	w := stored{EmptyCluster(still{}), newWaitingStore()}
	claim := func(name, class string) {
		c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		c.Spec.StorageClassName = &class
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		w.store.claims["default/"+name] = c
		w.store.version++
	}
	claim("c0", "wait")
	claim("c1", "wait")
	c, prof := New(), volumeProfile(t)
	class := func(pod, claim string) *Class {
		got, err := c.Class(build.Pod(pod).CPU("1").Claim(claim).Obj(), prof, w)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first, second := class("p0", "c0"), class("p1", "c1")
	if first.Scorer == nil || first.Scorer != second.Scorer || first.Query != second.Query || !second.Volatile {
		t.Errorf("got %+v and %+v, want one query for both, volatile", first, second)
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.StorageClassName, pv.Status.Phase, pv.Spec.AccessModes = "wait", v1.VolumeAvailable, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	w.store.volumes["pv"] = pv
	w.store.version++
	if third := class("p0", "c0"); third.ID() == first.ID() {
		t.Errorf("got the same query once there is a volume that the claim may be bound to:\n%v", third.Query)
	}
}
