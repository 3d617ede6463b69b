package workload

import (
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkStrategy finds what an API server would refuse of how a workload makes and replaces its pods: what the controller would do with
// it is not known.
func checkStrategy(obj runtime.Object) field.ErrorList {
	spec := field.NewPath("spec")
	switch w := obj.(type) {
	case *appsv1.Deployment:
		return checkDeployment(&w.Spec.Strategy, spec.Child("strategy"))
	case *appsv1.StatefulSet:
		return append(oneOf(w.Spec.PodManagementPolicy, spec.Child("podManagementPolicy"), appsv1.OrderedReadyPodManagement,
			appsv1.ParallelPodManagement), checkStatefulSet(&w.Spec.UpdateStrategy, spec.Child("updateStrategy"))...)
	case *appsv1.DaemonSet:
		return checkDaemonSet(&w.Spec.UpdateStrategy, spec.Child("updateStrategy"))
	case *batchv1.Job:
		return checkJob(&w.Spec, spec)
	case *batchv1.CronJob:
		return checkJob(&w.Spec.JobTemplate.Spec, spec.Child("jobTemplate", "spec"))
	}
	return nil
}

// oneOf holds for a word that is one of those that there are; empty: the default.
func oneOf[T ~string](word T, path *field.Path, words ...T) field.ErrorList {
	if word == "" || slices.Contains(words, word) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, word, words)}
}

// checkType checks the type of a strategy: rolling, or another, beside which nothing may be said of a rolling update.
func checkType[T ~string](of T, rolls bool, path *field.Path, rolling, other T) field.ErrorList {
	if rolls && of == other {
		return field.ErrorList{field.Forbidden(path.Child("rollingUpdate"), "the type is "+string(other))}
	}
	return oneOf(of, path.Child("type"), rolling, other)
}

func checkDeployment(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	r := s.RollingUpdate
	errs := checkType(s.Type, r != nil, path, appsv1.RollingUpdateDeploymentStrategyType, appsv1.RecreateDeploymentStrategyType)
	if r == nil || len(errs) > 0 {
		return errs
	}
	path = path.Child("rollingUpdate")
	errs = append(amount(r.MaxSurge, path.Child("maxSurge"), false), amount(r.MaxUnavailable, path.Child("maxUnavailable"), true)...)
	if isZero(r.MaxSurge) && isZero(r.MaxUnavailable) {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), r.MaxUnavailable.String(), "may not be 0 when maxSurge is 0"))
	}
	return errs
}

func checkStatefulSet(s *appsv1.StatefulSetUpdateStrategy, path *field.Path) field.ErrorList {
	r := s.RollingUpdate
	errs := checkType(s.Type, r != nil, path, appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType)
	if r == nil || len(errs) > 0 {
		return errs
	}
	path = path.Child("rollingUpdate")
	return append(notNegative(r.Partition, path.Child("partition")), amount(r.MaxUnavailable, path.Child("maxUnavailable"), true)...)
}

func checkDaemonSet(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	errs := oneOf(s.Type, path.Child("type"), appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType)
	r := s.RollingUpdate
	if r == nil || len(errs) > 0 || s.Type == appsv1.OnDeleteDaemonSetStrategyType {
		return errs
	}
	path = path.Child("rollingUpdate")
	errs = append(amount(r.MaxSurge, path.Child("maxSurge"), true), amount(r.MaxUnavailable, path.Child("maxUnavailable"), true)...)
	// Without a word of it, maxUnavailable is 1 and maxSurge 0.
	switch surge, gone := r.MaxSurge != nil && !isZero(r.MaxSurge), !isZero(r.MaxUnavailable); {
	case surge && gone:
		errs = append(errs, field.Invalid(path.Child("maxSurge"), r.MaxSurge.String(),
			"may not be set when maxUnavailable is not 0, which is 1 where it is left out"))
	case !surge && !gone:
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), r.MaxUnavailable.String(), "may not be 0 when maxSurge is 0"))
	}
	return errs
}

func checkJob(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := notNegative(s.BackoffLimit, path.Child("backoffLimit"))
	if s.CompletionMode == nil {
		return errs
	}
	errs = append(errs, oneOf(*s.CompletionMode, path.Child("completionMode"), batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)...)
	if *s.CompletionMode == batchv1.IndexedCompletion && s.Completions == nil {
		errs = append(errs, field.Required(path.Child("completions"), "an Indexed Job has a number of them"))
	}
	return errs
}

func notNegative(n *int32, path *field.Path) field.ErrorList {
	if n == nil || *n >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *n, "must be greater than or equal to 0")}
}

// amount checks a number of pods, or a percentage of them; of all at the most where it has such a bound.
func amount(x *intstr.IntOrString, path *field.Path, bounded bool) field.ErrorList {
	switch {
	case x == nil:
		return nil
	case x.Type == intstr.Int:
		return notNegative(&x.IntVal, path)
	}
	if len(validation.IsValidPercent(x.StrVal)) > 0 {
		return field.ErrorList{field.Invalid(path, x.StrVal, "must be a number, or a percentage such as 25%")}
	}
	if n, err := strconv.Atoi(strings.TrimSuffix(x.StrVal, "%")); err != nil || bounded && n > 100 {
		return field.ErrorList{field.Invalid(path, x.StrVal, "must not be greater than 100%")}
	}
	return nil
}

// isZero tells of 0 and 0%; what is left out is not 0.
func isZero(x *intstr.IntOrString) bool {
	if x == nil {
		return false
	}
	if x.Type == intstr.Int {
		return x.IntVal == 0
	}
	return strings.Trim(x.StrVal, "0") == "%"
}
