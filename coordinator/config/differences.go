package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
)

// Difference is a field that is not as in the default configuration. The values are JSON; empty: there is none.
type Difference struct{ Field, Default, Value string }

// Differences are the fields in which the configuration, completed and without secrets, is not as the default one, sorted. A profile
// is held against the default one: a plugin by the points at which it runs, its arguments field by field. Extenders are left out.
func (c *Config) Differences() []Difference {
	ours, base := c.flat(), defaultUnder(c.gates).flat()
	list := differences("", base.fields, ours.fields)
	for name, p := range ours.profiles {
		list = append(list, differences("profiles["+name+"].", base.profiles["default-scheduler"], p)...)
	}
	slices.SortFunc(list, func(a, b Difference) int { return strings.Compare(a.Field, b.Field) })
	return list
}

func differences(prefix string, base, ours map[string]string) (list []Difference) {
	all := maps.Clone(base)
	maps.Copy(all, ours)
	for field := range all {
		if base[field] != ours[field] {
			list = append(list, Difference{prefix + field, base[field], ours[field]})
		}
	}
	return list
}

// flatConfig is a configuration as values by field, those of each profile by its name.
type flatConfig struct {
	fields   map[string]string
	profiles map[string]map[string]string
}

func (c *Config) flat() flatConfig {
	whole := c.Public()
	f := flatConfig{map[string]string{}, map[string]map[string]string{}}
	for i, p := range c.Expanded() {
		fields := map[string]string{}
		for name, points := range pointsOf(&p) {
			fields["plugins["+name+"]"] = points
		}
		for _, args := range whole.Profiles[i].PluginConfig {
			flatten(fields, "pluginConfig["+args.Name+"]", value(args.Args))
		}
		flatten(fields, "percentageOfNodesToScore", value(whole.Profiles[i].PercentageOfNodesToScore))
		f.profiles[*p.SchedulerName] = fields
	}
	whole.Profiles, whole.Extenders = nil, nil
	flatten(f.fields, "", value(whole))
	return f
}

// pointsOf tells of each plugin of a profile at which points it runs, with the weight of its score.
func pointsOf(p *configv1.KubeSchedulerProfile) map[string]string {
	points := map[string][]string{}
	for at := range framework.NumPoints {
		for _, e := range at.Of(p.Plugins).Enabled {
			text := at.Field()
			if e.Weight != nil {
				text += fmt.Sprintf(" %d", *e.Weight)
			}
			points[e.Name] = append(points[e.Name], text)
		}
	}
	out := map[string]string{}
	for name, list := range points {
		out[name] = strings.Join(list, ", ")
	}
	return out
}

// value is something as JSON has it.
func value(x any) (out any) {
	text, err := json.Marshal(x)
	if err != nil || json.Unmarshal(text, &out) != nil {
		return nil // what was read can be written
	}
	return out
}

// flatten takes the leaves of a value in. A list is one leaf.
func flatten(into map[string]string, field string, x any) {
	if m, ok := x.(map[string]any); ok {
		for name, inner := range m {
			if name == "kind" || name == "apiVersion" {
				continue
			}
			if field == "" {
				flatten(into, name, inner)
			} else {
				flatten(into, field+"."+name, inner)
			}
		}
		return
	}
	if x != nil {
		text, _ := json.Marshal(x) // it came from JSON
		into[field] = string(text)
	}
}
