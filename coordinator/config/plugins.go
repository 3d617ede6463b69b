package config

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// point is an extension point. They are in the order in which upstream looks at them,
// which decides the first of several errors.
type point int

const (
	preFilter point = iota
	filter
	postFilter
	reserve
	preScore
	score
	preBind
	bind
	postBind
	permit
	preEnqueue
	queueSort
	placementGenerate
	placementScore
	numPoints
)

// field is the point's name in the file; kind is that of upstream's interface, which
// errors use.
func (p point) field() string { return pointNames(p)[0] }
func (p point) kind() string  { return pointNames(p)[1] }

func pointNames(p point) [2]string {
	return [numPoints][2]string{
		{"preFilter", "PreFilterPlugin"}, {"filter", "FilterPlugin"}, {"postFilter", "PostFilterPlugin"}, {"reserve", "ReservePlugin"},
		{"preScore", "PreScorePlugin"}, {"score", "ScorePlugin"}, {"preBind", "PreBindPlugin"}, {"bind", "BindPlugin"},
		{"postBind", "PostBindPlugin"}, {"permit", "PermitPlugin"}, {"preEnqueue", "PreEnqueuePlugin"}, {"queueSort", "QueueSortPlugin"},
		{"placementGenerate", "PlacementGeneratePlugin"}, {"placementScore", "PlacementScorePlugin"},
	}[p]
}

// of is the point's set.
func (p point) of(s *configv1.Plugins) *configv1.PluginSet {
	return [numPoints]*configv1.PluginSet{
		&s.PreFilter, &s.Filter, &s.PostFilter, &s.Reserve, &s.PreScore, &s.Score, &s.PreBind, &s.Bind,
		&s.PostBind, &s.Permit, &s.PreEnqueue, &s.QueueSort, &s.PlacementGenerate, &s.PlacementScore,
	}[p]
}

// points is a set of points.
type points uint

func at(list ...point) points {
	var set points
	for _, p := range list {
		set |= 1 << p
	}
	return set
}

func (s points) has(p point) bool { return s&(1<<p) != 0 }

// plugin is one of upstream's in-tree plugins.
type plugin struct {
	name string
	// points are those that it implements.
	points points
	// weight is that of the default list; 0: none is given there.
	weight int32
	// optional: not in the default list, for its feature gate is off, or it is ours.
	optional bool
	// table is its name in queries; unspecified: it has none.
	table pb.Plugin
	// loop: the scheduling loop and the queue are what it stands for.
	loop bool
	// guest: it is none of upstream's, and its points are not known.
	guest bool
}

// catalogue is the plugins that there are: upstream's, and guests by name. What points a guest is at
// is known when it is made.
type catalogue map[string]struct{}

// find is the plugin of a name.
func (c catalogue) find(name string) (plugin, bool) {
	if p, ok := find(name); ok {
		return p, true
	}
	_, ok := c[name]
	return plugin{name: name, guest: ok}, ok
}

// in are the guests that any set enables, by name.
func (c catalogue) in(s *configv1.Plugins) []string {
	return slices.DeleteFunc(sets.List(named(s)), func(name string) bool {
		p, _ := c.find(name)
		return !p.guest
	})
}

// evaluated tells whether this version does what the plugin does. Not every plugin that
// upstream scores by need be one that tables score by: VolumeBinding's score is 0 on every node without a
// feature gate that is off.
func (p plugin) evaluated() bool {
	able := tables()
	return p.loop || able.filters(p.table) || able.scores(p.table)
}

// evaluators are the plugins that tables can evaluate.
type evaluators struct{ compile.ProfileConfig }

// tables are the evaluators that there are: the compiler names all.
func tables() evaluators { return evaluators{compile.Evaluated()} }

func (e evaluators) filters(p pb.Plugin) bool { return slices.Contains(e.Filters, p) }

func (e evaluators) scores(p pb.Plugin) bool {
	return slices.ContainsFunc(e.Scores, func(s compile.PluginWeight) bool { return s.Plugin == p })
}

