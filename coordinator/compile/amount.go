package compile

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// MaxAmount is the most that is counted of one resource, in its unit: 32 PiB,
// or 36 million million CPUs. A hundred times as much still fits into an int64,
// which is what the score formulas need.
const MaxAmount = int64(1) << 55

// The unit that a resource is counted in: thousandths for cpu, else ones.
const (
	milli = resource.Milli
	ones  = resource.Scale(0)
)

// unit is the unit of a resource.
func unit(name v1.ResourceName) resource.Scale {
	if name == v1.ResourceCPU {
		return milli
	}
	return ones
}

// amount is a quantity in a unit, rounded up, between 0 and MaxAmount.
func amount(q resource.Quantity, unit resource.Scale) int64 {
	if wild(q) {
		q = tame(q)
	}
	most := MaxAmount
	if unit == milli {
		most /= 1000
	}
	if q.CmpInt64(most+1) >= 0 {
		return MaxAmount // and perhaps more than an int64 holds
	}
	return min(q.ScaledValue(unit), MaxAmount)
}

// maxDigits is the number of decimal digits of MaxAmount.
const maxDigits = 17

// wild tells whether a quantity is one that must not be calculated with: below
// zero, above MaxAmount, or with an exponent that would take memory without
// bound ("1e2147483647" is a quantity that parses in no time).
func wild(q resource.Quantity) bool {
	switch q.Sign() {
	case -1:
		return true
	case 0:
		return q.AsDec().Scale() < -maxDigits
	}
	if v, ok := q.AsInt64(); ok {
		return v > MaxAmount
	}
	// A float64 is wrong by far less than a hundredth, and costs no decimal.
	if q.AsApproximateFloat64() < 0.99*float64(MaxAmount) {
		return false
	}
	d := q.AsDec()
	// Each decimal digit takes more than three bits, so this is never less than
	// the number of digits before the point, and at most a tenth more.
	digits := int64(d.UnscaledBig().BitLen())*302/1000 + 1 - int64(d.Scale())
	if digits <= maxDigits {
		return false
	}
	return digits > 2*maxDigits || q.CmpInt64(MaxAmount) > 0
}

// tame gives the nearest quantity that can be calculated with.
func tame(q resource.Quantity) resource.Quantity {
	if q.Sign() > 0 {
		return *resource.NewQuantity(MaxAmount, resource.DecimalSI)
	}
	return resource.Quantity{}
}

// resources counts a list; what is not a resource to a scheduler, zeros, and the
// names that drop is true for are left out. A nil drop drops nothing.
func resources(list v1.ResourceList, drop func(v1.ResourceName) bool) *pb.Resources {
	r := &pb.Resources{}
	for name, q := range list {
		v := amount(q, unit(name))
		switch name {
		case v1.ResourceCPU:
			r.MilliCpu = v
		case v1.ResourceMemory:
			r.MemoryBytes = v
		case v1.ResourceEphemeralStorage:
			r.EphemeralStorageBytes = v
		default:
			if v == 0 || !isScalar(name) || !usable(string(name)) || drop != nil && drop(name) {
				continue
			}
			r.Scalars = append(r.Scalars, &pb.ScalarResource{Name: string(name), Quantity: v})
		}
	}
	slices.SortFunc(r.Scalars, func(a, b *pb.ScalarResource) int { return strings.Compare(a.Name, b.Name) })
	return r
}

// empty tells whether nothing is asked for.
func empty(r *pb.Resources) bool {
	return r.MilliCpu == 0 && r.MemoryBytes == 0 && r.EphemeralStorageBytes == 0 && len(r.Scalars) == 0
}

// isScalar tells whether a resource other than cpu, memory, ephemeral-storage and
// pods is one that upstream counts.
func isScalar(name v1.ResourceName) bool {
	return isExtended(name) || isPrefixedNative(name) ||
		strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), v1.ResourceAttachableVolumesPrefix)
}

// isExtended tells whether a resource is an extended one: a qualified name with a
// domain that is not Kubernetes' own, also once a quota has put its prefix before
// it.
func isExtended(name v1.ResourceName) bool {
	if !strings.Contains(string(name), "/") || isPrefixedNative(name) ||
		strings.HasPrefix(string(name), v1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// isPrefixedNative tells whether a resource name has Kubernetes' own domain.
func isPrefixedNative(name v1.ResourceName) bool {
	return strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}
