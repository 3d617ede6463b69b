package store_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
)

func storageClass(name string, isDefault bool) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disks"}
	if isDefault {
		c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	}
	return c
}

// scratching is a pod with one ephemeral volume, "scratch".
func scratching(name string) *v1.Pod {
	p := pod(name)
	spec := claim("").Spec
	spec.StorageClassName = nil
	p.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{
		Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: spec}},
	}}}
	return p
}

func TestAPodBringsTheClaimsOfItsEphemeralVolumes(t *testing.T) {
	r := newRig(t)
	r.apply(t, storageClass("fast", true), scratching("a"))
	c := stored[*v1.PersistentVolumeClaim](t, r, "a-scratch")
	if p := r.pod(t, "a"); !metav1.IsControlledBy(c, p) {
		t.Errorf("the claim is owned by %v, want pod a, %s", c.OwnerReferences, p.UID)
	}
	if got := c.Spec.StorageClassName; got == nil || *got != "fast" {
		t.Errorf("storage class: got %v, want fast, the default one", got)
	}

	// Applied again nothing changes, and what was lost is made again.
	before := c.ResourceVersion
	r.apply(t, scratching("a"))
	if got := stored[*v1.PersistentVolumeClaim](t, r, "a-scratch").ResourceVersion; got != before {
		t.Errorf("resource version: got %s, want %s", got, before)
	}
	drop(t, r, c)
	r.apply(t, scratching("a"))
	again := stored[*v1.PersistentVolumeClaim](t, r, "a-scratch")

	// It goes with its pod.
	drop(t, r, r.pod(t, "a"))
	if c, ok := find[*v1.PersistentVolumeClaim](t, r, "a-scratch"); ok {
		t.Errorf("the claim outlived its pod: %v", c)
	}
	if again.UID == "" || again.UID == c.UID {
		t.Errorf("uid of a claim made again: got %q after %q", again.UID, c.UID)
	}
}

func drop(t *testing.T, r *rig, obj objects.Object) {
	t.Helper()
	if gone, _, err := r.Delete(t.Context(), r.fence, []objects.Ref{objects.RefOf(obj)}); err != nil || !gone[0] {
		t.Fatalf("delete %s: got %v, %v", objects.RefOf(obj), gone, err)
	}
}

func TestWhoseClaimAnEphemeralVolumeFinds(t *testing.T) {
	r := newRig(t)
	// A dump names pods by uids that they have no more.
	dumped := claim("dumped-scratch")
	dumped.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "dumped", UID: "there"}}, v1.SchemeGroupVersion.WithKind("Pod"))}
	// And somebody's own claim may have the name by chance.
	r.apply(t, dumped, claim("mine-scratch"), scratching("dumped"), scratching("mine"))
	if c := stored[*v1.PersistentVolumeClaim](t, r, "dumped-scratch"); !metav1.IsControlledBy(c, r.pod(t, "dumped")) {
		t.Errorf("the dump's claim is owned by %v, want its pod", c.OwnerReferences)
	}
	mine := stored[*v1.PersistentVolumeClaim](t, r, "mine-scratch")
	if len(mine.OwnerReferences) > 0 {
		t.Errorf("somebody's claim is owned by %v, want nobody", mine.OwnerReferences)
	}
	drop(t, r, r.pod(t, "mine"))
	stored[*v1.PersistentVolumeClaim](t, r, "mine-scratch")
}

func TestADryRunAndAPodThatHasEndedMakeNoClaims(t *testing.T) {
	r := newRig(t)
	if _, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{scratching("a")}, true); err != nil {
		t.Fatal(err)
	}
	ended := scratching("ended")
	ended.Spec.NodeName, ended.Status.Phase = "n1", v1.PodSucceeded
	r.apply(t, ended)
	if all := r.load(t); len(all.Cluster) > 0 {
		t.Errorf("got %v, want none", all.Cluster)
	}
}

