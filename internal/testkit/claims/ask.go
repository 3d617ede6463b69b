package claims

import (
	"fmt"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ask reads claims into a scene, in the place of those before:
//
//	claim NAME
//	request NAME CLASS WORD…           CLASS - is none
//	first NAME                         a request with alternatives, each as "or NAME CLASS WORD…"
//	where EXPRESSION                   a selector of the request or alternative above
//	match|distinct NAME [REQUEST…]     a constraint; NAME - is none
//
// where the words of a request are N (how many), all, mode=TEXT, admin, unknown (a selector of an unknown type),
// ~KEY[=VALUE]:OPERATOR:EFFECT (a toleration), asks (capacities, even if none follows) and NAME:AMOUNT (a capacity).
func (s *Scene) Ask(text string) (err error) {
	defer caught(&err)
	s.Claims = nil
	var spec *resourceapi.DeviceClaim
	var selectors *[]resourceapi.DeviceSelector
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch f[0] {
		case "claim":
			s.Claims = append(s.Claims, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f[1]}})
			spec = &s.Claims[len(s.Claims)-1].Spec.Devices
		case "request":
			a, admin := alternative(f[1:])
			e := &resourceapi.ExactDeviceRequest{
				DeviceClassName: a.DeviceClassName, Selectors: a.Selectors, AllocationMode: a.AllocationMode, Count: a.Count,
				AdminAccess: admin, Tolerations: a.Tolerations, Capacity: a.Capacity,
			}
			spec.Requests = append(spec.Requests, resourceapi.DeviceRequest{Name: f[1], Exactly: e})
			selectors = &e.Selectors
		case "first":
			spec.Requests = append(spec.Requests, resourceapi.DeviceRequest{Name: f[1]})
		case "or":
			a, _ := alternative(f[1:])
			r := &spec.Requests[len(spec.Requests)-1]
			r.FirstAvailable = append(r.FirstAvailable, a)
			selectors = &r.FirstAvailable[len(r.FirstAvailable)-1].Selectors
		case "where":
			*selectors = append(*selectors, expression(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "where"))))
		case "match", "distinct":
			spec.Constraints = append(spec.Constraints, constraint(f))
		default:
			return fmt.Errorf("unknown line: %s", line)
		}
	}
	return nil
}

func constraint(f []string) resourceapi.DeviceConstraint {
	k := resourceapi.DeviceConstraint{Requests: f[2:]}
	name := resourceapi.FullyQualifiedName(f[1])
	if !strings.Contains(f[1], "/") {
		name = Driver + "/" + name
	}
	switch {
	case f[1] == "-":
	case f[0] == "match":
		k.MatchAttribute = &name
	default:
		k.DistinctAttribute = &name
	}
	return k
}

func alternative(f []string) (a resourceapi.DeviceSubRequest, admin *bool) {
	a = resourceapi.DeviceSubRequest{Name: f[0], DeviceClassName: f[1], AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
	if f[1] == "-" {
		a.DeviceClassName = ""
	}
	asks := func() {
		if a.Capacity == nil {
			a.Capacity = &resourceapi.CapacityRequirements{}
		}
	}
	for _, w := range f[2:] {
		n, err := strconv.ParseInt(w, 10, 64)
		switch yes := true; {
		case err == nil:
			a.Count = n
		case w == "all":
			a.AllocationMode, a.Count = resourceapi.DeviceAllocationModeAll, 0
		case strings.HasPrefix(w, "mode="):
			a.AllocationMode = resourceapi.DeviceAllocationMode(w[5:])
		case w == "admin":
			admin = &yes
		case w == "unknown":
			a.Selectors = append(a.Selectors, resourceapi.DeviceSelector{})
		case w[0] == '~':
			a.Tolerations = append(a.Tolerations, toleration(w[1:]))
		case w == "asks":
			asks()
		default:
			asks()
			for name, q := range quantities([]string{w}) {
				if a.Capacity.Requests == nil {
					a.Capacity.Requests = map[resourceapi.QualifiedName]resource.Quantity{}
				}
				a.Capacity.Requests[resourceapi.QualifiedName(name)] = q
			}
		}
	}
	return a, admin
}

func toleration(text string) resourceapi.DeviceToleration {
	f := strings.Split(text, ":")
	key, value, _ := strings.Cut(f[0], "=")
	return resourceapi.DeviceToleration{
		Key: key, Value: value, Operator: resourceapi.DeviceTolerationOperator(f[1]), Effect: resourceapi.DeviceTaintEffect(f[2]),
	}
}

// Off turns features off, by name: list, counters, taints, conditions, capacity.
func (s *Scene) Off(names ...string) error {
	for _, name := range names {
		switch f := &s.Features; name {
		case "list":
			f.PrioritizedList = false
		case "counters":
			f.PartitionableDevices = false
		case "taints":
			f.DeviceTaints = false
		case "conditions":
			f.BindingConditions = false
		case "capacity":
			f.ConsumableCapacity = false
		default:
			return fmt.Errorf("unknown feature: %s", name)
		}
	}
	return nil
}
