package config

import (
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
)

// mergePlugins lays a profile's sets over the defaults. Only the multi-point has any.
func mergePlugins(custom *configv1.Plugins, gates groups.Gates) *configv1.Plugins {
	merged := &configv1.Plugins{MultiPoint: defaultSet(gates)}
	if custom == nil {
		return merged
	}
	merged.MultiPoint = mergeSet(merged.MultiPoint.Enabled, custom.MultiPoint)
	for p := range framework.NumPoints {
		*p.Of(merged) = mergeSet(nil, *p.Of(custom))
	}
	return merged
}

// mergeSet is what is left of the defaults, each replaced in place by the custom entry of
// its name (the last, if there are several), and then the other custom entries.
func mergeSet(defaults []configv1.Plugin, custom configv1.PluginSet) configv1.PluginSet {
	var merged configv1.PluginSet
	for _, d := range custom.Disabled {
		merged.Disabled = append(merged.Disabled, configv1.Plugin{Name: d.Name})
	}
	rest := slices.Clone(custom.Enabled)
	for _, d := range defaults {
		if holds(custom.Disabled, d.Name) || holds(custom.Disabled, "*") {
			continue
		}
		for i := len(rest) - 1; i >= 0; i-- {
			if rest[i].Name == d.Name {
				d = rest[i]
				rest = slices.Delete(rest, i, i+1)
				break
			}
		}
		merged.Enabled = append(merged.Enabled, d)
	}
	merged.Enabled = append(merged.Enabled, rest...)
	return merged
}

func holds(list []configv1.Plugin, name string) bool {
	return slices.ContainsFunc(list, func(p configv1.Plugin) bool { return p.Name == name })
}

// fault is a plugin that can not be where it is listed.
type fault struct {
	set    string // its name in the file
	plugin string
	text   string
}

// missing is upstream's error of a plugin that there is none of, and where plugins come from.
func missing(kind, name string) string {
	text := fmt.Sprintf("%s %q does not exist: plugins of your own are compiled in (docs/plugins.md)", kind, clip(name))
	if name == "Coscheduling" {
		text += "; a gang plugin is in cmd/shardsched-plugins"
	}
	return text
}

// ownSet is the plugins of a point's own set, each of which must exist and implement
// the point, and stand there once.
func ownSet(p framework.Point, set configv1.PluginSet, all known) ([]string, *fault) {
	var list []string
	for _, e := range set.Enabled {
		plugin, ok := all.find(e.Name)
		switch {
		case !ok:
			return nil, &fault{p.Field(), e.Name, missing(p.Kind(), e.Name)}
		case !plugin.outOfTree && !plugin.At(p):
			return nil, &fault{p.Field(), e.Name, fmt.Sprintf("plugin %q does not extend %s plugin", e.Name, p.Kind())}
		case slices.Contains(list, e.Name):
			return nil, &fault{p.Field(), e.Name, fmt.Sprintf("plugin %q already registered as %q", e.Name, p.Kind())}
		}
		list = append(list, e.Name)
	}
	return list, nil
}

// expand adds the multi-point's plugins to a point's own, but for out-of-tree plugins: framework.NewProfile does
// that with those.
func expand(p framework.Point, own []string, set, multi configv1.PluginSet, all known) ([]string, *fault) {
	if holds(set.Disabled, "*") {
		return own, nil
	}
	var override, inherited []string
	for _, e := range multi.Enabled {
		plugin, ok := all.find(e.Name)
		switch {
		case !ok:
			return nil, &fault{"multiPoint", e.Name, missing(p.Kind(), e.Name)}
		case !plugin.At(p) || holds(set.Disabled, e.Name):
		case slices.Contains(own, e.Name):
			override = append(override, e.Name)
		case slices.Contains(inherited, e.Name):
			return nil, &fault{"multiPoint", e.Name, fmt.Sprintf("plugin %q already registered as %q", e.Name, p.Kind())}
		default:
			inherited = append(inherited, e.Name)
		}
	}
	var list, rest []string
	for _, name := range own {
		if slices.Contains(override, name) {
			list = append(list, name)
		} else {
			rest = append(rest, name)
		}
	}
	return slices.Concat(list, inherited, rest), nil
}

// lists are the plugins that run, by point, in order.
type lists [framework.NumPoints][]string

// expandAll gives every point its plugins: first each set by itself, then the
// multi-point's share.
func expandAll(s *configv1.Plugins, all known) (*lists, *fault) {
	var out lists
	var bad *fault
	for p := range framework.NumPoints {
		if out[p], bad = ownSet(p, *p.Of(s), all); bad != nil {
			return nil, bad
		}
	}
	for p := range framework.NumPoints {
		if out[p], bad = expand(p, out[p], *p.Of(s), s.MultiPoint, all); bad != nil {
			return nil, bad
		}
	}
	return &out, unexpanded(s.MultiPoint, all)
}

// unexpanded is a plugin of the multi-point that no point has looked at and that does not exist.
//
// Differs from upstream: it crashes on one.
func unexpanded(multi configv1.PluginSet, all known) *fault {
	for _, e := range multi.Enabled {
		if _, ok := all.find(e.Name); !ok {
			return &fault{"multiPoint", e.Name, missing("Plugin", e.Name)}
		}
	}
	return nil
}

// weights are those of plugins at a point where weights count, 1 where none is given. The
// point's own set goes before the multi-point.
func weights(p framework.Point, s *configv1.Plugins) map[string]int64 {
	out := map[string]int64{}
	for _, e := range slices.Concat(p.Of(s).Enabled, s.MultiPoint.Enabled) {
		if _, ok := out[e.Name]; ok {
			continue
		}
		out[e.Name] = 1
		if e.Weight != nil && *e.Weight != 0 {
			out[e.Name] = int64(*e.Weight)
		}
	}
	return out
}