func TestAClaimWithoutAClassGetsTheDefaultOne(t *testing.T) {
	r := newRig(t)
	unnamed := func(name string) *v1.PersistentVolumeClaim {
		c := claim(name)
		c.Spec.StorageClassName = nil
		return c
	}
	none := unnamed("none")
	none.Spec.StorageClassName = new(string)
	class := func(name string) string {
		if c := stored[*v1.PersistentVolumeClaim](t, r, name).Spec.StorageClassName; c != nil {
			return *c
		}
		return "(unnamed)"
	}
	r.apply(t, unnamed("early"), storageClass("slow", false))
	r.apply(t, unnamed("same-request"), none, storageClass("fast", true))
	r.apply(t, unnamed("later"), unnamed("early"))
	unmarked := storageClass("fast", false)
	r.apply(t, unnamed("unmarked-by-now"), unmarked)
	for name, want := range map[string]string{
		"early": "(unnamed)", "same-request": "fast", "none": "", "later": "fast", "unmarked-by-now": "(unnamed)",
	} {
		if got := class(name); got != want {
			t.Errorf("class of %s: got %q, want %q", name, got, want)
		}
	}
}

func TestWhatIsBoundStaysBoundWhenItsManifestIsAppliedAgain(t *testing.T) {
	r := newRig(t)
	r.apply(t, volume("disk"), claim("data"))
	if _, err := r.Update(t.Context(), r.fence, bindClaim(stored[*v1.PersistentVolume](t, r, "disk"), stored[*v1.PersistentVolumeClaim](t, r, "data"))); err != nil {
		t.Fatal(err)
	}
	outcomes, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{volume("disk"), claim("data")}, false)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, outcomes, same, same)

	larger, prebound := claim("data"), volume("disk")
	larger.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("7Gi")
	prebound.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "data"}
	outcomes, _, err = r.Apply(t.Context(), r.fence, []runtime.Object{larger, prebound}, false)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, outcomes, changed, same)
	c, v := stored[*v1.PersistentVolumeClaim](t, r, "data"), stored[*v1.PersistentVolume](t, r, "disk")
	if c.Spec.VolumeName != "disk" || c.Status.Phase != v1.ClaimBound || v.Spec.ClaimRef.UID != c.UID || v.Status.Phase != v1.VolumeBound {
		t.Errorf("got volume %q, phase %s, claim %v, phase %s, want them still bound", c.Spec.VolumeName, c.Status.Phase, v.Spec.ClaimRef, v.Status.Phase)
	}

	block, moved := claim("data"), volume("disk")
	block.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
	moved.Spec.HostPath.Path = "/elsewhere"
	for _, obj := range []runtime.Object{block, moved} {
		_, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{obj}, false)
		if _, ok := err.(*store.InvalidError); !ok {
			t.Errorf("%T that becomes another: got %v, want an InvalidError", obj, err)
		}
	}
}

func TestLabelKeysAreThoseOfAPodsCreation(t *testing.T) {
	r := newRig(t)
	spread := func(hash string) *v1.Pod {
		p := pod("a")
		p.Labels["hash"] = hash
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MatchLabelKeys: []string{"hash"},
		}}
		return p
	}
	wantHash := func(when, want string) {
		t.Helper()
		got := r.pod(t, "a").Spec.TopologySpreadConstraints[0].LabelSelector.MatchExpressions
		if len(got) != 1 || got[0].Key != "hash" || got[0].Values[0] != want {
			t.Errorf("%s: got %v, want hash in [%s]", when, got, want)
		}
	}
	apply := func(p *v1.Pod) {
		t.Helper()
		r.apply(t, p)
	}
	apply(spread("h1"))
	wantHash("created", "h1")
	apply(spread("h2"))
	wantHash("pending, with another label", "h2")
	if errs := r.Bind(t.Context(), r.fence, []objects.Binding{{Pod: r.pod(t, "a"), Node: "n1"}}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	for range 2 { // the second time the label that is stored is no more the one that was merged
		apply(spread("h3"))
		wantHash("on a node, with another label", "h2")
	}
	if got := r.pod(t, "a").Labels["hash"]; got != "h3" {
		t.Errorf("label: got %s, want h3", got)
	}
}
