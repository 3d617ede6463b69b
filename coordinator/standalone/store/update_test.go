package store_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

func volume(name string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Capacity:               v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")},
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/" + name}},
			StorageClassName:       "fast",
		},
	}
}

func claim(name string) *v1.PersistentVolumeClaim {
	class := "fast"
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("5Gi")}},
			StorageClassName: &class,
		},
	}
}

// stored reads one object of the kind back; the test fails where it is not there.
func stored[T objects.Object](t testing.TB, r *rig, name string) T {
	t.Helper()
	got, ok := find[T](t, r, name)
	if !ok {
		t.Fatalf("there is no %T %s", got, name)
	}
	return got
}

func find[T objects.Object](t testing.TB, r *rig, name string) (found T, ok bool) {
	t.Helper()
	for _, obj := range r.load(t).Cluster {
		if o, is := obj.(T); is && o.GetName() == name {
			return o, true
		}
	}
	return found, false
}

// bindClaim is what a scheduler writes when it gives a claim its volume.
func bindClaim(v *v1.PersistentVolume, c *v1.PersistentVolumeClaim) []objects.Object {
	v, c = v.DeepCopy(), c.DeepCopy()
	v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	v.Status.Phase = v1.VolumeBound
	metav1.SetMetaDataAnnotation(&v.ObjectMeta, "pv.kubernetes.io/bound-by-controller", "yes")
	c.Spec.VolumeName = v.Name
	c.Status.Phase = v1.ClaimBound
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	return []objects.Object{v, c}
}

func TestAVolumeAndItsClaimAreBoundAtOnce(t *testing.T) {
	r := newRig(t)
	after := r.apply(t, volume("disk"), claim("data"))
	w := r.watch(t, after)
	objs := bindClaim(stored[*v1.PersistentVolume](t, r, "disk"), stored[*v1.PersistentVolumeClaim](t, r, "data"))
	before := fmt.Sprint(objs)
	revision, err := r.Update(t.Context(), r.fence, objs)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(objs); got != before {
		t.Errorf("the caller's objects were changed: got %s, want %s", got, before)
	}
	for _, want := range []objects.Kind{objects.KindPersistentVolume, objects.KindPersistentVolumeClaim} {
		e := w.next(t)
		if e.Kind != want || e.Type != objects.Modified || e.Revision != revision || e.Object.GetResourceVersion() != fmt.Sprint(revision) {
			t.Errorf("got %v of %s at %d (%s), want MODIFIED of %s at %d", e.Type, e.Kind, e.Revision, e.Object.GetResourceVersion(), want, revision)
		}
	}
	v, c := stored[*v1.PersistentVolume](t, r, "disk"), stored[*v1.PersistentVolumeClaim](t, r, "data")
	if v.Spec.ClaimRef.UID != c.UID || c.Spec.VolumeName != "disk" || c.Status.Phase != v1.ClaimBound {
		t.Errorf("got claim %v and volume %q of phase %s, want them bound to each other", v.Spec.ClaimRef, c.Spec.VolumeName, c.Status.Phase)
	}
}

func TestAnUpdateIsRefusedWholeAndSaysWhy(t *testing.T) {
	r := newRig(t)
	r.apply(t, volume("disk"), claim("data"), volume("other"))
	disk, data := stored[*v1.PersistentVolume](t, r, "disk"), stored[*v1.PersistentVolumeClaim](t, r, "data")
	other := stored[*v1.PersistentVolume](t, r, "other")
	relabelled := claim("data")
	relabelled.Labels = map[string]string{"a": "b"}
	r.apply(t, relabelled)
	if _, _, err := r.Delete(t.Context(), r.fence, []objects.Ref{objects.RefOf(other)}); err != nil {
		t.Fatal(err)
	}
	before := r.load(t).Revision
	fresh := stored[*v1.PersistentVolumeClaim](t, r, "data")
	never := claim("never")
	for name, tc := range map[string]struct {
		objs []objects.Object
		want error
	}{
		"changed since":      {bindClaim(disk, data), objects.ErrConflict},
		"deleted":            {bindClaim(other, fresh), objects.ErrNotFound},
		"twice in one call":  {[]objects.Object{disk, disk}, objects.ErrConflict},
		"never stored":       {[]objects.Object{disk, never}, nil},
		"more than a txn":    {slices.Repeat([]objects.Object{disk}, 101), nil},
		"changed and gone":   {append(bindClaim(other, data), disk), objects.ErrNotFound},
		"nothing at all":     {nil, nil},
		"deposed, and wrong": {bindClaim(disk, data), lease.ErrDeposed},
	} {
		r.fence.expired.Store(tc.want == lease.ErrDeposed)
		_, err := r.Update(t.Context(), r.fence, tc.objs)
		switch {
		case tc.want != nil:
			wantError(t, name, err, tc.want)
		case (err == nil) != (tc.objs == nil):
			t.Errorf("%s: got %v", name, err)
		}
	}
	r.fence.expired.Store(false)
	r.depose(t)
	_, err := r.Update(t.Context(), r.fence, bindClaim(disk, fresh))
	wantError(t, "another leads", err, lease.ErrDeposed)
	if after := r.load(t).Revision; after > before+2 { // the test's own two writes made another leader
		t.Errorf("revision: got %d, want %d: something was written", after, before+2)
	}
}

