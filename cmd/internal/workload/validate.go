package workload

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxPods is how many pods one workload may stand for.
const MaxPods = 1_000_000

// shape is what the kinds have in common.
type shape struct {
	template *v1.PodTemplateSpec
	path     *field.Path // of the template
	counts   map[string]*int32
	selector *metav1.LabelSelector
	selects  bool // the API server wants a selector
}

func shapeOf(obj runtime.Object) (s shape, ok bool) {
	spec := field.NewPath("spec")
	s.path = spec.Child("template")
	switch w := obj.(type) {
	case *appsv1.Deployment:
		s.template, s.selector, s.selects = &w.Spec.Template, w.Spec.Selector, true
		s.counts = map[string]*int32{"spec.replicas": w.Spec.Replicas}
	case *appsv1.ReplicaSet:
		s.template, s.selector, s.selects = &w.Spec.Template, w.Spec.Selector, true
		s.counts = map[string]*int32{"spec.replicas": w.Spec.Replicas}
	case *v1.ReplicationController:
		s.template, s.counts = w.Spec.Template, map[string]*int32{"spec.replicas": w.Spec.Replicas}
	case *appsv1.StatefulSet:
		s.template, s.selector, s.selects = &w.Spec.Template, w.Spec.Selector, true
		s.counts = map[string]*int32{"spec.replicas": w.Spec.Replicas}
		if w.Spec.Ordinals != nil {
			s.counts["spec.ordinals.start"] = &w.Spec.Ordinals.Start
		}
	case *appsv1.DaemonSet:
		s.template, s.selector, s.selects = &w.Spec.Template, w.Spec.Selector, true
	case *batchv1.Job:
		s.template = &w.Spec.Template
		s.counts = map[string]*int32{"spec.parallelism": w.Spec.Parallelism, "spec.completions": w.Spec.Completions}
	case *batchv1.CronJob:
		spec = spec.Child("jobTemplate", "spec")
		s.template, s.path = &w.Spec.JobTemplate.Spec.Template, spec.Child("template")
		s.counts = map[string]*int32{
			spec.Child("parallelism").String(): w.Spec.JobTemplate.Spec.Parallelism,
			spec.Child("completions").String(): w.Spec.JobTemplate.Spec.Completions,
		}
	default:
		return shape{}, false
	}
	return s, true
}

// Template is where a workload's pod template stands; false where obj is no workload.
func Template(obj runtime.Object) (*field.Path, bool) {
	s, ok := shapeOf(obj)
	return s.path, ok
}

// Validate finds what makes a workload unusable. The template's own fields are
// for the validation of a pod made from it.
func Validate(obj runtime.Object) field.ErrorList {
	s, ok := shapeOf(obj)
	if !ok {
		return nil
	}
	var errs field.ErrorList
	name := field.NewPath("metadata", "name")
	if meta := obj.(metav1.Object); meta.GetName() == "" {
		errs = append(errs, field.Required(name, ""))
	} else if len(meta.GetName()) > validation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(name, "", validation.DNS1123SubdomainMaxLength))
	}
	for _, path := range slices.Sorted(maps.Keys(s.counts)) {
		if n := s.counts[path]; n != nil && *n < 0 {
			errs = append(errs, field.Invalid(field.NewPath(path), *n, "must be greater than or equal to 0"))
		} else if n != nil && *n > MaxPods {
			errs = append(errs, field.Invalid(field.NewPath(path), *n, fmt.Sprintf("must be at most %d", MaxPods)))
		}
	}
	switch {
	case s.template == nil:
		errs = append(errs, field.Required(s.path, ""))
	case len(s.template.Spec.Containers) == 0:
		errs = append(errs, field.Required(s.path.Child("spec", "containers"), "this is not a whole workload"))
	}
	return append(errs, checkStrategy(obj)...)
}

// Oddities finds what an API server would refuse, but what has no say in where
// the pods go: a selector that is missing or does not select the template.
func Oddities(obj runtime.Object) field.ErrorList {
	s, ok := shapeOf(obj)
	if !ok || !s.selects || s.template == nil {
		return nil
	}
	path := field.NewPath("spec", "selector")
	if s.selector == nil {
		return field.ErrorList{field.Required(path, "an API server would refuse this; used all the same")}
	}
	selector, err := metav1.LabelSelectorAsSelector(s.selector)
	if err != nil {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	if selector.Empty() || !selector.Matches(labels.Set(s.template.Labels)) {
		return field.ErrorList{field.Invalid(path, selector.String(),
			"does not select the template's labels; an API server would refuse this; used all the same")}
	}
	return nil
}

// Model is a pod as the workload's template has it, for validation: it bears the
// workload's own name. Nil where obj is no workload.
func Model(obj runtime.Object) *v1.Pod {
	s, ok := shapeOf(obj)
	if !ok || s.template == nil {
		return nil
	}
	w := obj.(metav1.Object)
	t := s.template.DeepCopy()
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: w.GetName(), Namespace: w.GetNamespace(), Labels: t.Labels, Annotations: t.Annotations},
		Spec:       t.Spec,
	}
}
