package store_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

func TestWhatTheSchedulerWritesOfClaims(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.apply(t, deviceClaim("shared"), pod("p"))
	p := r.pod(t, "p")
	read := stored[*resourcev1.ResourceClaim](t, r, "shared")

	read.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
		{Resource: "pods", Name: "p", UID: p.UID}, {Resource: "pods", Name: "q", UID: "q"},
	}
	now, err := r.UpdateClaim(ctx, r.fence, read)
	if err != nil {
		t.Fatal(err)
	}
	there := stored[*resourcev1.ResourceClaim](t, r, "shared")
	if there.ResourceVersion != now.ResourceVersion || len(there.Status.ReservedFor) != 2 {
		t.Errorf("updated: got %v, want version %s and both pods", there, now.ResourceVersion)
	}
	_, err = r.UpdateClaim(ctx, r.fence, read)
	wantError(t, "an update of what has changed since", err, objects.ErrConflict)

	if err := r.UnreserveClaim(ctx, r.fence, read, p); err != nil {
		t.Fatal(err)
	}
	there = stored[*resourcev1.ResourceClaim](t, r, "shared")
	if len(there.Status.ReservedFor) != 1 || there.Status.ReservedFor[0].Name != "q" {
		t.Errorf("reserved for %v, want q alone", there.Status.ReservedFor)
	}

	special := &resourcev1.ResourceClaim{Spec: asksGPU()}
	special.Namespace, special.GenerateName = "default", "p-extended-resources-"
	made, err := r.CreateClaim(ctx, r.fence, special)
	if err != nil {
		t.Fatal(err)
	}
	there = stored[*resourcev1.ResourceClaim](t, r, made.Name)
	if there.UID == "" || there.ResourceVersion != made.ResourceVersion || there.Spec.Devices.Requests[0].Exactly.Count != 1 {
		t.Errorf("made: got %v, want it complete, and as it was returned", there)
	}
	status := &v1.PodExtendedResourceClaimStatus{ResourceClaimName: made.Name}
	if errs := r.Bind(ctx, r.fence, []objects.Binding{{Pod: r.pod(t, "p"), Node: "n1", ClaimStatus: status}}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if got := r.pod(t, "p").Status.ExtendedResourceClaimStatus; got == nil || got.ResourceClaimName != made.Name {
		t.Errorf("the pod says %v, want %s", got, made.Name)
	}
	other := *made
	other.UID = "other"
	for _, c := range []*resourcev1.ResourceClaim{&other, made, made} {
		if err := r.DeleteClaim(ctx, r.fence, c); err != nil {
			t.Fatal(err)
		}
		if _, found := find[*resourcev1.ResourceClaim](t, r, made.Name); found != (c == &other) {
			t.Errorf("after the deletion of uid %s: there is a claim: %v", c.UID, found)
		}
	}

	r.depose(t)
	_, err = r.CreateClaim(ctx, r.fence, special)
	wantError(t, "a claim of who is deposed", err, lease.ErrDeposed)
	wantError(t, "a reservation of who is deposed", r.UnreserveClaim(ctx, r.fence, read, &v1.Pod{}), nil) // nothing is to be written
}
