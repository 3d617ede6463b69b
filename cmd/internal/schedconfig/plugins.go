package schedconfig

import (
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// known is a plugin of kube-scheduler's default set.
type known struct {
	name   string
	weight int64
	// plugin is what evaluates it here; unspecified: nothing does yet, or it is part
	// of the coordinator and always on.
	plugin        pb.Plugin
	filter, score bool
}

// defaults is kube-scheduler's MultiPoint list, in its order (upstream:
// pkg/scheduler/apis/config/v1/default_plugins.go).
func defaults() []known {
	return []known{
		{name: "SchedulingGates"},
		{name: "PrioritySort"},
		{name: "NodeUnschedulable", plugin: pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE, filter: true},
		{name: "NodeName", plugin: pb.Plugin_PLUGIN_NODE_NAME, filter: true},
		{name: "TaintToleration", weight: 3, plugin: pb.Plugin_PLUGIN_TAINT_TOLERATION, filter: true, score: true},
		{name: "NodeAffinity", weight: 2, plugin: pb.Plugin_PLUGIN_NODE_AFFINITY, filter: true, score: true},
		{name: "NodePorts", plugin: pb.Plugin_PLUGIN_NODE_PORTS, filter: true},
		{name: "NodeResourcesFit", weight: 1, plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, filter: true, score: true},
		{name: "VolumeRestrictions"},
		{name: "NodeVolumeLimits"},
		{name: "VolumeBinding"},
		{name: "VolumeZone"},
		{name: "PodTopologySpread", weight: 2},
		{name: "InterPodAffinity", weight: 2},
		{name: "DynamicResources", weight: 2},
		{name: "DefaultPreemption"},
		{name: "NodeResourcesBalancedAllocation", weight: 1, plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION, score: true},
		{name: "ImageLocality", weight: 1, plugin: pb.Plugin_PLUGIN_IMAGE_LOCALITY, score: true},
		{name: "DefaultBinder"},
		{name: "NodeDeclaredFeatures"},
	}
}

func find(name string) (known, bool) {
	all := defaults()
	i := slices.IndexFunc(all, func(k known) bool { return k.name == name })
	if i < 0 {
		return known{}, false
	}
	return all[i], true
}

// alwaysOn tells of plugins that the coordinator is made of: naming them changes
// nothing.
func alwaysOn(name string) bool {
	return slices.Contains([]string{"SchedulingGates", "PrioritySort", "DefaultBinder"}, name)
}

// fieldError is a problem with a field below a profile.
type fieldError struct{ field, problem string }

// multiPoint is the default list as a profile's multiPoint changes it.
func multiPoint(set configv1.PluginSet) ([]known, *fieldError) {
	list := defaults()
	if disabled(set, "*") {
		list = nil
	}
	list = slices.DeleteFunc(list, func(k known) bool { return disabled(set, k.name) })
	for i, e := range set.Enabled {
		k, err := enabled(e)
		if err != "" {
			return nil, &fieldError{fmt.Sprintf("plugins.multiPoint.enabled[%d].name", i), err}
		}
		at := slices.IndexFunc(list, func(l known) bool { return l.name == e.Name })
		if at >= 0 {
			list[at] = k
		} else {
			list = append(list, k)
		}
	}
	return list, nil
}

func disabled(set configv1.PluginSet, name string) bool {
	return slices.ContainsFunc(set.Disabled, func(p configv1.Plugin) bool { return p.Name == name })
}

// enabled is a plugin that the file names, with the weight that it gives.
func enabled(p configv1.Plugin) (known, string) {
	k, ok := find(p.Name)
	switch {
	case !ok:
		return known{}, fmt.Sprintf("plugin %q does not exist", p.Name)
	case k.plugin == pb.Plugin_PLUGIN_UNSPECIFIED && !alwaysOn(p.Name):
		return known{}, fmt.Sprintf("plugin %s is not evaluated by this version", p.Name)
	}
	if p.Weight != nil && *p.Weight != 0 {
		k.weight = int64(*p.Weight)
	}
	return k, ""
}

// point expands MultiPoint into one extension point.
func point(name string, multi []known, set configv1.PluginSet, extends func(known) bool) ([]known, *fieldError) {
	var overriding, others []known
	for i, e := range set.Enabled {
		field := fmt.Sprintf("plugins.%s.enabled[%d].name", name, i)
		k, err := enabled(e)
		if err != "" {
			return nil, &fieldError{field, err}
		}
		if !extends(k) {
			return nil, &fieldError{field, fmt.Sprintf("plugin %q does not extend %s plugin", e.Name, name)}
		}
		if has(overriding, k) || has(others, k) {
			return nil, &fieldError{field, fmt.Sprintf("plugin %q already registered", e.Name)}
		}
		if has(multi, k) {
			overriding = append(overriding, k)
		} else {
			others = append(others, k)
		}
	}
	list := overriding
	if !disabled(set, "*") {
		for _, k := range multi {
			if extends(k) && !disabled(set, k.name) && !has(overriding, k) {
				list = append(list, k)
			}
		}
	}
	return append(list, others...), nil
}

func has(list []known, k known) bool {
	return slices.ContainsFunc(list, func(l known) bool { return l.name == k.name })
}

// setPlugins puts a profile's plugin sets into effect.
func setPlugins(c *compile.ProfileConfig, sets *configv1.Plugins) *fieldError {
	multi, err := multiPoint(sets.MultiPoint)
	if err != nil {
		return err
	}
	filters, err := point("filter", multi, sets.Filter, func(k known) bool { return k.filter })
	if err != nil {
		return err
	}
	scores, err := point("score", multi, sets.Score, func(k known) bool { return k.score })
	if err != nil {
		return err
	}
	c.Filters, c.Scores = nil, nil
	for _, k := range filters {
		c.Filters = append(c.Filters, k.plugin)
	}
	for _, k := range scores {
		c.Scores = append(c.Scores, compile.PluginWeight{Plugin: k.plugin, Weight: k.weight})
	}
	return otherPoints(sets)
}

// otherPoints refuses plugins at points that this scheduler runs none at.
func otherPoints(sets *configv1.Plugins) *fieldError {
	for _, p := range []struct {
		name string
		set  configv1.PluginSet
	}{
		{"preEnqueue", sets.PreEnqueue}, {"queueSort", sets.QueueSort}, {"preFilter", sets.PreFilter}, {"postFilter", sets.PostFilter},
		{"preScore", sets.PreScore}, {"reserve", sets.Reserve}, {"permit", sets.Permit}, {"preBind", sets.PreBind},
		{"bind", sets.Bind}, {"postBind", sets.PostBind},
	} {
		for i, e := range p.set.Enabled {
			if _, err := enabled(e); err != "" {
				return &fieldError{fmt.Sprintf("plugins.%s.enabled[%d].name", p.name, i), err}
			}
		}
	}
	return nil
}
