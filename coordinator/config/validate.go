package config

import (
	"bytes"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componentconfig "k8s.io/component-base/config"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	componentvalidation "k8s.io/component-base/config/validation"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
)

// validate checks a completed configuration (upstream:
// pkg/scheduler/apis/config/validation).
func validate(c *configv1.KubeSchedulerConfiguration) field.ErrorList {
	errs := validateClients(c)
	if *c.Parallelism <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("parallelism"), *c.Parallelism, "should be an integer value greater than zero"))
	}
	errs = append(errs, validateProfiles(field.NewPath("profiles"), c.Profiles)...)
	errs = append(errs, validatePercentage(field.NewPath("percentageOfNodesToScore"), c.PercentageOfNodesToScore)...)
	if *c.PodInitialBackoffSeconds <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("podInitialBackoffSeconds"), *c.PodInitialBackoffSeconds, "must be greater than 0"))
	}
	if *c.PodMaxBackoffSeconds < *c.PodInitialBackoffSeconds {
		errs = append(errs, field.Invalid(field.NewPath("podMaxBackoffSeconds"), *c.PodMaxBackoffSeconds,
			"must be greater than or equal to PodInitialBackoffSeconds"))
	}
	return append(errs, validateExtenders(field.NewPath("extenders"), c.Extenders)...)
}

// validateClients checks what concerns the API server, by the rules that all of
// Kubernetes' components share.
func validateClients(c *configv1.KubeSchedulerConfiguration) field.ErrorList {
	var client componentconfig.ClientConnectionConfiguration
	var leader componentconfig.LeaderElectionConfiguration
	election := field.NewPath("leaderElection")
	for _, err := range []error{
		componentv1alpha1.Convert_v1alpha1_ClientConnectionConfiguration_To_config_ClientConnectionConfiguration(&c.ClientConnection,
			&client, nil),
		componentv1alpha1.Convert_v1alpha1_LeaderElectionConfiguration_To_config_LeaderElectionConfiguration(&c.LeaderElection, &leader,
			nil),
	} {
		if err != nil {
			return field.ErrorList{field.InternalError(election, err)}
		}
	}
	errs := componentvalidation.ValidateClientConnectionConfiguration(&client, field.NewPath("clientConnection"))
	errs = append(errs, componentvalidation.ValidateLeaderElectionConfiguration(&leader, election)...)
	if leader.LeaderElect && leader.ResourceLock != "leases" {
		errs = append(errs, field.Invalid(election.Child("resourceLock"), leader.ResourceLock, `resourceLock value must be "leases"`))
	}
	return errs
}

func validatePercentage(path *field.Path, percent *int32) field.ErrorList {
	if percent == nil || *percent >= 0 && *percent <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *percent, "not in valid range [0-100]")}
}

// maxProfiles is how many profiles there may be: each costs memory, and upstream has no
// bound.
const maxProfiles = 1000

func validateProfiles(path *field.Path, list []configv1.KubeSchedulerProfile) field.ErrorList {
	var errs field.ErrorList
	names := sets.Set[string]{}
	for i := range list {
		at, name := path.Index(i), ""
		if list[i].SchedulerName != nil {
			name = *list[i].SchedulerName
		}
		if name == "" {
			errs = append(errs, field.Required(at.Child("schedulerName"), ""))
		}
		errs = append(errs, validatePercentage(at.Child("percentageOfNodesToScore"), list[i].PercentageOfNodesToScore)...)
		errs = append(errs, validatePlugins(at.Child("plugins"), list[i].Plugins)...)
		errs = append(errs, validatePluginConfig(at.Child("pluginConfig"), list[i].PluginConfig)...)
		if names.Has(name) {
			errs = append(errs, field.Duplicate(at.Child("schedulerName"), name))
		}
		names.Insert(name)
	}
	return append(errs, validateQueueSort(path, list)...)
}

// validatePlugins refuses plugins that upstream once had. Those of the multi-point are
// refused later, for not existing.
func validatePlugins(path *field.Path, s *configv1.Plugins) field.ErrorList {
	var errs field.ErrorList
	for p := range framework.PlacementGenerate {
		for i, e := range p.Of(s).Enabled {
			if isRemoved(e.Name) {
				errs = append(errs, wasRemoved(path.Child(p.Field(), "enabled").Index(i), e.Name))
			}
		}
	}
	return errs
}

