package objects

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const strayTemplate = "`selector` does not match template `labels`"

// owner checks what owns pods and finds them by a selector. The template's pods are
// checked when they are made.
func (c *checker) owner(p *field.Path, kind string, s *metav1.LabelSelector, replicas *int32, template map[string]string) {
	if replicas != nil {
		c.atLeast(p.Child("replicas"), int64(*replicas), 0)
	}
	path := p.Child("selector")
	if s == nil {
		c.add(field.Required(path, ""))
		return
	}
	before := len(c.errs)
	c.labelSelector(path, s)
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		c.invalid(path, "", "empty selector is invalid for %s", kind)
	}
	if len(c.errs) > before {
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		c.invalid(path, short(metav1.FormatLabelSelector(s)), "invalid label selector")
		return
	}
	if !selector.Matches(labels.Set(template)) {
		c.invalid(p.Child("template", "metadata", "labels"), short(labels.FormatLabels(template)), strayTemplate)
	}
}

func (c *checker) replicationController(r *v1.ReplicationController, p *field.Path) {
	if r.Spec.Replicas != nil {
		c.atLeast(p.Child("replicas"), int64(*r.Spec.Replicas), 0)
	}
	c.labels(p.Child("selector"), r.Spec.Selector)
	if len(r.Spec.Selector) == 0 {
		c.add(field.Required(p.Child("selector"), ""))
	}
	if r.Spec.Template == nil {
		c.add(field.Required(p.Child("template"), ""))
		return
	}
	if template := r.Spec.Template.Labels; !labels.SelectorFromSet(r.Spec.Selector).Matches(labels.Set(template)) {
		c.invalid(p.Child("template", "metadata", "labels"), short(labels.FormatLabels(template)), strayTemplate)
	}
}
