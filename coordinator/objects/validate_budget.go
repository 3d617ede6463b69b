package objects

import (
	"strconv"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// disruptionBudget checks how many pods may be evicted
// (k8s.io/kubernetes/pkg/apis/policy/validation).
func (c *checker) disruptionBudget(p *field.Path, s *policyv1.PodDisruptionBudgetSpec) {
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		c.invalid(p, "", "minAvailable and maxUnavailable cannot be both set")
	}
	c.share(p.Child("minAvailable"), s.MinAvailable)
	c.share(p.Child("maxUnavailable"), s.MaxUnavailable)
	c.labelSelector(p.Child("selector"), s.Selector)
	if policy := s.UnhealthyPodEvictionPolicy; policy != nil {
		oneOf(c, p.Child("unhealthyPodEvictionPolicy"), *policy, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	}
}

// share checks a number of pods, or a percentage of them; nil: not given.
func (c *checker) share(p *field.Path, x *intstr.IntOrString) {
	switch {
	case x == nil:
	case x.Type == intstr.Int:
		c.atLeast(p, int64(x.IntVal), 0)
	case x.Type != intstr.String:
		c.invalid(p, short(x.String()), "must be an integer or percentage (e.g '5%%')")
	default:
		before := len(c.errs)
		c.syntax(p, x.StrVal, shortBytes, validation.IsValidPercent)
		if percent, err := strconv.Atoi(strings.TrimSuffix(x.StrVal, "%")); len(c.errs) == before && (err != nil || percent > 100) {
			c.invalid(p, x.StrVal, "must not be greater than 100%%")
		}
	}
}
