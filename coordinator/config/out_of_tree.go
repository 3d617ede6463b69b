package config

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
)

// OutOfTree are the profiles that use out-of-tree plugins, as the framework makes them.
func (c *Config) OutOfTree() []framework.ProfileConfig {
	var out []framework.ProfileConfig
	for i := range c.profiles {
		if len(c.profiles[i].outOfTree) == 0 {
			continue
		}
		of := &c.completed.Profiles[i]
		made := framework.ProfileConfig{Name: c.profiles[i].name, Plugins: *of.Plugins.DeepCopy()}
		for _, args := range of.PluginConfig {
			made.Args = append(made.Args, framework.PluginArgs{Name: args.Name, Args: argsObject(&args)})
		}
		out = append(out, made)
	}
	return out
}

// Parallelism is how many nodes out-of-tree plugins are shown at once at the most.
func (c *Config) Parallelism() int { return int(*c.completed.Parallelism) }

// argsObject is what a plugin's factory gets: the arguments where their kind is known, else their
// JSON; nil: none.
func argsObject(c *configv1.PluginConfig) runtime.Object {
	switch raw := bytes.TrimSpace(c.Args.Raw); {
	case c.Args.Object != nil:
		return c.Args.Object.DeepCopyObject()
	case len(raw) == 0 || string(raw) == "null":
		return nil
	default:
		return &runtime.Unknown{Raw: bytes.Clone(raw), ContentType: runtime.ContentTypeJSON}
	}
}
