package objects

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxErrors bounds how many errors one object gives.
	maxErrors = 50
	// shortBytes is how much of a value an error repeats.
	shortBytes = 80
	// maxQuantity is the largest integer up to which a float64 holds every one:
	// 8 PiB, or 9e15 thousandths of a core.
	maxQuantity = 1 << 53
)

// checker collects field errors.
type checker struct {
	errs field.ErrorList
	pod  *v1.Pod // that is checked; nil: another kind is
}

func (c *checker) add(err *field.Error) {
	if len(c.errs) < maxErrors {
		c.errs = append(c.errs, err)
	}
}

func (c *checker) invalid(p *field.Path, value any, format string, args ...any) {
	c.add(field.Invalid(p, value, fmt.Sprintf(format, args...)))
}

// short cuts a value that is too long to be repeated.
func short(s string) string {
	if len(s) <= shortBytes {
		return s
	}
	cut := shortBytes
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:cut], len(s))
}

// syntax checks a string with one of apimachinery's rules, its length first: a rule is a
// regular expression, and nothing valid is longer than limit.
func (c *checker) syntax(p *field.Path, s string, limit int, rule func(string) []string) {
	if len(s) > limit {
		c.invalid(p, short(s), "must be no more than %d bytes", limit)
		return
	}
	for _, message := range rule(s) {
		c.invalid(p, s, "%s", message)
	}
}

// required is syntax for a string that may not be empty.
func (c *checker) required(p *field.Path, s string, limit int, rule func(string) []string) {
	if s == "" {
		c.add(field.Required(p, ""))
		return
	}
	c.syntax(p, s, limit, rule)
}

func (c *checker) subdomain(p *field.Path, s string) {
	c.required(p, s, validation.DNS1123SubdomainMaxLength, validation.IsDNS1123Subdomain)
}

func (c *checker) dnsLabel(p *field.Path, s string) {
	c.required(p, s, validation.DNS1123LabelMaxLength, validation.IsDNS1123Label)
}

// qualifiedName is an optional DNS subdomain, a slash, and a name of 63 bytes.
func (c *checker) qualifiedName(p *field.Path, s string) {
	c.required(p, s, validation.DNS1123SubdomainMaxLength+1+validation.LabelValueMaxLength, validation.IsQualifiedName)
}

func (c *checker) labelValue(p *field.Path, s string) {
	c.syntax(p, s, validation.LabelValueMaxLength, validation.IsValidLabelValue)
}

// labels checks keys and values.
func (c *checker) labels(p *field.Path, labels map[string]string) {
	for _, key := range keysOf(labels) {
		c.qualifiedName(p, key)
		c.labelValue(p.Key(short(key)), labels[key])
	}
}

// oneOf checks an enumeration.
func oneOf[T ~string](c *checker, p *field.Path, value T, known ...T) {
	if slices.Contains(known, value) {
		return
	}
	c.add(field.NotSupported(p, T(short(string(value))), known))
}

// atLeast checks the lower bound of a number.
func (c *checker) atLeast(p *field.Path, value, low int64) {
	if value < low {
		c.invalid(p, value, "must be greater than or equal to %d", low)
	}
}

// positive checks that a number is.
func (c *checker) positive(p *field.Path, value int64) {
	if value <= 0 {
		c.invalid(p, value, "must be greater than zero")
	}
}

// between checks both bounds of a number.
func (c *checker) between(p *field.Path, value, low, high int64) {
	if value < low || value > high {
		c.invalid(p, value, "must be between %d and %d, inclusive", low, high)
	}
}

// unique reports the values that come more than once.
func unique[T comparable](c *checker, seen map[T]bool, p *field.Path, value T) {
	if seen[value] {
		c.add(field.Duplicate(p, value))
	}
	seen[value] = true
}

// resources checks names and quantities of a list.
func (c *checker) resources(p *field.Path, list v1.ResourceList) {
	for _, name := range keysOf(list) {
		q := list[name]
		c.qualifiedName(p, string(name))
		c.quantity(p.Key(short(string(name))), name, q)
	}
}

func (c *checker) quantity(p *field.Path, name v1.ResourceName, q resource.Quantity) {
	approximate := q.AsApproximateFloat64()
	if name == v1.ResourceCPU {
		approximate *= 1000
	}
	switch {
	case q.Sign() < 0:
		c.invalid(p, short(q.String()), "must be greater than or equal to 0")
	case approximate > maxQuantity || math.IsNaN(approximate):
		c.invalid(p, short(q.String()), "is absurdly large: more than %d%s", int64(maxQuantity), unit(name))
	case isInteger(name) && q.MilliValue()%1000 != 0:
		c.invalid(p, short(q.String()), "must be an integer")
	}
}

func unit(name v1.ResourceName) string {
	if name == v1.ResourceCPU {
		return " thousandths of a core"
	}
	return ""
}

// isInteger tells whether a resource comes in whole units only.
func isInteger(name v1.ResourceName) bool {
	switch name {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourceStorage:
		return false
	}
	return true
}

// notAbove checks requests against limits, where both are there.
func (c *checker) notAbove(p *field.Path, requests, limits v1.ResourceList) {
	for _, name := range keysOf(requests) {
		request := requests[name]
		limit, has := limits[name]
		if has && tame(request) && tame(limit) && request.Cmp(limit) > 0 {
			c.invalid(p.Key(short(string(name))), request.String(), "must be less than or equal to %s limit of %s", name, limit.String())
		}
	}
}

// tame tells whether a quantity is in the range where comparing it costs nothing.
func tame(q resource.Quantity) bool {
	return q.Sign() >= 0 && q.AsApproximateFloat64() <= maxQuantity
}

func (c *checker) ip(p *field.Path, s string) {
	if s == "" {
		return
	}
	if _, err := netip.ParseAddr(s); err != nil || strings.Contains(s, "%") {
		c.invalid(p, short(s), "must be an IP address")
	}
}

// keysOf returns the keys of a map in order, so that errors come in one.
func keysOf[K ~string, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
