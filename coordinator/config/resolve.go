package config

import (
	"fmt"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// build resolves a completed, valid configuration. written are its profiles as the file
// has them.
func (r Reader) build(doc *document, c *configv1.KubeSchedulerConfiguration, written []configv1.KubeSchedulerProfile) (*Config, error) {
	made := &Config{
		PodInitialBackoff: seconds(*c.PodInitialBackoffSeconds),
		PodMaxBackoff:     seconds(*c.PodMaxBackoffSeconds),
		LeaderElection:    *c.LeaderElection.DeepCopy(),
		ClientConnection:  c.ClientConnection,
		Profiling:         *c.EnableProfiling, ContentionProfiling: *c.EnableContentionProfiling,
		DelayCacheUntilActive: c.DelayCacheUntilActive,
		completed:             c, all: r.all, gates: r.gates,
	}
	found := problems{doc: doc}
	found.extenders(c)
	for i := range c.Profiles {
		path := fmt.Sprintf("profiles[%d]", i)
		var own *configv1.Plugins
		if i < len(written) {
			own = written[i].Plugins
		}
		p := found.profile(path, &c.Profiles[i], own, r.all)
		if p == nil {
			continue
		}
		if _, err := rules.NewProfile(p.table); err != nil {
			found.at(path, strings.TrimPrefix(err.Error(), fmt.Sprintf("profile %q: ", p.name)))
			continue
		}
		p.gates = r.gates
		made.profiles = append(made.profiles, *p)
		found.sortsAlike(path, c.Profiles, i, p.lists[framework.QueueSort])
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	if doc.sets("leaderElection.leaseDuration") {
		made.LeaseDuration = c.LeaderElection.LeaseDuration.Duration
	}
	made.notEvaluated = notEvaluated(made.profiles)
	made.noEffect = noEffect(doc, c, made.profiles, written)
	return made, nil
}

// profile resolves one profile; nil: something is wrong, and noted.
func (p *problems) profile(path string, c *configv1.KubeSchedulerProfile, written *configv1.Plugins, known known) *profile {
	all, bad := expandAll(c.Plugins, known)
	if bad != nil {
		p.at(path+".plugins."+entry(written, bad.set, bad.plugin), bad.text)
		return nil
	}
	name := *c.SchedulerName
	outOfTree := known.in(c.Plugins)
	// An out-of-tree plugin of the multi-point may be at any point: framework.NewProfile counts again.
	open := slices.ContainsFunc(outOfTree, func(name string) bool { return holds(c.Plugins.MultiPoint.Enabled, name) })
	if n := len(all[framework.QueueSort]); n != 1 && (n > 1 || !open) {
		p.at(path+".plugins.queueSort",
			fmt.Sprintf("only one queue sort plugin required for profile with scheduler name %q, but got %d", name, n))
		return nil
	}
	if len(all[framework.Bind]) == 0 && !open {
		p.at(path+".plugins.bind", fmt.Sprintf("at least one bind plugin is needed for profile with scheduler name %q", name))
		return nil
	}
	made := &profile{name: name, lists: all, all: known, outOfTree: outOfTree, table: compile.ProfileConfig{Name: name}}
	made.table.IgnoresGates = !slices.Contains(all[framework.PreEnqueue], rules.SchedulingGates)
	made.table.GatesPreemptors = slices.Contains(all[framework.PreEnqueue], rules.DefaultPreemption)
	made.table.PreFilters, made.table.PostFilters = slices.Clone(all[framework.PreFilter]), slices.Clone(all[framework.PostFilter])
	made.table.PodGroups = podGroupPlugins(all, c.Plugins)
	weight := weights(framework.Score, c.Plugins)
	for _, e := range all[framework.Filter] {
		if r := rules.Find(e); r != nil && r.Plugin.Filters() {
			made.table.Filters = append(made.table.Filters, r.Plugin)
		}
	}
	if !p.weightsOf(path, c.Plugins, written) {
		return nil
	}
	for _, e := range all[framework.Score] {
		if r := rules.Find(e); r != nil && r.Plugin.Scores() {
			made.table.Scores = append(made.table.Scores, compile.PluginWeight{Plugin: r.Plugin, Weight: weight[e]})
		}
	}
	made.setArguments(c.PluginConfig)
	return made
}

// podGroupPlugins is what a profile has for pod groups.
func podGroupPlugins(all *lists, s *configv1.Plugins) (out compile.PodGroupPlugins) {
	out.Gates = slices.Contains(all[framework.PreEnqueue], rules.GangScheduling)
	out.Counts = slices.Contains(all[framework.Permit], rules.GangScheduling)
	out.Proposes = slices.Contains(all[framework.PlacementGenerate], rules.TopologyPlacementGenerator)
	weight := weights(framework.PlacementScore, s)
	for _, name := range all[framework.PlacementScore] {
		switch name {
		case rules.PodGroupPodsCount:
			out.PodsCount = weight[name]
		case rules.NodeResourcesFit:
			out.Fit = weight[name]
		}
	}
	return out
}

// setArguments takes the arguments that are evaluated, of plugins in use.
func (p *profile) setArguments(list []configv1.PluginConfig) {
	for _, c := range list {
		if argumentsOf(c.Name) != nil && p.lists.run(c.Name) {
			rules.Find(c.Name).Give(&p.table, c.Args.Object)
		}
	}
}

// entry is where a set of the file enables a plugin, the last time.
func entry(written *configv1.Plugins, set, plugin string) string {
	path := set + ".enabled"
	for i, e := range setOf(written, set).Enabled {
		if e.Name == plugin {
			path = fmt.Sprintf("%s.enabled[%d]", set, i)
		}
	}
	return path
}

// weightsOf tells whether all weights that count can be used. Those of plugins that are off at a
// point count too, as in upstream.
//
// Differs from upstream: none is below zero. Upstream subtracts such a score, or takes the weight for
// an overflow, as the order of plugins has it.
func (p *problems) weightsOf(path string, completed, written *configv1.Plugins) bool {
	for _, at := range []framework.Point{framework.Score, framework.PlacementScore} {
		weight := weights(at, completed)
		for _, e := range slices.Concat(at.Of(completed).Enabled, completed.MultiPoint.Enabled) {
			if r := rules.Find(e.Name); r != nil && r.At(at) && weight[e.Name] < 0 {
				p.at(path+".plugins."+weightAt(written, at, e.Name), fmt.Sprintf("Invalid value: %d: must not be negative", weight[e.Name]))
				return false
			}
		}
	}
	return true
}

// weightAt is where the file gives a plugin its weight at a point.
func weightAt(written *configv1.Plugins, at framework.Point, plugin string) string {
	set := "multiPoint"
	if holds(setOf(written, at.Field()).Enabled, plugin) {
		set = at.Field()
	}
	return entry(written, set, plugin) + ".weight"
}

// sortsAlike holds a profile to the first one's arguments of the plugin that sorts the queue.
func (p *problems) sortsAlike(path string, list []configv1.KubeSchedulerProfile, i int, sort []string) {
	for _, name := range sort {
		if !sameArguments(lastArguments(list[i].PluginConfig, name), lastArguments(list[0].PluginConfig, name)) {
			p.at(path+".pluginConfig", fmt.Sprintf("different queue sort plugin args for profile %q", *list[i].SchedulerName))
		}
	}
}

// setOf is a set by its name in the file.
func setOf(s *configv1.Plugins, name string) configv1.PluginSet {
	if s == nil {
		return configv1.PluginSet{}
	}
	for p := range framework.NumPoints {
		if p.Field() == name {
			return *p.Of(s)
		}
	}
	return s.MultiPoint
}
