package schedconfig

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/cmd/internal/manifest"
	"github.com/shardsched/shardsched/coordinator/compile"
)

// Config is what a file sets.
type Config struct {
	// Profiles by scheduler name; at least one.
	Profiles map[string]*compile.Profile
	// WithoutEffect names the fields that the file sets and nothing here reads.
	WithoutEffect []string
}

// Default is the configuration without a file.
func Default() *Config {
	name := v1.DefaultSchedulerName
	return &Config{Profiles: map[string]*compile.Profile{name: compile.DefaultProfile(name)}}
}

// Read reads a file; an empty path gives the defaults.
func Read(path string) (*Config, error) {
	if path == "" {
		return Default(), nil
	}
	var file configv1.KubeSchedulerConfiguration
	place, err := manifest.ReadSingle(path, configv1.SchemeGroupVersion.String(), "KubeSchedulerConfiguration", &file)
	if err != nil {
		return nil, err
	}
	if len(file.Extenders) > 0 {
		return nil, place.Error("extenders", "extenders are not called by this version")
	}
	c := &Config{Profiles: map[string]*compile.Profile{}, WithoutEffect: withoutEffect(&file)}
	if len(file.Profiles) == 0 {
		c.Profiles = Default().Profiles
	}
	for i := range file.Profiles {
		field := fmt.Sprintf("profiles[%d]", i)
		p, err := profile(place, field, &file.Profiles[i], len(file.Profiles) > 1)
		if err != nil {
			return nil, err
		}
		if c.Profiles[p.Name()] != nil {
			return nil, place.Error(field+".schedulerName", fmt.Sprintf("%q names two profiles", p.Name()))
		}
		c.Profiles[p.Name()] = p
	}
	return c, nil
}

func profile(place *manifest.Single, field string, p *configv1.KubeSchedulerProfile, several bool) (*compile.Profile, error) {
	name := v1.DefaultSchedulerName
	switch {
	case p.SchedulerName != nil && *p.SchedulerName != "":
		name = *p.SchedulerName
	case several:
		return nil, place.Error(field+".schedulerName", "is required where there are several profiles")
	}
	c := compile.DefaultConfig(name)
	if p.Plugins != nil {
		if e := setPlugins(&c, p.Plugins); e != nil {
			return nil, place.Error(field+"."+e.field, e.problem)
		}
	}
	seen := map[string]bool{}
	for i := range p.PluginConfig {
		at := fmt.Sprintf("%s.pluginConfig[%d]", field, i)
		if seen[p.PluginConfig[i].Name] {
			return nil, place.Error(at+".name", "repeated config for plugin "+p.PluginConfig[i].Name)
		}
		seen[p.PluginConfig[i].Name] = true
		if err := setArgs(place, at, &c, &p.PluginConfig[i]); err != nil {
			return nil, err
		}
	}
	made, err := compile.NewProfile(c)
	if err != nil {
		problem := strings.TrimPrefix(err.Error(), fmt.Sprintf("profile %q: ", name))
		return nil, place.Error(argsField(field, p.PluginConfig, &problem), problem)
	}
	return made, nil
}

// argsField is the field of a plugin's arguments that a profile's problem is about,
// which is then cut off the problem; the profile where it is about none.
func argsField(profile string, configs []configv1.PluginConfig, problem *string) string {
	path, rest, found := strings.Cut(*problem, ": ")
	if !found {
		return profile
	}
	plugin := ""
	switch {
	case strings.HasPrefix(path, "scoringStrategy."):
		plugin = "NodeResourcesFit"
	case strings.HasPrefix(path, "resources["):
		plugin = "NodeResourcesBalancedAllocation"
	case strings.HasPrefix(path, "addedAffinity."):
		plugin = "NodeAffinity"
	}
	for i, c := range configs {
		if plugin != "" && c.Name == plugin {
			*problem = rest
			return fmt.Sprintf("%s.pluginConfig[%d].args.%s", profile, i, path)
		}
	}
	return profile
}

// setArgs decodes the arguments of one plugin.
func setArgs(place *manifest.Single, at string, c *compile.ProfileConfig, p *configv1.PluginConfig) error {
	var into any
	switch p.Name {
	case "NodeAffinity":
		into = &c.NodeAffinity
	case "NodeResourcesFit":
		into = &c.Fit
	case "NodeResourcesBalancedAllocation":
		into = &c.Balanced
	default:
		if _, ok := find(p.Name); !ok {
			return place.Error(at+".name", fmt.Sprintf("plugin %q does not exist", p.Name))
		}
		return place.Error(at+".name", fmt.Sprintf("plugin %s takes no arguments in this version", p.Name))
	}
	if len(p.Args.Raw) == 0 {
		return nil
	}
	return place.Decode(at+".args", p.Args.Raw, into)
}

// withoutEffect names what kube-scheduler would heed.
func withoutEffect(f *configv1.KubeSchedulerConfiguration) []string {
	var names []string
	note := func(set bool, name string) {
		if set {
			names = append(names, name)
		}
	}
	note(f.Parallelism != nil, "parallelism")
	note(f.LeaderElection.LeaderElect != nil || f.LeaderElection.LeaseDuration.Duration != 0 || f.LeaderElection.ResourceName != "", "leaderElection")
	note(f.ClientConnection.Kubeconfig != "" || f.ClientConnection.QPS != 0 || f.ClientConnection.Burst != 0, "clientConnection")
	note(f.EnableProfiling != nil || f.EnableContentionProfiling != nil, "enableProfiling")
	sampled := f.PercentageOfNodesToScore != nil
	for _, p := range f.Profiles {
		sampled = sampled || p.PercentageOfNodesToScore != nil
	}
	note(sampled, "percentageOfNodesToScore")
	note(f.PodInitialBackoffSeconds != nil, "podInitialBackoffSeconds")
	note(f.PodMaxBackoffSeconds != nil, "podMaxBackoffSeconds")
	note(f.DelayCacheUntilActive, "delayCacheUntilActive")
	return names
}
