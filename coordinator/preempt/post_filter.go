package preempt

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Nominate is the result of a PostFilter plugin that nominates a pod to a node; "": to none any more.
func Nominate(node string) *fwk.PostFilterResult {
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}}
}

// Nominating is what a result makes of a pod's nominated node.
func Nominating(r *fwk.PostFilterResult) *objects.Nominating {
	if r == nil || r.Mode() != fwk.ModeOverride {
		return nil
	}
	return &objects.Nominating{Node: r.NominatedNodeName}
}

// The texts of DynamicResources' PostFilter for a pod that a PreFilter has refused. Where its own has, it knows of no claims;
// where an earlier one has, its own has not run, and it fails for want of its state.
const (
	noClaims     = "no new claims to deallocate"
	stateMissing = "not found"
)

// Claims is what DynamicResources' PostFilter says of such a pod. refused tells whether its own PreFilter has refused the pod.
func Claims(refused bool) *fwk.Status {
	if refused {
		return fwk.NewStatus(fwk.Unschedulable, noClaims)
	}
	return fwk.NewStatus(fwk.Error, stateMissing)
}

// Refusal is what DefaultPreemption says where it finds no victims.
func Refusal(text string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, Prefix+text) }
