package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func asksGPU() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}},
	}}}
}

func template(name string) *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: asksGPU()}}
	t.Name, t.Spec.Labels, t.Spec.Annotations = name, map[string]string{"a": "b"}, map[string]string{"c": "d"}
	return t
}

// deviceClaim is a claim that pods share by its name.
func deviceClaim(name string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{Spec: asksGPU()}
	c.Name = name
	return c
}

// computing is a pod with a claim from the template "gpus", or by its name.
func computing(name, claim string) *v1.Pod {
	p := pod(name)
	r := v1.PodResourceClaim{Name: "gpu"}
	if claim == "" {
		r.ResourceClaimTemplateName = new("gpus")
	} else {
		r.ResourceClaimName = &claim
	}
	p.Spec.ResourceClaims = []v1.PodResourceClaim{r}
	return p
}

// claimOf is the claim that was made for a pod.
func (r *rig) claimOf(t testing.TB, pod string) (*resourcev1.ResourceClaim, bool) {
	t.Helper()
	statuses := r.pod(t, pod).Status.ResourceClaimStatuses
	if len(statuses) != 1 || statuses[0].Name != "gpu" {
		t.Fatalf("statuses of %s: got %v, want one of gpu", pod, statuses)
	}
	return find[*resourcev1.ResourceClaim](t, r, *statuses[0].ResourceClaimName)
}

// allocate gives a claim a device, as the scheduler does for pods that it is about to bind.
func (r *rig) allocate(t testing.TB, name string, pods ...string) {
	t.Helper()
	c := stored[*resourcev1.ResourceClaim](t, r, name)
	c.Finalizers = []string{resourcev1.Finalizer}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{
		{Request: "gpu", Driver: "d", Pool: "n1", Device: "gpu-0"},
	}
	for _, p := range pods {
		user := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p, UID: r.pod(t, p).UID}
		c.Status.ReservedFor = append(c.Status.ReservedFor, user)
	}
	if _, err := r.Update(t.Context(), r.fence, []objects.Object{c}); err != nil {
		t.Fatal(err)
	}
}

// wantUsers checks who uses a claim; nobody: that it is free.
func (r *rig) wantUsers(t testing.TB, name string, pods ...string) {
	t.Helper()
	c := stored[*resourcev1.ResourceClaim](t, r, name)
	var users []string
	for _, u := range c.Status.ReservedFor {
		if u.UID != r.pod(t, u.Name).UID {
			t.Errorf("uid of user %s: got %s, want the pod's", u.Name, u.UID)
		}
		users = append(users, u.Name)
	}
	allocated, kept := c.Status.Allocation != nil, len(c.Finalizers) > 0
	if !slices.Equal(users, pods) || allocated != (len(pods) > 0) || kept != allocated {
		t.Errorf("%s: got users %v, allocated %v, finalizers %v, want users %v", name, users, allocated, c.Finalizers, pods)
	}
}

func TestAPodBringsTheClaimsOfItsTemplates(t *testing.T) {
	r := newRig(t)
	r.apply(t, computing("early", ""), template("gpus"), computing("a", ""))
	c, _ := r.claimOf(t, "a")
	if !metav1.IsControlledBy(c, r.pod(t, "a")) || c.Labels["a"] != "b" || c.Annotations["c"] != "d" ||
		c.Annotations[resourcev1.PodResourceClaimAnnotation] != "gpu" || c.Spec.Devices.Requests[0].Exactly.Count != 1 || !strings.HasPrefix(c.Name, "a-gpu-") {
		t.Errorf("got %v, want the claim of pod a, as the template says", c)
	}
	if _, ok := r.claimOf(t, "early"); !ok {
		t.Error("pod early has no claim, want one as soon as there is the template")
	}

	// Applied again nothing changes, and what was lost is made again.
	before := c.ResourceVersion
	r.apply(t, template("gpus"), computing("a", ""))
	if got, _ := r.claimOf(t, "a"); got.ResourceVersion != before {
		t.Errorf("resource version: got %s, want %s", got.ResourceVersion, before)
	}
	drop(t, r, c)
	r.apply(t, computing("a", ""))
	again, ok := r.claimOf(t, "a")
	if !ok || again.UID == c.UID {
		t.Errorf("got %v after %v, want another of the same name", again, c)
	}

	// It goes with its pod.
	drop(t, r, r.pod(t, "a"))
	if c, ok := find[*resourcev1.ResourceClaim](t, r, c.Name); ok {
		t.Errorf("the claim outlived its pod: %v", c)
	}
}