func wasRemoved(path *field.Path, name string) *field.Error {
	return field.Invalid(path, name, fmt.Sprintf("was invalid in version %q (KubeSchedulerConfiguration is version %q)",
		v1.SchemeGroupVersion, configv1.SchemeGroupVersion))
}

func validatePluginConfig(path *field.Path, list []configv1.PluginConfig) field.ErrorList {
	var errs field.ErrorList
	seen := sets.Set[string]{}
	for i, c := range list {
		at := path.Index(i)
		if seen.Has(c.Name) {
			errs = append(errs, field.Duplicate(at, c.Name))
		}
		seen.Insert(c.Name)
		switch of := argumentsOf(c.Name); {
		case isRemoved(c.Name):
			errs = append(errs, wasRemoved(at, c.Name))
		case of != nil:
			errs = append(errs, of.Validate(at.Child("args"), c.Args.Object)...)
		}
	}
	return errs
}

// validateQueueSort holds all profiles to one order of the queue: of one plugin, with the same
// arguments, if it should take any.
func validateQueueSort(path *field.Path, list []configv1.KubeSchedulerProfile) field.ErrorList {
	var errs field.ErrorList
	first, sort := list[0].Plugins.QueueSort, ""
	if n := len(first.Enabled); n > 1 {
		errs = append(errs, field.Invalid(path.Index(0).Child("plugins", "queueSort", "Enabled"), n,
			"only one queue sort plugin can be enabled"))
	}
	var args runtime.RawExtension
	if len(first.Enabled) > 0 {
		sort = first.Enabled[0].Name
		args = lastArguments(list[0].PluginConfig, sort)
	}
	for i := 1; i < len(list); i++ {
		if own := list[i].Plugins.QueueSort; !equality.Semantic.DeepEqual(first, own) {
			errs = append(errs, field.Invalid(path.Index(i).Child("plugins", "queueSort"), own, "must be the same for all profiles"))
		}
		for _, c := range list[i].PluginConfig {
			if c.Name == sort && !sameArguments(c.Args, args) {
				errs = append(errs, field.Invalid(path.Index(i).Child("pluginConfig", "args"), c.Args,
					"queueSort must be the same for all profiles"))
			}
		}
	}
	return errs
}

// lastArguments are those that a plugin was given last.
func lastArguments(list []configv1.PluginConfig, plugin string) (args runtime.RawExtension) {
	for _, c := range list {
		if c.Name == plugin {
			args = c.Args
		}
	}
	return args
}

// sameArguments tells whether two arguments are the same: as objects where they are known,
// else by their text.
func sameArguments(a, b runtime.RawExtension) bool {
	if a.Object != nil || b.Object != nil {
		return equality.Semantic.DeepEqual(a.Object, b.Object)
	}
	return bytes.Equal(a.Raw, b.Raw)
}

func validateExtenders(path *field.Path, list []configv1.Extender) field.ErrorList {
	var errs field.ErrorList
	binders := 0
	managed := sets.Set[string]{}
	for i, e := range list {
		if e.PrioritizeVerb != "" && e.Weight <= 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("weight"), e.Weight, "must have a positive weight applied to it"))
		}
		if e.BindVerb != "" {
			binders++
		}
		for j, r := range e.ManagedResources {
			at := path.Index(i).Child("managedResources").Index(j).Child("name")
			errs = append(errs, validateExtended(at, r.Name)...)
			if managed.Has(r.Name) {
				errs = append(errs, field.Invalid(at, r.Name, "duplicate extender managed resource name"))
			}
			managed.Insert(r.Name)
		}
	}
	if binders > 1 {
		errs = append(errs,
			field.Invalid(path, fmt.Sprintf("found %d extenders implementing bind", binders), "only one extender can implement bind"))
	}
	return errs
}

func validateExtended(path *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	for _, text := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, text))
	}
	if len(errs) == 0 && !isExtended(name) {
		errs = append(errs, field.Invalid(path, name, "is an invalid extended resource name"))
	}
	return errs
}

// isExtended tells an extended resource from Kubernetes' own.
func isExtended(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, v1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(name, v1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+name)) == 0
}
