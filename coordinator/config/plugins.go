package config

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// plugin is what a configuration may name.
type plugin struct {
	*rules.Rule
	// outOfTree: it is not built in, and its points are not known.
	outOfTree bool
}

// known are the names of out-of-tree plugins, which may be named besides the built-in ones. Their points are known once they
// are made.
type known map[string]struct{}

// find is the plugin of a name.
func (k known) find(name string) (plugin, bool) {
	if r := rules.Find(name); r != nil {
		return plugin{Rule: r}, true
	}
	_, ok := k[name]
	return plugin{&rules.Rule{Name: name}, ok}, ok
}

// in are the out-of-tree plugins that any set enables, by name.
func (k known) in(s *configv1.Plugins) []string {
	return slices.DeleteFunc(sets.List(named(s)), func(name string) bool {
		p, _ := k.find(name)
		return !p.outOfTree
	})
}

// argumentsOf is the type of a plugin's arguments; nil: it takes none, or nobody knows which.
func argumentsOf(name string) *rules.Arguments {
	if r := rules.Find(name); r != nil {
		return r.Arguments
	}
	return nil
}

// defaultSet is the default list under feature gates.
func defaultSet(gates groups.Gates) configv1.PluginSet {
	var set configv1.PluginSet
	for _, r := range rules.All() {
		if !r.InDefault(gates) {
			continue
		}
		entry := configv1.Plugin{Name: r.Name}
		if r.Weight != 0 {
			entry.Weight = new(r.Weight)
		}
		set.Enabled = append(set.Enabled, entry)
	}
	return set
}

// isRemoved tells of plugins that upstream once had.
func isRemoved(name string) bool {
	return slices.Contains([]string{"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"}, name)
}
