package devices

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// groupRig is a rig with the PodGroup g, whose claim x is the claim c, and its pods m0, m1, …: each has an entry for that claim.
type groupRig struct {
	*rig
	of PodGroup
}

func newGroupRig(t *testing.T, a *api, members int) *groupRig {
	r := &groupRig{rig: newRig(t, a)}
	g := &v1alpha2.PodGroup{}
	g.Namespace, g.Name, g.UID = "default", "g", "g-uid"
	g.Spec.ResourceClaims = []v1alpha2.PodGroupResourceClaim{{Name: "x", ResourceClaimName: ptr.To("c")}}
	r.of.Object = g
	r.c.cfg.PodGroup = func(*v1.Pod) PodGroup { return r.of }
	for i := range members {
		r.run(fmt.Sprintf(`pod {metadata: {name: m%d}, spec: {schedulingGroup: {podGroupName: g}, resourceClaims: [{name: x, resourceClaimName: c}], containers: [{name: m}]}}`, i))
	}
	return r
}

// join places a pod whose claim is in flight.
func (r *groupRig) join(pod string) *Work {
	r.t.Helper()
	w, _, err := r.c.Reserve(r.pods[pod], "n1", nil, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// users are whom the claim c is reserved for, as the API has it.
func users(a *api) string {
	var list []string
	for _, u := range a.claims[types.NamespacedName{Namespace: "default", Name: "c"}].Status.ReservedFor {
		list = append(list, u.APIGroup+"/"+u.Resource+"/"+u.Name+"/"+string(u.UID))
	}
	return strings.Join(list, " ")
}

const groupUser = "scheduling.k8s.io/podgroups/g/g-uid"

// Hundreds of pods of a PodGroup get its claim, which is allocated once and reserved for the PodGroup once.
func TestPodsOfAPodGroupShareAnAllocationInFlight(t *testing.T) {
	const members = 300 // more than a claim may have users
	a := newAPI(plainClaim("c"))
	r := newGroupRig(t, a, members)
	works := []*Work{r.reserve("m0", "a")}
	for i := 1; i < members; i++ {
		asked := r.c.Claims(r.pods[fmt.Sprint("m", i)], 0)
		if q := asked.Query; q == nil || len(q.Claims) != 0 || len(q.Allocated) != 1 || q.Allocated[0].Selector == nil {
			t.Fatalf("m%d asks %v, want no devices, and the nodes of those in flight", i, asked)
		}
		works = append(works, r.join(fmt.Sprint("m", i)))
	}
	if got, want := holders(r.rig, "a"), "[default/c]"; got != want {
		t.Errorf("device a is in use by %s, want %s", got, want)
	}
	for _, w := range works {
		if err := r.preBind(w); err != nil {
			t.Fatal(err)
		}
	}
	if got := users(a); got != groupUser {
		t.Errorf("reserved for %q", got)
	}
	for _, w := range works {
		r.c.Settle(w)
	}
	r.tell()
	if n := len(r.c.flights); n != 0 || holders(r.rig, "a") != "[default/c]" {
		t.Errorf("%d flights, device a is in use by %s", n, holders(r.rig, "a"))
	}
	if asked := r.c.Claims(r.pods["m5"], 0); len(asked.Query.GetAllocated()) != 1 {
		t.Errorf("a later pod asks %v", asked)
	}
}

// Where the pod that has got the devices is not bound, the next one writes them; where none is, they are free again.
func TestAnAllocationInFlightLastsAsLongAsOneOfItsPods(t *testing.T) {
	a := newAPI(plainClaim("c"))
	r := newGroupRig(t, a, 3)
	first, second, third := r.reserve("m0", "a"), r.join("m1"), r.join("m2")
	a.before = func(call int) error { return errors.New("no") }
	wantError(t, r.preBind(first), "add finalizer to claim default/c: no")
	r.binder.Undo(t.Context(), first)
	r.c.Unreserve(first)
	if got := holders(r.rig, "a"); got != "[default/c]" {
		t.Errorf("device a is in use by %s", got)
	}
	a.before = nil
	if err := r.preBind(second); err != nil {
		t.Fatal(err)
	}
	r.c.Settle(second)
	if err := r.preBind(third); err != nil {
		t.Fatal(err)
	}
	r.binder.Undo(t.Context(), third)
	r.c.Unreserve(third)
	if got := users(a); got != groupUser {
		t.Errorf("reserved for %q: what others use is not taken back", got)
	}

	b := newAPI(plainClaim("c"))
	r = newGroupRig(t, b, 2)
	works := []*Work{r.reserve("m0", "a"), r.join("m1")}
	for i := len(works) - 1; i >= 0; i-- {
		r.c.Unreserve(works[i])
	}
	if got := holders(r.rig, "a"); got != "[]" || len(r.c.flights) != 0 {
		t.Errorf("device a is in use by %s, %d flights", got, len(r.c.flights))
	}
}

// Nobody else shares it: not a pod without the PodGroup, nor a pod of it whose entry is another.
func TestOnlyThePodGroupSharesItsAllocation(t *testing.T) {
	r := newGroupRig(t, newAPI(plainClaim("c")), 1)
	r.run(`pod {metadata: {name: other}, spec: {schedulingGroup: {podGroupName: g}, resourceClaims: [{name: y, resourceClaimName: c}], containers: [{name: m}]}}`)
	r.reserve("m0", "a")
	for _, pod := range []string{"p", "other"} {
		if got, want := r.c.Claims(r.pods[pod], 0).Message, "resource claim default/c is in the process of being allocated"; got != want {
			t.Errorf("%s: got %q, want %q", pod, got, want)
		}
	}
}

// Where there is nowhere to write to, the claim is as it would be written.
func TestSharedAllocationsAreCompletedInMemory(t *testing.T) {
	r := newGroupRig(t, newAPI(plainClaim("c")), 2)
	works := []*Work{r.reserve("m0", "a"), r.join("m1")}
	for _, w := range works {
		r.c.Complete(w)
	}
	c := r.c.Claim("default", "c")
	if n := len(c.Status.ReservedFor); n != 1 || c.Status.ReservedFor[0].UID != "g-uid" || c.Status.Allocation == nil || len(r.c.flights) != 0 {
		t.Errorf("got %v, %d flights", c.Status, len(r.c.flights))
	}
}

// A pod waits for its PodGroup, with claims or without; and takes a claim that was made for its PodGroup.
func TestPodsOfAPodGroupWaitForIt(t *testing.T) {
	made := plainClaim("c")
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "scheduling.k8s.io/v1alpha2", Kind: "PodGroup", Name: "g", UID: "g-uid", Controller: ptr.To(true)}}
	r := newGroupRig(t, newAPI(made), 1)
	entry := `resourceClaims: [{name: x, resourceClaimTemplateName: t}], containers: [{name: m}]}, status: {resourceClaimStatuses: [{name: x, resourceClaimName: c}]}}`
	r.run(`pod {metadata: {name: made}, spec: {schedulingGroup: {podGroupName: g}, ` + entry)
	r.run(`pod {metadata: {name: stranger}, spec: {schedulingGroup: {podGroupName: h}, ` + entry)
	r.run(`pod {metadata: {name: alone}, spec: {` + entry)
	r.run(`pod {metadata: {name: bare}, spec: {schedulingGroup: {podGroupName: g}, containers: [{name: m}]}}`)
	for pod, want := range map[string]string{
		"made": "", "bare": "",
		"stranger": "ResourceClaim default/c was not created for Pod default/stranger (neither Pod nor PodGroup h is the owner)",
		"alone":    "ResourceClaim default/c was not created for Pod default/alone (Pod is not owner)",
	} {
		if got := r.c.Claims(r.pods[pod], 0); got.Message != want || got.Err != nil {
			t.Errorf("%s: got %+v, want %q", pod, got, want)
		}
	}
	r.of.Object = nil
	for _, pod := range []string{"made", "bare"} {
		if got, want := r.c.Claims(r.pods[pod], 0).Message, `podgroup.scheduling.k8s.io "g" not found`; got != want {
			t.Errorf("%s: got %q, want %q", pod, got, want)
		}
	}
	r.c.cfg.PodGroup = nil
	if got := r.c.Claims(r.pods["bare"], 0); got.Message != "" {
		t.Errorf("with the gate off: %q", got.Message)
	}
}

