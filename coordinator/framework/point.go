package framework

import (
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Point is an extension point at which plugins are enabled.
type Point int

// The points, in the order in which upstream looks at them, which decides the first of several
// errors.
const (
	PreFilter Point = iota
	Filter
	PostFilter
	Reserve
	PreScore
	Score
	PreBind
	Bind
	PostBind
	Permit
	PreEnqueue
	QueueSort
	PlacementGenerate
	PlacementScore

	numPoints
)

// What else is measured like a point.
const (
	addPod           = "PreFilterExtensionAddPod"
	removePod        = "PreFilterExtensionRemovePod"
	scoreNormalize   = "ScoreExtensionNormalize"
	preBindPreFlight = "PreBindPreFlight"
	unreserve        = "Unreserve"
)

// String is the point's name in metrics.
func (p Point) String() string {
	return [numPoints]string{
		"PreFilter", "Filter", "PostFilter", "Reserve", "PreScore", "Score", "PreBind", "Bind",
		"PostBind", "Permit", "PreEnqueue", "QueueSort", "PlacementGenerate", "PlacementScore",
	}[p]
}

// kind is the name of upstream's interface, which errors use.
func (p Point) kind() string { return p.String() + "Plugin" }

// of is the point's set.
func (p Point) of(s *configv1.Plugins) *configv1.PluginSet {
	return [numPoints]*configv1.PluginSet{
		&s.PreFilter, &s.Filter, &s.PostFilter, &s.Reserve, &s.PreScore, &s.Score, &s.PreBind, &s.Bind,
		&s.PostBind, &s.Permit, &s.PreEnqueue, &s.QueueSort, &s.PlacementGenerate, &s.PlacementScore,
	}[p]
}

// implementedBy tells whether a plugin has the point's methods.
func (p Point) implementedBy(plugin fwk.Plugin) bool {
	return [numPoints]func(fwk.Plugin) bool{
		is[fwk.PreFilterPlugin], is[fwk.FilterPlugin], is[fwk.PostFilterPlugin], is[fwk.ReservePlugin],
		is[fwk.PreScorePlugin], is[fwk.ScorePlugin], is[fwk.PreBindPlugin], is[fwk.BindPlugin],
		is[fwk.PostBindPlugin], is[fwk.PermitPlugin], is[fwk.PreEnqueuePlugin], is[fwk.QueueSortPlugin],
		is[fwk.PlacementGeneratePlugin], is[fwk.PlacementScorePlugin],
	}[p](plugin)
}

func is[T fwk.Plugin](p fwk.Plugin) bool {
	_, ok := p.(T)
	return ok
}
