package oracle

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Profile is which plugins to run, and how.
type Profile struct {
	// Plugins run in this order at every extension point that they have. A weight of nil
	// stands for 1.
	Plugins []configv1.Plugin
	// Args are the arguments by plugin. Those that are left out take upstream's
	// defaults.
	Args map[string]runtime.Object
}

// internal makes the profile as kube-scheduler makes it of a configuration file: defaulted,
// converted and validated by upstream. A framework must have plugins to sort a queue and
// to bind, though no verdict rests on them.
func (p *Profile) internal() (*config.KubeSchedulerProfile, error) {
	name := v1.DefaultSchedulerName
	needed := []configv1.Plugin{{Name: names.PrioritySort}, {Name: names.DefaultBinder}}
	prof := configv1.KubeSchedulerProfile{
		SchedulerName: &name,
		Plugins: &configv1.Plugins{MultiPoint: configv1.PluginSet{
			Enabled:  append(needed, p.Plugins...),
			Disabled: []configv1.Plugin{{Name: "*"}},
		}},
	}
	for plugin, a := range p.Args {
		prof.PluginConfig = append(prof.PluginConfig, configv1.PluginConfig{Name: plugin, Args: runtime.RawExtension{Object: a}})
	}
	external := &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{prof}}
	scheme.Scheme.Default(external)
	out := &config.KubeSchedulerConfiguration{}
	if err := scheme.Scheme.Convert(external, out, nil); err != nil {
		return nil, fmt.Errorf("convert configuration: %w", err)
	}
	out.APIVersion = configv1.SchemeGroupVersion.String()
	if err := validation.ValidateKubeSchedulerConfiguration(out); err != nil {
		return nil, fmt.Errorf("validate configuration: %w", err)
	}
	return &out.Profiles[0], nil
}