func TestOfConcurrentUpdatesOneWins(t *testing.T) {
	r := newRig(t)
	r.apply(t, volume("disk"), claim("a"), claim("b"), claim("c"), claim("d"))
	disk := stored[*v1.PersistentVolume](t, r, "disk")
	var won atomic.Int64
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		c := stored[*v1.PersistentVolumeClaim](t, r, name)
		wg.Go(func() {
			_, err := r.Update(t.Context(), r.fence, bindClaim(disk, c))
			if err == nil {
				won.Add(1)
			} else {
				wantError(t, name, err, objects.ErrConflict)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d updates won, want 1", won.Load())
	}
	owner, bound := stored[*v1.PersistentVolume](t, r, "disk").Spec.ClaimRef.Name, 0
	for _, name := range []string{"a", "b", "c", "d"} {
		if c := stored[*v1.PersistentVolumeClaim](t, r, name); c.Spec.VolumeName != "" {
			bound++
			if c.Name != owner {
				t.Errorf("claim %s has the volume of %s", c.Name, owner)
			}
		}
	}
	if bound != 1 {
		t.Errorf("%d claims are bound, want 1", bound)
	}
}

func TestAnUpdateWhoseAnswerIsLostIsFoundAgain(t *testing.T) {
	r := newRig(t)
	r.apply(t, volume("disk"), claim("data"))
	s, fl := r.flaky(t)
	disk, data := stored[*v1.PersistentVolume](t, r, "disk"), stored[*v1.PersistentVolumeClaim](t, r, "data")
	fl.loseAnswers.Store(1)
	revision, err := s.Update(t.Context(), r.fence, bindClaim(disk, data))
	if err != nil {
		t.Fatal(err)
	}
	disk, data = stored[*v1.PersistentVolume](t, r, "disk"), stored[*v1.PersistentVolumeClaim](t, r, "data")
	if disk.ResourceVersion != fmt.Sprint(revision) {
		t.Errorf("got revision %d, want %s", revision, disk.ResourceVersion)
	}

	// An attempt goes unanswered, and before the next one somebody changes one object, or both.
	disk.Labels = map[string]string{"a": "b"}
	data.Labels = map[string]string{"a": "b"}
	fl.loseRequests.Store(1)
	fl.onLoss = func() {
		if fl.onLoss = func() {}; r.client != nil {
			c := claim("data")
			c.Labels = map[string]string{"x": "y"}
			r.apply(t, c)
		}
	}
	_, err = s.Update(t.Context(), r.fence, []objects.Object{disk, data})
	wantError(t, "one was changed: it was not written, and can not be any more", err, objects.ErrConflict)

	disk, data = stored[*v1.PersistentVolume](t, r, "disk"), stored[*v1.PersistentVolumeClaim](t, r, "data")
	disk.Labels, data.Labels = map[string]string{"c": "d"}, map[string]string{"c": "d"}
	fl.loseAnswers.Store(1)
	fl.onLoss = func() {
		fl.onLoss = func() {}
		v := volume("disk")
		v.Labels = map[string]string{"x": "y"}
		c := claim("data")
		c.Labels = map[string]string{"x": "y"}
		r.apply(t, v, c)
	}
	_, err = s.Update(t.Context(), r.fence, []objects.Object{disk, data})
	wantError(t, "both were changed after an answer was lost", err, objects.ErrUnknown)
}