func TestPodsThatWaitForATemplateGetTheirClaims(t *testing.T) {
	r := newRig(t)
	ended := computing("ended", "")
	ended.Status.Phase = v1.PodFailed
	r.apply(t, computing("a", ""), computing("b", ""), ended)
	if all := r.load(t); len(all.Cluster) > 0 {
		t.Fatalf("got %v without a template, want none", all.Cluster)
	}
	r.apply(t, template("gpus"))
	for _, name := range []string{"a", "b"} {
		if _, ok := r.claimOf(t, name); !ok {
			t.Errorf("pod %s has no claim", name)
		}
	}
	if all := r.load(t); len(all.Cluster) != 3 {
		t.Errorf("got %v, want two claims and the template", all.Cluster)
	}
}

func TestASharedClaimIsFreeAfterItsLastPod(t *testing.T) {
	ended := func(name string) *v1.Pod {
		p := computing(name, "shared")
		p.Status.Phase = v1.PodSucceeded
		return p
	}
	for how, end := range map[string]func(t *testing.T, r *rig, name string){
		"deleted": func(t *testing.T, r *rig, name string) { drop(t, r, r.pod(t, name)) },
		"ended":   func(t *testing.T, r *rig, name string) { r.apply(t, ended(name)) },
		"evicted": func(t *testing.T, r *rig, name string) {
			e := &objects.Eviction{Preemptor: preemptor(), Node: "n1", Victims: []*v1.Pod{r.pod(t, name)}}
			if err := r.Evict(t.Context(), r.fence, e); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			r.apply(t, deviceClaim("shared"), computing("a", "shared"), computing("b", "shared"))
			r.allocate(t, "shared", "a", "b")
			end(t, r, "a")
			r.wantUsers(t, "shared", "b")
			end(t, r, "b")
			r.wantUsers(t, "shared")
		})
	}
}

// A claim that is reserved for a PodGroup is free once that is deleted, and not before; a leader frees what one before it has left.
func TestAClaimOfAPodGroupIsFreeAfterIt(t *testing.T) {
	for how, end := range map[string]func(t *testing.T, r *rig, g *v1alpha2.PodGroup, c *resourcev1.ResourceClaim){
		"deleted": func(t *testing.T, r *rig, g *v1alpha2.PodGroup, _ *resourcev1.ResourceClaim) { drop(t, r, g) },
		"found": func(t *testing.T, r *rig, _ *v1alpha2.PodGroup, c *resourcev1.ResourceClaim) {
			tend(t, r, &objects.Snapshot{Cluster: []objects.Object{c}})
		},
	} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			g := build.PodGroup("g").Obj()
			g.Spec.ResourceClaims = []v1alpha2.PodGroupResourceClaim{{Name: "gpu", ResourceClaimName: new("shared")}}
			r.apply(t, deviceClaim("shared"), g)
			g = stored[*v1alpha2.PodGroup](t, r, "g")
			r.allocate(t, "shared")
			c := stored[*resourcev1.ResourceClaim](t, r, "shared")
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{
				APIGroup: v1alpha2.GroupName, Resource: "podgroups", Name: "g", UID: g.UID,
			}}
			if _, err := r.Update(t.Context(), r.fence, []objects.Object{c}); err != nil {
				t.Fatal(err)
			}
			tend(t, r, &objects.Snapshot{Cluster: []objects.Object{g, c}})
			if c = stored[*resourcev1.ResourceClaim](t, r, "shared"); c.Status.Allocation == nil || len(c.Status.ReservedFor) != 1 {
				t.Fatalf("while the PodGroup is there: %v", c.Status)
			}
			end(t, r, g, c)
			r.wantUsers(t, "shared")
		})
	}
}

