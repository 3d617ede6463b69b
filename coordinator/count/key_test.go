package count

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func TestAPodHoldsTheKeysWhoseCountersItRaises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, there := drawVolume(t), &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: drawVolume(t)}, {VolumeSource: drawVolume(t)}}}}
		held := Held(there)
		for _, k := range Disk(&a) {
			if got, want := held[k], k.value(there) > 0; got != want {
				t.Errorf("key %v of %v against %v: got held %t, want %t", k, a, there.Spec.Volumes, got, want)
			}
		}
	})
}

func TestAClaimCountsByItsNameInEveryNamespace(t *testing.T) {
	mounts := func(namespace string, claims ...string) *v1.Pod {
		p := &v1.Pod{}
		p.Namespace = namespace
		for _, name := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
		return p
	}
	r := New()
	id := r.KeyedIn(ClaimName("data"), []string{"b"})
	if added := r.TakeNew(); len(added) != 1 || !slices.Equal(added[0].Namespaces(), []string{"b"}) {
		t.Errorf("got new counters %v, want one that pods of b fill", added)
	}
	for _, x := range []struct {
		pod  *v1.Pod
		want int64
	}{
		{mounts("a", "data"), 1},
		{mounts("b", "data", "other", "data"), 2},
		{mounts("c", "other"), 0},
	} {
		got := int64(0)
		for _, v := range r.Contributions(x.pod) {
			if v.Counter == id {
				got += v.Value
			}
		}
		if value := r.counters[id].Value(x.pod); got != x.want || value != x.want {
			t.Errorf("pod of %s: got %d, and %d by its counter, want %d", x.pod.Namespace, got, value, x.want)
		}
	}
	for range patience + 2 {
		r.Sweep()
	}
	if len(r.keyed) > 0 || r.KeyedIn(ClaimName("data"), nil) == id {
		t.Error("nobody asks for the counter, and it stays")
	}
	if added := r.TakeNew(); len(added) != 1 || added[0].Namespaces() == nil {
		t.Errorf("got new counters %v, want one that no pod fills", added)
	}
}
