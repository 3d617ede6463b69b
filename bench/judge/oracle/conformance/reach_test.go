package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// The generator makes cases of every rule: upstream refuses nodes for each reason that it
// has, and each plugin tells nodes apart.
func TestRandomReachesEveryRule(t *testing.T) {
	r := NewReach()
	for seed := uint64(1); seed <= 500; seed++ {
		if err := r.Add(t.Context(), Random(seed, 30, AllFamilies())); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	reasons := []string{
		"NodeUnschedulable: node(s) were unschedulable",
		"TaintToleration: node(s) had untolerated taint(s)",
		"NodeAffinity: node(s) didn't match Pod's node affinity/selector",
		"NodeAffinity: node(s) didn't match scheduler-enforced node affinity",
		"NodePorts: node(s) didn't have free ports for the requested pod ports",
		"NodeResourcesFit: Insufficient cpu",
		"NodeResourcesFit: Too many pods",
		"VolumeRestrictions: node(s) had no available disk",
		"VolumeRestrictions: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
		"NodeVolumeLimits: node(s) exceed max volume count",
		"VolumeBinding: node(s) didn't match PersistentVolume's node affinity",
		"VolumeBinding: node(s) didn't find available persistent volumes to bind",
		"VolumeBinding: node(s) did not have enough free storage",
		"VolumeZone: node(s) had no available volume zone",
		"PodTopologySpread: node(s) didn't match pod topology spread constraints",
		"PodTopologySpread: node(s) didn't match pod topology spread constraints (missing required label)",
		"InterPodAffinity: node(s) didn't match pod affinity rules",
		"InterPodAffinity: node(s) didn't match pod anti-affinity rules",
		"InterPodAffinity: node(s) didn't satisfy existing pods anti-affinity rules",
		"NodeDeclaredFeatures: node(s) didn't match Pod's required features",
		": node(s) didn't satisfy plugin(s) [NodeAffinity]",
	}
	const often = 20
	for _, reason := range reasons {
		if n := r.Refusals[reason]; n < often {
			t.Errorf("%d nodes refused for %q, want %d or more", n, reason, often)
		}
	}
	for _, rule := range rules.All() {
		if !rule.InDefault(groups.Gates{}) || rule.Name == rules.DynamicResources { // the latter has a test of its own
			continue
		}
		filters := func(reason string) bool { return strings.HasPrefix(reason, rule.Name+": ") }
		if rule.Plugin.Filters() && rule.Name != rules.NodeName && !slices.ContainsFunc(reasons, filters) {
			t.Errorf("%s filters: want a reason of it above, got none", rule.Name)
		}
		if n := r.Scores[rule.Name]; rule.Plugin.Scores() && n < often {
			t.Errorf("%s scores %d nodes unlike another, want %d or more", rule.Name, n, often)
		}
	}
	for _, text := range []string{"not found", "pod has unbound immediate PersistentVolumeClaims", "is being deleted", "waiting for ephemeral volume controller"} {
		if times(r.Errors, text) == 0 {
			t.Errorf("no pod refused for %q", text)
		}
	}
	if r.Preemptions < 200 || r.Choices < 100 || r.Violations < 20 {
		t.Errorf("%d preemptions, %d with a choice, %d that violate a budget, want 200, 100 and 20", r.Preemptions, r.Choices, r.Violations)
	}
	for _, text := range []string{"No preemption victims found for incoming pod", "preemption: not eligible due to preemptionPolicy=Never.", "not eligible due to a terminating pod on the nominated node.", "not found"} {
		if times(r.Kept, text) == 0 {
			t.Errorf("no pod preempts nobody for %q", text)
		}
	}
	if r.Placed*100 < 35*r.Decisions {
		t.Errorf("%d of %d pods placed, want more than a third", r.Placed, r.Decisions)
	}
}

// The generator makes cases of what devices, and claims of them, may be; most pods find some, and the others fail for all that
// devices may fail for.
func TestRandomReachesDevices(t *testing.T) {
	r := NewReach()
	for _, family := range []Family{Devices, DevicesBeside} {
		for seed := uint64(1); seed <= 150; seed++ {
			if err := r.Add(t.Context(), Random(seed, 25, []Family{family})); err != nil {
				t.Fatalf("%s, seed %d: %v", family, seed, err)
			}
		}
	}
	for _, reason := range []string{
		"cannot allocate all claims", "resourceclaim not available on the node", "invalid resource pools were encountered",
		"cannot fit resource", "cannot schedule extended resource claim",
	} {
		if n := r.Refusals["DynamicResources: "+reason]; n < 50 {
			t.Errorf("%d nodes refused for %q, want 50 or more", n, reason)
		}
	}
	if n := r.Scores["DynamicResources"]; n < 200 {
		t.Errorf("DynamicResources scores %d nodes unlike another, want 200 or more", n)
	}
	for text, want := range map[string]int{
		"exceeds the claim limit of 32": 5, "is currently being updated": 10, "is currently invalid": 10, "a claim constraint would not be satisfied": 10,
		"CEL runtime error: no such key": 10, "CEL compile error": 2, "does not exist": 10,
	} {
		if n := times(r.Errors, text); n < want {
			t.Errorf("%d pods ended by %q, want %d or more", n, text, want)
		}
	}
	for text, want := range map[string]int{
		"deallocation of ResourceClaim completed": 10, "deletion of ResourceClaim completed": 5, "still not schedulable": 500, "no new claims to deallocate": 50,
	} {
		if n := times(r.Kept, text); n < want {
			t.Errorf("%d pods kept by %q, want %d or more", n, text, want)
		}
	}
	for _, what := range []string{
		"all", "alternative", "a later alternative", "by a label", "for an admin", "for every node", "of an extended resource", "of several claims", "shared",
		"tolerated", "with a constraint", "with conditions", "with configuration",
	} {
		if n := r.Devices[what]; n < 20 {
			t.Errorf("%d claims are given devices %s, want 20 or more", n, what)
		}
	}
	if r.Placed*100 < 50*r.Pods || r.Devices["any"]*100 < 25*r.Pods {
		t.Errorf("%d of %d pods placed, with %d claims, want half of them or more, and a claim for each fourth", r.Placed, r.Pods, r.Devices["any"])
	}
}

// times counts what has a text in its name.
func times(counts map[string]int, text string) (n int) {
	for name, times := range counts {
		if strings.Contains(name, text) {
			n += times
		}
	}
	return n
}