// Where no pod of a PodGroup has a node, and one finds none, the PodGroup's claim is not reserved for it any more.
func TestPostFilterUnreservesClaimsOfAPodGroup(t *testing.T) {
	a := newAPI(plainClaim("c"))
	r := newGroupRig(t, a, 1)
	w := r.reserve("m0", "a")
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	r.c.Settle(w)
	r.of.Scheduled = 1
	if got := r.c.Plan(r.pods["m0"], nil); got.Text != notHelped {
		t.Errorf("with a pod that has a node: %q", got.Text)
	}
	r.of.Scheduled = 0
	plan := r.c.Plan(r.pods["m0"], nil)
	if plan.Text != "ResourceClaim unreserved for PodGroup" || plan.IsNone() {
		t.Fatalf("got %+v", plan)
	}
	if err := r.binder.CarryOut(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if got := users(a); got != "" || a.claims[keyOf(w.claims[0].claim)].Status.Allocation == nil {
		t.Errorf("reserved for %q", got)
	}
	r.of.Object.Spec.ResourceClaims = []v1alpha2.PodGroupResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("t")}}
	if got := r.c.Plan(r.pods["m0"], nil); got.Text != "PodGroup default/g: ResourceClaim not created yet" || !got.failed {
		t.Errorf("got %+v", got)
	}
	r.of.Object.Spec.ResourceClaims[0].ResourceClaimTemplateName = nil
	if got := r.c.Plan(r.pods["m0"], nil); got.Text != "PodGroup default/g, spec.resourceClaim x: none of the supported fields are set" {
		t.Errorf("got %+v", got)
	}
}

