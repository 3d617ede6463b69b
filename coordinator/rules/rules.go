package rules

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Rule is what the coordinator knows of a built-in plugin.
type Rule struct {
	// Name is the plugin's in configurations, reasons, metrics and events.
	Name string
	// Plugin is its number in queries, where tables evaluate it; unspecified: they do not.
	Plugin pb.Plugin
	// Points are the extension points that upstream's plugin has.
	Points []framework.Point
	// Weight is that of the default list; 0: it gives none.
	Weight int32
	// Optional plugins are not in the default list: their feature gate is off, or they are ours.
	Optional bool
	// Loop: the scheduling loop and the queue do what the plugin is for.
	Loop bool
	// RefusesEarly: its PreFilter refuses pods, or leaves fewer nodes. The PreFilters of others only prepare.
	RefusesEarly bool
	// Arguments are those of its entry in pluginConfig; nil: it takes none.
	Arguments *Arguments
}

// catalogue is the list. It is written here and nowhere else.
var catalogue = []*Rule{
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

// All are the built-in plugins: upstream's in the order of its default list (default_plugins.go, with the feature gates of
// 1.36), then those in no default. The caller must not change them.
func All() []*Rule { return catalogue }

// Find is the plugin of a name; nil: there is none.
func Find(name string) *Rule {
	i := slices.IndexFunc(catalogue, func(r *Rule) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return catalogue[i]
}

// At tells whether the plugin has an extension point.
func (r *Rule) At(p framework.Point) bool { return slices.Contains(r.Points, p) }

// Filters tells whether tables filter by it.
func (r *Rule) Filters() bool { return r.Plugin.Filters() }

// Scores tells whether tables score by it. Not every plugin that scores in upstream does: VolumeBinding's score is 0 on
// every node without a feature gate that is off.
func (r *Rule) Scores() bool { return r.Plugin.Scores() }

// Evaluated tells whether this version does what the plugin does.
func (r *Rule) Evaluated() bool { return r.Loop || r.Plugin != pb.Plugin_PLUGIN_UNSPECIFIED }