func tend(t *testing.T, r *rig, all *objects.Snapshot) {
	t.Helper()
	if err := r.Tend(t.Context(), r.fence, all); err != nil {
		t.Fatal(err)
	}
}

func TestAPodThatHasEndedNeedsItsOwnClaimNoMore(t *testing.T) {
	r := newRig(t)
	r.apply(t, template("gpus"), computing("a", ""))
	c, _ := r.claimOf(t, "a")
	r.allocate(t, c.Name, "a")
	p := computing("a", "")
	p.Status.Phase = v1.PodSucceeded
	r.apply(t, p)
	if c, ok := r.claimOf(t, "a"); ok {
		t.Errorf("got %v, want none", c)
	}
}

func TestAClaimInUseGoesWithItsLastPod(t *testing.T) {
	r := newRig(t)
	r.apply(t, deviceClaim("shared"), computing("a", "shared"))
	r.allocate(t, "shared", "a")
	for range 2 {
		drop(t, r, deviceClaimIn(t, r))
		if c := deviceClaimIn(t, r); c.DeletionTimestamp == nil || c.Status.Allocation == nil {
			t.Errorf("got %v, want it marked", c)
		}
	}
	r.apply(t, deviceClaim("shared"))
	if c := deviceClaimIn(t, r); c.DeletionTimestamp == nil {
		t.Errorf("applied again: got %v, want it marked still", c)
	}
	drop(t, r, r.pod(t, "a"))
	if c, ok := find[*resourcev1.ResourceClaim](t, r, "shared"); ok {
		t.Errorf("got %v, want it gone", c)
	}
}

func deviceClaimIn(t testing.TB, r *rig) *resourcev1.ResourceClaim {
	t.Helper()
	return stored[*resourcev1.ResourceClaim](t, r, "shared")
}

func TestADumpsClaimsAreThoseOfItsPods(t *testing.T) {
	r := newRig(t)
	dumped := func(name, claim string) *v1.Pod {
		p := computing(name, claim)
		p.UID, p.Spec.NodeName = "there", "n1"
		return p
	}
	own, shared := deviceClaim("a-gpu-x"), deviceClaim("shared")
	a := dumped("a", "")
	a.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &own.Name}}
	own.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(a, v1.SchemeGroupVersion.WithKind("Pod"))}
	for _, c := range []*resourcev1.ResourceClaim{own, shared} {
		c.Finalizers = []string{resourcev1.Finalizer}
		c.Status.Allocation = &resourcev1.AllocationResult{}
	}
	own.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "there"}}
	// The two others are users of one claim, and the second was put on its node by hand.
	shared.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "b", UID: "elsewhere"}}
	r.apply(t, own, shared, template("gpus"), a, dumped("b", "shared"), dumped("c", "shared"))
	r.wantUsers(t, "a-gpu-x", "a")
	r.wantUsers(t, "shared", "b", "c")
	if c, _ := r.claimOf(t, "a"); !metav1.IsControlledBy(c, r.pod(t, "a")) {
		t.Errorf("the claim is owned by %v, want pod a", c.OwnerReferences)
	}
	drop(t, r, r.pod(t, "a"))
	if c, ok := find[*resourcev1.ResourceClaim](t, r, "a-gpu-x"); ok {
		t.Errorf("the claim outlived its pod: %v", c)
	}
}

