package objects

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// highestUserPriority is the highest value of a PriorityClass that is not one of the system's.
	highestUserPriority = 1_000_000_000
	// systemPrefix begins the names of the system's own PriorityClasses.
	systemPrefix = "system-"
)

func (c *checker) priorityClass(p *schedulingv1.PriorityClass) {
	if strings.HasPrefix(p.Name, systemPrefix) {
		if want := systemPriority(p.Name); want == nil || p.Value != *want || p.GlobalDefault {
			c.add(field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with '"+systemPrefix+"' prefix are reserved for system use only"))
		}
	} else if p.Value > highestUserPriority {
		c.add(field.Forbidden(field.NewPath("value"), "maximum allowed value of a user defined priority is 1000000000"))
	}
	if p.PreemptionPolicy != nil {
		oneOf(c, field.NewPath("preemptionPolicy"), *p.PreemptionPolicy, v1.PreemptLowerPriority, v1.PreemptNever)
	}
}

func (c *checker) limitRange(limits []v1.LimitRangeItem, p *field.Path) {
	seen := map[v1.LimitType]bool{}
	for i := range limits {
		x, p := &limits[i], p.Index(i)
		c.qualifiedName(p.Child("type"), string(x.Type))
		if seen[x.Type] {
			c.add(field.Duplicate(p.Child("type"), short(string(x.Type))))
		}
		seen[x.Type] = true
		for _, list := range []struct {
			name string
			of   v1.ResourceList
		}{{"max", x.Max}, {"min", x.Min}, {"default", x.Default}, {"defaultRequest", x.DefaultRequest}} {
			c.resources(p.Child(list.name), list.of)
		}
		if x.Type == v1.LimitTypePod {
			c.absent(p.Child("default"), x.Default)
			c.absent(p.Child("defaultRequest"), x.DefaultRequest)
		}
		c.inOrder(p, "min", x.Min, "defaultRequest", x.DefaultRequest)
		c.inOrder(p, "min", x.Min, "default", x.Default)
		c.inOrder(p, "min", x.Min, "max", x.Max)
		c.inOrder(p, "defaultRequest", x.DefaultRequest, "default", x.Default)
		c.inOrder(p, "defaultRequest", x.DefaultRequest, "max", x.Max)
		c.inOrder(p, "default", x.Default, "max", x.Max)
	}
}

// absent: limits of whole pods have no defaults.
func (c *checker) absent(p *field.Path, list v1.ResourceList) {
	if len(list) > 0 {
		c.add(field.Forbidden(p, "may not be specified when `type` is 'Pod'"))
	}
}

// inOrder: no amount of a list is greater than that of another list, where this names the resource.
func (c *checker) inOrder(p *field.Path, low string, lows v1.ResourceList, high string, highs v1.ResourceList) {
	for _, name := range keysOf(lows) {
		if x, limit := lows[name], highs[name]; !limit.IsZero() && x.Cmp(limit) > 0 {
			c.invalid(p.Child(low).Key(short(string(name))), x.String(), "%s value is greater than %s value %s", low, high, limit.String())
		}
	}
}

func (c *checker) runtimeClass(r *nodev1.RuntimeClass) {
	c.dnsLabel(field.NewPath("handler"), r.Handler)
	if r.Overhead != nil {
		c.resources(field.NewPath("overhead", "podFixed"), r.Overhead.PodFixed)
	}
	if r.Scheduling != nil {
		p := field.NewPath("scheduling")
		c.labels(p.Child("nodeSelector"), r.Scheduling.NodeSelector)
		c.tolerations(p.Child("tolerations"), r.Scheduling.Tolerations)
	}
}
