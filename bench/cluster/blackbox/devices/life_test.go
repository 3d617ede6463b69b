package devices

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const noDevice = "1 cannot allocate all claims"

// lifeStories are about claims from their making to their end.
func lifeStories() []story {
	return []story{
		{name: "template", nodes: 1, objects: objects(slice("template", 0, named("a")...), template("template", one("template"))), pods: pods(from(pod("template", "template"), "template")), check: checkTemplate},
		{
			name: "ended", nodes: 1, objects: objects(slice("ended", 0, named("a")...), template("ended", one("ended"))), pods: pods(from(pod("ended", "ended"), "ended")),
			check: func(b *bed) {
				b.Bound("default/ended")
				name := b.generated("ended")
				b.PatchPod("default/ended", `{"status": {"phase": "Succeeded"}}`, "status")
				b.untilClaim(name, "is gone", isGone)
				b.Create(from(pod("ended", "ended-2"), "ended"))
				b.Bound("default/ended-2")
			},
		},
		{
			name: "one-device", nodes: 1, objects: objects(slice("one-device", 0, named("a")...), template("one-device", one("one-device"))), pods: pods(from(pod("one-device", "holds"), "one-device")),
			check: func(b *bed) {
				b.Bound("default/holds")
				// No pod is preempted for its devices.
				b.Create(from(pod("one-device", "waits").Priority(1000), "one-device"))
				if got, want := b.waits("waits", noDevice), b.told(noDevice); got != want {
					b.T.Errorf("got  %s\nwant %s", got, want)
				}
				b.Delete("default/holds")
				b.Bound("default/waits")
				b.has(b.generated("waits"), "r/one-device-0/a")
			},
		},
		{
			name: "late", nodes: 1, objects: objects(slice("late", 0, named("a")...)), pods: pods(with(pod("late", "late"), "late"), from(pod("late", "later"), "later")),
			check: func(b *bed) {
				b.Create(claim("late", one("late")))
				b.Bound("default/late")
				b.Create(template("later", one("late")))
				b.waits("later", noDevice)
				b.Delete("default/late")
				b.untilClaim("late", "has no devices", isFree)
				b.Bound("default/later")
			},
		},
		{
			name: "class", nodes: 1, objects: objects(slice("class", 0, named("a")...), claim("class", one("class-2"))), pods: pods(with(pod("class", "class"), "class")),
			check: func(b *bed) {
				b.Waits("default/class", "0/"+number(b.others+b.nodes)+" nodes are available: request r: device class class-2 does not exist.")
				late := class("class")
				late.Name = "class-2"
				b.Create(late)
				b.Bound("default/class")
			},
		},
	}
}

func checkTemplate(b *bed) {
	at := b.Bound("default/template")
	name := b.generated("template")
	c, p := b.claim(b.T.Context(), name), b.Pods.Get("default/template")
	if got := devicesOf(c); at != "template-0" || got != "r/template-0/a" {
		b.T.Errorf("got node %s and devices %q, want template-0 and r/template-0/a", at, got)
	}
	if !slices.Contains(c.Finalizers, resourcev1.Finalizer) || c.Status.Allocation == nil || c.Status.Allocation.AllocationTimestamp == nil {
		b.T.Fatalf("got finalizers %q and %v, want %s, and the time of the allocation", c.Finalizers, c.Status.Allocation, resourcev1.Finalizer)
	}
	if got, want := c.Status.ReservedFor, (resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID}); !slices.Equal(got, []resourcev1.ResourceClaimConsumerReference{want}) {
		b.T.Errorf("reserved for %v, want %v", got, want)
	}
	terms := c.Status.Allocation.NodeSelector.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchFields) != 1 || !slices.Equal(terms[0].MatchFields[0].Values, []string{at}) {
		b.T.Errorf("got a claim for the nodes %v, want %s", terms, at)
	}
	b.Delete("default/template")
	b.untilClaim(name, "is gone", isGone)
}

// shareStories are about claims of several pods, and devices that several pods have a share of.
func shareStories() []story {
	return []story{
		{
			name: "shared", nodes: 2, objects: objects(slice("shared", 0, named("a")...), slice("shared", 1, named("b")...), claim("shared", one("shared"))),
			pods: pods(with(pod("shared", "shared-1"), "shared"), with(pod("shared", "shared-2"), "shared")), check: checkShared,
		},
		{name: "crowd", nodes: 1, objects: objects(slice("crowd", 0, named("a")...), claim("crowd", one("crowd"))), pods: crowd(), check: checkCrowd},
		{
			name: "admin", nodes: 1, objects: objects(slice("admin", 0, named("a")...), claim("admin", one("admin")), adminNamespace()), pods: pods(with(pod("admin", "user"), "admin")),
			check: checkAdmin,
		},
		{name: "capacity", nodes: 1, objects: objects(slice("capacity", 0, capacious("80Gi")), template("capacity", one("capacity", memory("40Gi")))), check: checkCapacity},
	}
}

