package rules

import (
	"maps"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NewProfile makes a profile that pods are compiled by. Arguments that c leaves out have their defaults.
func NewProfile(c compile.ProfileConfig) (*compile.Profile, error) {
	c.Arguments = maps.Clone(c.Arguments)
	for _, r := range All() {
		if _, given := c.Arguments[r.Plugin]; !given && r.Arguments != nil && r.Arguments.give == nil {
			args := r.Arguments.Empty()
			r.Arguments.Complete(args)
			r.Give(&c, args)
		}
	}
	return compile.NewProfile(c, parts())
}

// parts are those of the rules that tables evaluate.
func parts() (list []compile.Part) {
	for _, r := range All() {
		if r.Plugin != pb.Plugin_PLUGIN_UNSPECIFIED {
			list = append(list, r.Part)
		}
	}
	return list
}

// DefaultConfig is upstream's default profile, as far as tables evaluate it.
func DefaultConfig(name string) compile.ProfileConfig {
	c := compile.ProfileConfig{Name: name, GatesPreemptors: true,
		PodGroups: compile.PodGroupPlugins{Gates: true, Counts: true, Proposes: true, PodsCount: 1, Fit: 1}}
	for _, r := range All() {
		if !r.InDefault(groups.Gates{}) {
			continue
		}
		if r.Plugin.Filters() {
			c.Filters = append(c.Filters, r.Plugin)
		}
		if r.Plugin.Scores() {
			c.Scores = append(c.Scores, compile.PluginWeight{Plugin: r.Plugin, Weight: int64(r.Weight)})
		}
		if r.At(framework.PreFilter) {
			c.PreFilters = append(c.PreFilters, r.Name)
		}
		if r.At(framework.PostFilter) {
			c.PostFilters = append(c.PostFilters, r.Name)
		}
	}
	return c
}

// DefaultProfile is the profile of DefaultConfig.
func DefaultProfile(name string) *compile.Profile {
	p, err := NewProfile(DefaultConfig(name))
	if err != nil {
		panic(err) // the default is ours and a test holds it
	}
	return p
}
