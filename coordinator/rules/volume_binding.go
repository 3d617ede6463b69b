package rules

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// VolumeBinding is the plugin that finds volumes for claims, and has them bound before the pod is.
const VolumeBinding = "VolumeBinding"

func volumeBinding() *Rule {
	return &Rule{
		Name: VolumeBinding, Plugin: pb.Plugin_PLUGIN_VOLUME_BINDING,
		Points:       []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score, framework.Reserve, framework.PreBind},
		RefusesEarly: true,
		Arguments: arguments(completeVolumeBinding, validateVolumeBinding,
			func(c *compile.ProfileConfig) *configv1.VolumeBindingArgs { return &c.VolumeBinding }),
	}
}

func completeVolumeBinding(a *configv1.VolumeBindingArgs) {
	orElse(&a.BindTimeoutSeconds, 600)
}

func validateVolumeBinding(path *field.Path, a *configv1.VolumeBindingArgs) field.ErrorList {
	var errs field.ErrorList
	if *a.BindTimeoutSeconds < 0 {
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), *a.BindTimeoutSeconds,
			"invalid BindTimeoutSeconds, should not be a negative value"))
	}
	if a.Shape != nil {
		errs = append(errs, field.Invalid(path.Child("shape"), a.Shape,
			"unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"))
	}
	return errs
}
