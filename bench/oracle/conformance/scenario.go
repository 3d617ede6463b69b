package conformance

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/shardsched/shardsched/bench/oracle"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/scorer"
)

// Scenario is a cluster and what happens to it: the first round's events make it, and
// with each further round it changes, after all of the pods before were decided.
type Scenario struct {
	Settings Settings `json:"settings"`
	Rounds   []Round  `json:"rounds"`
}

// Round is a list of events in order.
type Round []Event

// Event is one change.
type Event struct {
	Type EventType `json:"type"`
	// Node or Pod is the object; of a removed one its name and UID count.
	Node *v1.Node `json:"node,omitempty"`
	Pod  *v1.Pod  `json:"pod,omitempty"`
}

// EventType says what happens to the object.
type EventType string

const (
	// Set adds or replaces an object. A pod with spec.nodeName is on its node, one
	// without is to be scheduled.
	Set EventType = "Set"
	// Removed takes it away.
	Removed EventType = "Removed"
)

// Settings are the arguments of plugins; what they leave out takes upstream's default.
type Settings struct {
	// Plugins are the plugins in order; none: the default ones.
	Plugins  []Plugin                                     `json:"plugins,omitempty"`
	Affinity configv1.NodeAffinityArgs                    `json:"affinity"`
	Fit      configv1.NodeResourcesFitArgs                `json:"fit"`
	Balanced configv1.NodeResourcesBalancedAllocationArgs `json:"balanced"`
}

// Plugin is a plugin that a profile runs wherever it can be run.
type Plugin struct {
	Name string `json:"name"`
	// Weight is 0 for a plugin that does not score.
	Weight int32 `json:"weight,omitempty"`
}

// defaultPlugins are upstream's default ones, as far as they are rules for nodes.
func defaultPlugins() []Plugin {
	return []Plugin{
		{Name: names.NodeUnschedulable}, {Name: names.NodeName}, {names.TaintToleration, 3}, {names.NodeAffinity, 2}, {Name: names.NodePorts},
		{names.NodeResourcesFit, 1}, {names.NodeResourcesBalancedAllocation, 1}, {names.ImageLocality, 1},
	}
}

func (s *Settings) plugins() []Plugin {
	if len(s.Plugins) == 0 {
		return defaultPlugins()
	}
	return s.Plugins
}

// profile is what our scheduler runs.
func (s *Settings) profile() (*compile.Profile, error) {
	able := compile.DefaultConfig(v1.DefaultSchedulerName)
	c := compile.ProfileConfig{Name: able.Name}
	for _, plugin := range s.plugins() {
		for _, f := range able.Filters {
			if scorer.PluginName(f) == plugin.Name {
				c.Filters = append(c.Filters, f)
			}
		}
		for _, x := range able.Scores {
			if scorer.PluginName(x.Plugin) == plugin.Name {
				c.Scores = append(c.Scores, compile.PluginWeight{Plugin: x.Plugin, Weight: int64(plugin.Weight)})
			}
		}
	}
	c.NodeAffinity, c.Fit, c.Balanced = s.Affinity, s.Fit, s.Balanced
	p, err := compile.NewProfile(c)
	if err != nil {
		return nil, fmt.Errorf("our profile: %w", err)
	}
	return p, nil
}

// upstream is what upstream runs. Defaulting writes into the arguments.
func (s *Settings) upstream() oracle.Profile {
	p := oracle.Profile{Args: map[string]runtime.Object{
		names.NodeAffinity:                    s.Affinity.DeepCopy(),
		names.NodeResourcesFit:                s.Fit.DeepCopy(),
		names.NodeResourcesBalancedAllocation: s.Balanced.DeepCopy(),
	}}
	for _, plugin := range s.plugins() {
		x := configv1.Plugin{Name: plugin.Name}
		if plugin.Weight > 0 {
			x.Weight = &plugin.Weight
		}
		p.Plugins = append(p.Plugins, x)
	}
	return p
}
