package framework

import (
	"strings"

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

	// NumPoints is how many there are.
	NumPoints
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
	return [NumPoints]string{
		"PreFilter", "Filter", "PostFilter", "Reserve", "PreScore", "Score", "PreBind", "Bind",
		"PostBind", "Permit", "PreEnqueue", "QueueSort", "PlacementGenerate", "PlacementScore",
	}[p]
}

// Field is the point's name in configurations.
func (p Point) Field() string {
	name := p.String()
	return strings.ToLower(name[:1]) + name[1:]
}

// Kind is the name of upstream's interface, which errors use.
func (p Point) Kind() string { return p.String() + "Plugin" }

// Of is the point's set.
func (p Point) Of(s *configv1.Plugins) *configv1.PluginSet {
	return [NumPoints]*configv1.PluginSet{
		&s.PreFilter, &s.Filter, &s.PostFilter, &s.Reserve, &s.PreScore, &s.Score, &s.PreBind, &s.Bind,
		&s.PostBind, &s.Permit, &s.PreEnqueue, &s.QueueSort, &s.PlacementGenerate, &s.PlacementScore,
	}[p]
}

// implementedBy tells whether a plugin has the point's methods.
func (p Point) implementedBy(plugin fwk.Plugin) bool {
	return [NumPoints]func(fwk.Plugin) bool{
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