// inTree are upstream's plugins, and ours that are listed by name, in the order of its default list (default_plugins.go, with
// the feature gates of 1.36; points as each plugin implements them).
func inTree() []plugin {
	return []plugin{
		{name: "SchedulingGates", points: at(preEnqueue), loop: true},
		{name: "PrioritySort", points: at(queueSort), loop: true},
		{name: "NodeUnschedulable", points: at(filter), table: pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE},
		{name: "NodeName", points: at(filter), table: pb.Plugin_PLUGIN_NODE_NAME},
		{name: "TaintToleration", points: at(filter, preScore, score), weight: 3, table: pb.Plugin_PLUGIN_TAINT_TOLERATION},
		{name: "NodeAffinity", points: at(preFilter, filter, preScore, score), weight: 2, table: pb.Plugin_PLUGIN_NODE_AFFINITY},
		{name: "NodePorts", points: at(preFilter, filter), table: pb.Plugin_PLUGIN_NODE_PORTS},
		{name: "NodeResourcesFit", points: at(preFilter, filter, preScore, score, placementScore), weight: 1, table: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT},
		{name: "VolumeRestrictions", points: at(preFilter, filter), table: pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS},
		{name: "NodeVolumeLimits", points: at(preFilter, filter), table: pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS},
		{name: "VolumeBinding", points: at(preFilter, filter, preScore, score, reserve, preBind), table: pb.Plugin_PLUGIN_VOLUME_BINDING},
		{name: "VolumeZone", points: at(preFilter, filter), table: pb.Plugin_PLUGIN_VOLUME_ZONE},
		{name: "PodTopologySpread", points: at(preFilter, filter, preScore, score), weight: 2, table: pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD},
		{name: "InterPodAffinity", points: at(preFilter, filter, preScore, score), weight: 2, table: pb.Plugin_PLUGIN_INTER_POD_AFFINITY},
		{name: "DynamicResources", points: at(preEnqueue, preFilter, filter, postFilter, score, reserve, preBind), weight: 2},
		{name: defaultPreemption, points: at(preEnqueue, postFilter), loop: true},
		{name: "NodeResourcesBalancedAllocation", points: at(preScore, score), weight: 1, table: pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION},
		{name: "ImageLocality", points: at(score), weight: 1, table: pb.Plugin_PLUGIN_IMAGE_LOCALITY},
		{name: "DefaultBinder", points: at(bind), loop: true},
		{name: "NodeDeclaredFeatures", points: at(preFilter, filter), table: pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES},
		{name: celFilter, points: at(filter), optional: true, table: pb.Plugin_PLUGIN_CEL_FILTER},
		{name: celScore, points: at(score), optional: true, table: pb.Plugin_PLUGIN_CEL_SCORE},
		{name: "GangScheduling", points: at(preEnqueue, permit), optional: true},
		{name: "TopologyPlacementGenerator", points: at(placementGenerate), optional: true},
		{name: "PodGroupPodsCount", points: at(placementScore), optional: true},
	}
}

const defaultPreemption = "DefaultPreemption"

// find is the plugin of a name.
func find(name string) (plugin, bool) {
	all := inTree()
	i := slices.IndexFunc(all, func(p plugin) bool { return p.name == name })
	if i < 0 {
		return plugin{}, false
	}
	return all[i], true
}

// defaultSet is the default list.
func defaultSet() configv1.PluginSet {
	var set configv1.PluginSet
	for _, p := range inTree() {
		if p.optional {
			continue
		}
		entry := configv1.Plugin{Name: p.name}
		if p.weight != 0 {
			entry.Weight = &p.weight
		}
		set.Enabled = append(set.Enabled, entry)
	}
	return set
}

// isRemoved tells of plugins that upstream once had.
func isRemoved(name string) bool {
	return slices.Contains([]string{"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"}, name)
}