func checkShared(b *bed) {
	first, second := b.Bound("default/shared-1"), b.Bound("default/shared-2")
	if first != second {
		b.T.Errorf("got the nodes %s and %s, want one", first, second)
	}
	c := b.untilClaim("shared", "is reserved for both", func(c *resourcev1.ResourceClaim) bool { return len(c.Status.ReservedFor) == 2 })
	had := devicesOf(c)
	b.Delete("default/shared-1")
	b.untilClaim("shared", "is reserved for the other", func(c *resourcev1.ResourceClaim) bool { return len(c.Status.ReservedFor) == 1 })
	b.has("shared", had)
	b.Delete("default/shared-2")
	b.untilClaim("shared", "has no devices", isFree)
}

// crowd are as many pods as may share a claim.
func crowd() (all []*v1.Pod) {
	for i := range resourcev1.ResourceClaimReservedForMaxSize {
		all = append(all, with(pod("crowd", "crowd-"+number(i)), "crowd"))
	}
	return all
}

func checkCrowd(b *bed) {
	var keys []string
	for _, p := range crowd() {
		keys = append(keys, "default/"+p.Name)
	}
	b.Until("are bound", isBound, keys...)
	if n := len(b.claim(b.T.Context(), "crowd").Status.ReservedFor); n != len(keys) {
		b.T.Errorf("the claim is reserved for %d, want %d", n, len(keys))
	}
	b.Create(with(pod("crowd", "one-more"), "crowd"))
	b.Until("end in an error", inError(`add reservation to claim default/crowd: ResourceClaim.resource.k8s.io "crowd" is invalid: status.reservedFor: Too many: 257: must have at most 256 items`), "default/one-more")
	b.Delete(keys[:2]...)
	b.Bound("default/one-more")
}

func adminNamespace() *v1.Namespace {
	n := &v1.Namespace{}
	n.Name, n.Labels = "admins", map[string]string{resourcev1.DRAAdminNamespaceLabelKey: "true"}
	return n
}

func checkAdmin(b *bed) {
	b.Bound("default/user")
	b.Create(claim("admin-2", one("admin")), with(pod("admin", "user-2"), "admin-2"))
	b.waits("user-2", noDevice)
	yes := true
	spec := one("admin", func(e *resourcev1.ExactDeviceRequest) { e.AdminAccess = &yes })
	if err := b.Bed.Create(b.Context(), claim("forbidden", spec)); err == nil {
		b.T.Error("got admin access in an ordinary namespace, want an error")
	}
	c, p := claim("watch", spec), with(pod("admin", "watches"), "watch")
	c.Namespace, p.Namespace = "admins", "admins"
	b.Create(c, p)
	b.Bound("admins/watches")
	c, err := b.Admin.ResourceV1().ResourceClaims("admins").Get(b.T.Context(), "watch", metav1.GetOptions{})
	b.Must(err)
	if got := c.Status.Allocation.Devices.Results[0]; devicesOf(c) != "r/admin-0/a" || got.AdminAccess == nil || !*got.AdminAccess {
		b.T.Errorf("got %v, want admin access to the device a", got)
	}
}

func checkCapacity(b *bed) {
	b.Create(from(pod("capacity", "half"), "capacity"), from(pod("capacity", "other-half"), "capacity"))
	b.Bound("default/half")
	b.Bound("default/other-half")
	var shares []string
	for _, name := range []string{"half", "other-half"} {
		r := b.claim(b.T.Context(), b.generated(name)).Status.Allocation.Devices.Results[0]
		if got := r.ConsumedCapacity["memory"]; got.String() != "40Gi" || r.ShareID == nil {
			b.T.Fatalf("%s: got %v, want a share of 40Gi", name, r)
		}
		shares = append(shares, string(*r.ShareID))
	}
	if shares[0] == shares[1] {
		b.T.Errorf("got the share %s twice", shares[0])
	}
	b.Create(from(pod("capacity", "third"), "capacity"))
	b.waits("third", noDevice)
	b.Delete("default/half")
	b.Bound("default/third")
}

func TestStoriesHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range allStories() {
		if seen[s.name] {
			t.Errorf("two stories have the name %s", s.name)
		}
		seen[s.name] = true
	}
}
