package objects_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/objects"
)

func TestNamesOfMadeClaims(t *testing.T) {
	named := func(pod, entry string, uid types.UID) string {
		p := &v1.Pod{}
		p.Name, p.UID = pod, uid
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: entry, ResourceClaimTemplateName: new("t")}}
		objects.NameClaims(p)
		objects.NameClaims(p) // again nothing changes
		return *p.Status.ResourceClaimStatuses[0].ResourceClaimName
	}
	rapid.Check(t, func(t *rapid.T) {
		pod := rapid.StringMatching(`[a-z]([a-z0-9-]{0,200}[a-z0-9])?`).Draw(t, "pod")
		entry := rapid.StringMatching(`[a-z]([a-z0-9-]{0,61}[a-z0-9])?`).Draw(t, "entry")
		name := named(pod, entry, "u1")
		if errs := validation.IsDNS1123Subdomain(name); len(name) > 63 || len(errs) > 0 {
			t.Errorf("got %q of %d bytes, %v, want a name of 63 at the most", name, len(name), errs)
		}
		if len(pod)+len(entry) < 50 && !strings.HasPrefix(name, pod+"-"+entry+"-") {
			t.Errorf("got %q, want it to begin with %s-%s-", name, pod, entry)
		}
		if other := named(pod, entry, "u2"); other == name {
			t.Errorf("got %q for two pods", name)
		}
		if again := named(pod, entry, "u1"); again != name {
			t.Errorf("got %q, then %q", name, again)
		}
	})
}

// A user that is neither a pod nor a PodGroup, or may be there, keeps the claim.
func TestOnlyPodsThatAreGoneLeaveAClaim(t *testing.T) {
	c := &resourcev1.ResourceClaim{}
	c.Finalizers = []string{"mine", resourcev1.Finalizer}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
		{Resource: "pods", Name: "a", UID: "a"}, {APIGroup: "example.com", Resource: "podgroups", Name: "g", UID: "a"},
		{Resource: "pods", Name: "b", UID: "b"},
	}
	before := c.DeepCopy()
	isA := func(uid types.UID) bool { return uid == "a" }
	now, over := objects.FreeClaim(c, isA)
	if over || len(now.Status.ReservedFor) != 2 || now.Status.Allocation == nil || len(now.Finalizers) != 2 {
		t.Errorf("got %v, over %t, want the group and pod b to keep it", now, over)
	}
	if again, _ := objects.FreeClaim(now, isA); again != now {
		t.Errorf("got %v, want nothing to change", again)
	}
	c.Status.ReservedFor = c.Status.ReservedFor[:1]
	before.Status.ReservedFor = before.Status.ReservedFor[:1]
	now, over = objects.FreeClaim(c, isA)
	if over || now.Status.Allocation != nil || len(now.Finalizers) != 1 || now.Finalizers[0] != "mine" {
		t.Errorf("got %v, over %t, want it free", now, over)
	}
	if c.String() != before.String() {
		t.Errorf("the claim that was given: got %v, want it as it was", c)
	}
	c.Status.ReservedFor[0] = resourcev1.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "a", UID: "a"}
	if now, over = objects.FreeClaim(c, isA); over || now.Status.Allocation != nil || len(now.Status.ReservedFor) != 0 {
		t.Errorf("got %v, over %t, want it free of the PodGroup", now, over)
	}
	c.OwnerReferences = []metav1.OwnerReference{{Kind: "PodGroup", Name: "a", UID: "a", Controller: ptr.To(true)}}
	if _, over = objects.FreeClaim(c, isA); !over {
		t.Error("the claim that was made for the PodGroup stays")
	}
	c.OwnerReferences = nil
	c.Finalizers = nil // somebody else has allocated it
	if now, _ = objects.FreeClaim(c, isA); now.Status.Allocation == nil {
		t.Errorf("got %v, want it allocated", now)
	}
}

func TestAClaimIsSharedByThosePodsOnNodes(t *testing.T) {
	p := &v1.Pod{}
	p.Name, p.UID, p.Spec.NodeName = "a", "a", "n1"
	c := &resourcev1.ResourceClaim{}
	if objects.ShareClaim(c, p) {
		t.Error("a claim that is not allocated: got it shared")
	}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for i := range resourcev1.ResourceClaimReservedForMaxSize + 1 {
		p.UID = types.UID(label(i))
		if got, want := objects.ShareClaim(c, p), i < resourcev1.ResourceClaimReservedForMaxSize; got != want {
			t.Fatalf("user %d: got %t, want %t", i, got, want)
		}
		if objects.ShareClaim(c, p) {
			t.Fatalf("user %d, again: got it shared twice", i)
		}
	}
}
