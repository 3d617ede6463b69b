package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// YAML is the whole configuration, completed, as a file: what kube-scheduler writes with
// --write-config-to. Every profile has its plugins with their weights, and the arguments
// of those in use. A file that says this loads to the same configuration.
//
// Differs from upstream: the arguments of a NodeResourcesFit that is not in use are kept where
// extenders ask for them; upstream's file does not load then.
func (c *Config) YAML() ([]byte, error) {
	out, err := sigsyaml.Marshal(c.Completed())
	if err != nil {
		return nil, fmt.Errorf("write scheduler configuration: %w", err)
	}
	return out, nil
}

// Public is Completed for those who may look at the configuration and not at its secrets: the
// extenders' passwords and keys are masked.
//
// Differs from upstream: /configz and the log have them.
func (c *Config) Public() *configv1.KubeSchedulerConfiguration {
	whole := c.Completed()
	for i := range whole.Extenders {
		e := &whole.Extenders[i]
		if u, err := url.Parse(e.URLPrefix); err != nil {
			e.URLPrefix = "xxxxx"
		} else if u.User != nil {
			e.URLPrefix = u.Redacted()
		}
		if e.TLSConfig != nil && len(e.TLSConfig.KeyData) > 0 {
			e.TLSConfig.KeyData = []byte("xxxxx")
		}
	}
	return whole
}

// Completed is what YAML writes. The caller may change it.
func (c *Config) Completed() *configv1.KubeSchedulerConfiguration {
	whole := c.completed.DeepCopy()
	for i := range whole.Profiles {
		c.all.writable(&whole.Profiles[i], len(ignoredByExtenders(whole.Extenders)) > 0)
	}
	return whole
}

// writable makes a completed profile say all that it means: weights everywhere, and arguments
// sorted, without those that nothing reads.
func (all known) writable(p *configv1.KubeSchedulerProfile, needsFit bool) {
	inUse := named(p.Plugins)
	if needsFit {
		inUse.Insert(rules.NodeResourcesFit)
	}
	p.PluginConfig = slices.DeleteFunc(p.PluginConfig, func(c configv1.PluginConfig) bool {
		_, known := all.find(c.Name)
		return !known || !inUse.Has(c.Name) || c.Args.Object == nil && len(c.Args.Raw) == 0
	})
	slices.SortFunc(p.PluginConfig, func(a, b configv1.PluginConfig) int { return strings.Compare(a.Name, b.Name) })
	for i, c := range p.PluginConfig {
		if c.Args.Object != nil {
			p.PluginConfig[i].Args.Raw = nil
		}
	}
	weighted(&p.Plugins.MultiPoint)
	for at := range framework.NumPoints {
		weighted(at.Of(p.Plugins))
	}
}

// weighted gives every entry of a set its weight, 0 where the file has none.
func weighted(s *configv1.PluginSet) {
	for _, list := range [][]configv1.Plugin{s.Enabled, s.Disabled} {
		for i := range list {
			orElse(&list[i].Weight, 0)
		}
	}
}

// Expanded are the profiles as they run: every extension point with all its plugins, in order,
// and with their weights where weights count.
func (c *Config) Expanded() []configv1.KubeSchedulerProfile {
	out := make([]configv1.KubeSchedulerProfile, 0, len(c.profiles))
	for i, p := range c.profiles {
		name := p.name
		made := configv1.KubeSchedulerProfile{SchedulerName: &name, Plugins: &configv1.Plugins{}}
		for at := range framework.NumPoints {
			at.Of(made.Plugins).Enabled = p.lists.entries(at, c.completed.Profiles[i].Plugins)
		}
		out = append(out, made)
	}
	return out
}

// entries are the plugins that run at a point.
func (l *lists) entries(at framework.Point, sets *configv1.Plugins) []configv1.Plugin {
	var list []configv1.Plugin
	weight := map[string]int64{}
	if at == framework.Score || at == framework.PlacementScore {
		weight = weights(at, sets)
	}
	for _, name := range l[at] {
		e := configv1.Plugin{Name: name}
		if w, ok := weight[name]; ok {
			w := int32(w)
			e.Weight = &w
		}
		list = append(list, e)
	}
	return list
}
