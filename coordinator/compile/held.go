package compile

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Held is what a pod holds of its node, as upstream counts it: requests, resizes in place
// included, and the same with the defaults for containers that name none.
func Held(p *v1.Pod) (requests, nonZero v1.ResourceList) {
	p = tamed(p)
	requests = heldRequests(p)
	return requests, heldNonZero(p, requests)
}

// Amount is a quantity of a resource: thousandths for cpu, else ones, rounded up; at least 0 and at
// most MaxAmount.
func Amount(name v1.ResourceName, q resource.Quantity) int64 { return amount(q, unit(name)) }

// IsScalar tells whether a resource other than cpu, memory, ephemeral-storage and pods is one that
// upstream counts.
func IsScalar(name v1.ResourceName) bool { return isScalar(name) }
