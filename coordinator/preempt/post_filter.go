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

// The texts of DynamicResources' PostFilter. There are no claims to take back, so it has nothing
// to add but that; where an earlier PreFilter plugin ended the attempt its own has not run, and it
// fails for want of its state.
const (
	noClaims     = "no new claims to deallocate"
	stateMissing = "not found"
)

// Claims is what DynamicResources' PostFilter says. ran tells whether its PreFilter has run, and refused whether that
// has turned the pod away, for its claims: no victim helps then.
func Claims(ran, refused bool) *fwk.Status {
	switch {
	case refused:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	case !ran:
		return fwk.NewStatus(fwk.Error, stateMissing)
	}
	return fwk.NewStatus(fwk.Unschedulable, noClaims)
}

// Refusal is what DefaultPreemption says where it finds no victims.
func Refusal(text string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, Prefix+text) }
