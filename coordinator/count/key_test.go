package count

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func TestTwoDisksConflictWhereTheCounterOfOneOfTheirKeysIsAboveZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawVolume(t), drawVolume(t)
		there := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: b}}}}
		want := false
		for _, k := range Disk(&a) {
			want = want || k.value(there) > 0
		}
		if got := Conflict(&a, &b); got != want {
			t.Errorf("conflict of %v with %v: got %v, want %v", a, b, got, want)
		}
		if other := Conflict(&b, &a); other != want {
			t.Errorf("conflict of %v with %v: got %v, want %v", b, a, other, want)
		}
	})
}