// A leader may die between any two writes.
func TestTheNextLeaderTendsWhatWasLeftUndone(t *testing.T) {
	r := newRig(t)
	r.apply(t, template("gpus"), deviceClaim("shared"), computing("a", "shared"), computing("own", ""), computing("lost", ""))
	r.allocate(t, "shared", "a")
	own, _ := r.claimOf(t, "own")
	lost, _ := r.claimOf(t, "lost")
	drop(t, r, lost)
	for _, name := range []string{"a", "own"} { // as if the leader had died behind it
		if _, err := r.client.Delete(t.Context(), "/shardsched/test/objects/pods/default/"+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Tend(t.Context(), r.fence, r.load(t)); err != nil {
		t.Fatal(err)
	}
	r.wantUsers(t, "shared")
	if c, ok := find[*resourcev1.ResourceClaim](t, r, own.Name); ok {
		t.Errorf("got %v without its pod, want none", c)
	}
	if _, ok := r.claimOf(t, "lost"); !ok {
		t.Error("pod lost has no claim")
	}
	before := r.load(t).Revision
	if err := r.Tend(t.Context(), r.fence, r.load(t)); err != nil || r.load(t).Revision != before {
		t.Errorf("again: got %v at %d, want nothing to do at %d", err, r.load(t).Revision, before)
	}
}

func TestWhatIsAllocatedStaysWhenItsManifestIsAppliedAgain(t *testing.T) {
	r := newRig(t)
	r.apply(t, template("gpus"), deviceClaim("shared"), computing("a", "shared"))
	r.allocate(t, "shared", "a")
	r.apply(t, deviceClaim("shared"))
	r.wantUsers(t, "shared", "a")

	said := deviceClaim("shared")
	said.Status.Allocation = deviceClaimIn(t, r).Status.Allocation
	ready := []metav1.Condition{{Type: "Ready"}}
	said.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "d", Pool: "n1", Device: "gpu-0", Conditions: ready}}
	r.apply(t, said)
	if c := deviceClaimIn(t, r); len(c.Status.Devices) != 1 || c.Status.Devices[0].Conditions[0].Type != "Ready" {
		t.Errorf("got %v, want what the driver says", c.Status.Devices)
	}

	other, otherTemplate := deviceClaim("shared"), template("gpus")
	other.Spec.Devices.Requests[0].Name, otherTemplate.Spec.Spec.Devices.Requests[0].Name = "gpus", "gpus"
	moved := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "d", NodeName: new("n1")}}
	moved.Name, moved.Spec.Pool = "s", resourcev1.ResourcePool{Name: "n1", ResourceSliceCount: 1}
	r.apply(t, moved.DeepCopy())
	moved.Spec.NodeName, moved.Spec.Pool.Generation = new("n2"), 1
	for _, obj := range []runtime.Object{other, otherTemplate, moved} {
		_, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{obj}, false)
		if _, ok := err.(*store.InvalidError); !ok || !strings.Contains(fmt.Sprint(err), "field is immutable") {
			t.Errorf("%T that becomes another: got %v, want an InvalidError", obj, err)
		}
	}
	moved.Spec.NodeName = new("n1")
	r.apply(t, moved)
}

func TestPendingPodsMayChangeTheirClaims(t *testing.T) {
	r := newRig(t)
	r.apply(t, template("gpus"), pod("a"))
	r.apply(t, computing("a", ""))
	c, ok := r.claimOf(t, "a")
	if !ok {
		t.Fatal("got no claim, want one as soon as the pod asks for it")
	}
	r.apply(t, pod("a"))
	if got := r.pod(t, "a").Status.ResourceClaimStatuses; len(got) > 0 {
		t.Errorf("got %v, want none", got)
	}
	drop(t, r, r.pod(t, "a"))
	if err := r.Tend(t.Context(), r.fence, r.load(t)); err != nil {
		t.Fatal(err)
	}
	if c, ok := find[*resourcev1.ResourceClaim](t, r, c.Name); ok {
		t.Errorf("got %v, want none", c)
	}
}
