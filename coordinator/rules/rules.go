package rules

import (
	"slices"
	"sync"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Rule is what the coordinator knows of a built-in plugin.
type Rule struct {
	// Name is the plugin's in configurations, reasons, metrics and events.
	Name string
	// Part is its part of queries. Where Plugin is unspecified no table evaluates it.
	compile.Part
	// Points are the extension points that upstream's plugin has.
	Points []framework.Point
	// Weight is that of the default list; 0: it gives none.
	Weight int32
	// Ours: upstream has no such plugin. Profiles have it where they list it.
	Ours bool
	// With are the feature gates of pod groups that put the plugin into the default list; nil: it is there with any.
	With func(groups.Gates) bool
	// Gate is the feature gate that takes the plugin out of all profiles where it is off; "": none does.
	Gate string
	// Loop: the scheduling loop and the queue do what the plugin is for.
	Loop bool
	// RefusesEarly: its PreFilter refuses pods, or leaves fewer nodes. The PreFilters of others only prepare.
	RefusesEarly bool
	// Hints tell what a pod waits for that the plugin has rejected, and whether it holds pods back, under profiles that may
	// be nil (upstream-1.36.md, 4.5); nil: it rejects nothing.
	Hints func(queue.Profiles) queue.Plugin
	// Words tell people what it refuses; nil: it refuses nothing.
	Words *Words
	// Arguments are those of its entry in pluginConfig; nil: it takes none.
	Arguments *Arguments
}

// All are the built-in plugins: upstream's in the order of its default list (default_plugins.go, with the feature gates of
// 1.36), then those in no default. The list is written here and nowhere else. It is made anew for each call.
func All() []*Rule {
	return []*Rule{
		schedulingGates(),
		prioritySort(),
		nodeUnschedulable(),
		nodeName(),
		taintToleration(),
		nodeAffinity(),
		nodePorts(),
		nodeResourcesFit(),
		volumeRestrictions(),
		nodeVolumeLimits(),
		volumeBinding(),
		volumeZone(),
		podTopologySpread(),
		interPodAffinity(),
		dynamicResources(),
		defaultPreemption(),
		nodeResourcesBalancedAllocation(),
		imageLocality(),
		defaultBinder(),
		nodeDeclaredFeatures(),
		celFilter(),
		celScore(),
		gangScheduling(),
		topologyPlacementGenerator(),
		podGroupPodsCount(),
	}
}

// Find is the plugin of a name, which all callers share; nil: there is none.
func Find(name string) *Rule { return byName()[name] }

// byName are the plugins by name, made once: a configuration asks for each several times.
var byName = sync.OnceValue(func() map[string]*Rule {
	out := map[string]*Rule{}
	for _, r := range All() {
		out[r.Name] = r
	}
	return out
})

// InDefault tells whether the plugin is in the default list.
func (r *Rule) InDefault(g groups.Gates) bool { return !r.Ours && r.allowed(g) }

func (r *Rule) allowed(g groups.Gates) bool { return r.With == nil || r.With(g) }

// At tells whether the plugin has an extension point.
func (r *Rule) At(p framework.Point) bool { return slices.Contains(r.Points, p) }

// Evaluated tells whether what the plugin does is done.
func (r *Rule) Evaluated(g groups.Gates) bool {
	return r.allowed(g) && (r.Loop || r.Plugin != pb.Plugin_PLUGIN_UNSPECIFIED)
}

// QueuePlugins are the plugins that reject nodes, or hold pods back, as the queue knows them.
func QueuePlugins(profiles queue.Profiles) []queue.Plugin {
	var list []queue.Plugin
	for _, r := range All() {
		if r.Hints != nil {
			p := r.Hints(profiles)
			p.Name = r.Name
			list = append(list, p)
		}
	}
	return list
}