// The order of two binds of a PodGroup does not matter: the later one finds what the other has written.
func TestALaterBindFindsThePodGroupsClaimWritten(t *testing.T) {
	a := newAPI(plainClaim("c"))
	r := newGroupRig(t, a, 2)
	first, second := r.reserve("m0", "a"), r.join("m1")
	if err := errors.Join(r.preBind(second), r.preBind(first)); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, a, "update, status, update, get")
	other := a.claims[types.NamespacedName{Namespace: "default", Name: "c"}]
	other.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "z", UID: "z"}}
	wantError(t, r.preBind(&Work{pod: r.pods["m1"], node: "n1", claims: []*claimWork{{
		claim: plainClaim("c"), allocation: first.claims[0].allocation, consumer: first.claims[0].consumer, joint: true, shared: true,
	}}}), "claim default/c got allocated elsewhere in the meantime")
}

// newMates is a rig with pods of the pod group g, m0, m1, …, each of which names the claim c for itself.
func newMates(t *testing.T, a *api, members int) *groupRig {
	r := &groupRig{rig: newRig(t, a)}
	r.c.cfg.Mates = true
	for i := range members {
		r.run(fmt.Sprintf(`pod {metadata: {name: m%d}, spec: {schedulingGroup: {podGroupName: g}, resourceClaims: [{name: x, resourceClaimName: c}], containers: [{name: m}]}}`, i))
	}
	return r
}

// A claim that several pods of a pod group name is allocated once, and reserved for each of them, whoever writes first.
func TestMatesShareTheirClaimInFlight(t *testing.T) {
	a := newAPI(plainClaim("c"))
	r := newMates(t, a, 3)
	works := []*Work{r.reserve("m0", "a")}
	for _, pod := range []string{"m1", "m2"} {
		if q := r.c.Claims(r.pods[pod], 0).Query; q == nil || len(q.Claims) != 0 || len(q.Allocated) != 1 || q.Allocated[0].Selector == nil {
			t.Fatalf("%s asks %v, want no devices, and the nodes of those in flight", pod, q)
		}
		if plan := r.c.Plan(r.pods[pod], []int{0}); !plan.IsNone() || plan.Text != notHelped {
			t.Errorf("%s would free what a mate is to use: %+v", pod, plan)
		}
		w := r.join(pod)
		if n := len(w.Allocated()) + len(w.InFlight()); n != 0 {
			t.Errorf("%s is given devices: %v", pod, w.Allocated())
		}
		works = append(works, w)
	}
	for _, i := range []int{1, 0, 2} {
		if err := r.preBind(works[i]); err != nil {
			t.Fatal(err)
		}
		r.c.Settle(works[i])
	}
	if got, want := users(a), "/pods/m1/m1-uid /pods/m0/m0-uid /pods/m2/m2-uid"; got != want {
		t.Errorf("reserved for %q, want %q", got, want)
	}
	if got := holders(r.rig, "a"); len(r.c.flights) != 0 || got != "[default/c]" {
		t.Errorf("%d flights, device a is in use by %s", len(r.c.flights), got)
	}
}

// Devices are free again, and told of, once the last of them lets go. Another pod, and one more than a claim has place for, has to wait.
func TestMatesLetGoOfTheirClaimTogether(t *testing.T) {
	const most = 256
	r := newMates(t, newAPI(plainClaim("c")), most+1)
	works := []*Work{r.reserve("m0", "a")}
	for i := 1; i < most; i++ {
		works = append(works, r.join(fmt.Sprint("m", i)))
	}
	for _, pod := range []string{"p", fmt.Sprint("m", most)} {
		if got, want := r.c.Claims(r.pods[pod], 0).Message, "resource claim default/c is in the process of being allocated"; got != want {
			t.Errorf("%s: got %q, want %q", pod, got, want)
		}
	}
	for i := most - 1; i >= 0; i-- {
		told, want := r.c.Unreserve(works[i]), 0
		if i == 0 {
			want = 1
		}
		if len(told.Claims) != want {
			t.Fatalf("the last %d of %d let go: told of %d claims, want %d", most-i, most, len(told.Claims), want)
		}
	}
	if got := holders(r.rig, "a"); got != "[]" || len(r.c.flights) != 0 {
		t.Errorf("device a is in use by %s, %d flights", got, len(r.c.flights))
	}
}

// Where there is nowhere to write to, each is a user of the claim.
func TestMatesCompleteTheirClaimInMemory(t *testing.T) {
	r := newMates(t, newAPI(plainClaim("c")), 2)
	for _, w := range []*Work{r.reserve("m0", "a"), r.join("m1")} {
		r.c.Complete(w)
	}
	c := r.c.Claim("default", "c")
	if n := len(c.Status.ReservedFor); n != 2 || c.Status.Allocation == nil || len(r.c.flights) != 0 {
		t.Errorf("reserved for %d, allocated %v, %d flights", n, c.Status.Allocation, len(r.c.flights))
	}
}
