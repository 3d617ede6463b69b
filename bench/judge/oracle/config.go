package oracle

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// Config is a KubeSchedulerConfiguration as kube-scheduler holds it: defaulted, converted
// and validated by upstream.
type Config struct {
	internal *config.KubeSchedulerConfiguration
}

// DefaultConfig is what kube-scheduler runs without a file.
func DefaultConfig() (*Config, error) {
	c, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("default configuration: %w", err)
	}
	return (&Config{internal: c}).withoutTimeout(), nil
}

// ParseConfig reads a configuration file, YAML or JSON.
func ParseConfig(data []byte) (*Config, error) {
	obj, kind, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("read configuration: it is a %s", kind)
	}
	c.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
		return nil, fmt.Errorf("validate configuration: %w", err)
	}
	return (&Config{internal: c}).withoutTimeout(), nil
}

// withoutTimeout takes the limit away that the search for devices has on a node, as how fast this machine is
// must not matter.
func (c *Config) withoutTimeout() *Config {
	for i := range c.internal.Profiles {
		for _, p := range c.internal.Profiles[i].PluginConfig {
			if args, ok := p.Args.(*config.DynamicResourcesArgs); ok {
				args.FilterTimeout = &metav1.Duration{}
			}
		}
	}
	return c
}

// Profiles are the names of the profiles, which pods ask for with spec.schedulerName.
func (c *Config) Profiles() (out []string) {
	for _, p := range c.internal.Profiles {
		out = append(out, p.SchedulerName)
	}
	return out
}
