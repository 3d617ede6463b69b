package devices

import (
	"errors"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What ends the wait for devices to become ready.
var (
	errFailed   = errors.New("device binding failed")
	errTimedOut = errors.New("device binding timeout")
)

// needsConditions tells whether devices of an allocation have to become ready before its pods are bound.
func needsConditions(a *resourcev1.AllocationResult) bool {
	if a == nil {
		return false
	}
	for i := range a.Devices.Results {
		if len(a.Devices.Results[i].BindingConditions) > 0 {
			return true
		}
	}
	return false
}

// isReady tells whether the devices of a claim are ready, as their drivers say. An error says that they will not be.
func isReady(claim *resourcev1.ResourceClaim) (bool, error) {
	if claim.Status.Allocation == nil {
		return false, nil
	}
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		if len(r.BindingConditions) == 0 {
			continue
		}
		conditions, there := conditionsOf(claim, r)
		if !there {
			return false, nil
		}
		for _, name := range r.BindingFailureConditions {
			if of := apimeta.FindStatusCondition(conditions, name); of != nil && of.Status == metav1.ConditionTrue {
				return false, fmt.Errorf("%w: claim=%s, reason=%s, message=%q", errFailed, claim.Name, of.Reason, of.Message)
			}
		}
		for _, name := range r.BindingConditions {
			if !apimeta.IsStatusConditionTrue(conditions, name) {
				return false, nil
			}
		}
	}
	return true, nil
}

// conditionsOf is what a driver says of a device. Shares of a device are not told apart, as upstream does not.
func conditionsOf(claim *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult) ([]metav1.Condition, bool) {
	for i := range claim.Status.Devices {
		if d := &claim.Status.Devices[i]; d.Device == r.Device && d.Driver == r.Driver && d.Pool == r.Pool {
			return d.Conditions, true
		}
	}
	return nil, false
}

// isTimedOut tells whether a claim was allocated so long ago that its devices should be ready.
func isTimedOut(claim *resourcev1.ResourceClaim, now time.Time, patience time.Duration) bool {
	a := claim.Status.Allocation
	if a == nil || a.AllocationTimestamp == nil || !a.AllocationTimestamp.Add(patience).Before(now) {
		return false
	}
	for i := range a.Devices.Results {
		if a.Devices.Results[i].BindingConditions != nil {
			return true
		}
	}
	return false
}
