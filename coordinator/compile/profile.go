package compile

import (
	"fmt"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// ProfileConfig is what a profile is made of. The arguments are upstream's own;
// what they leave out takes upstream's default.
type ProfileConfig struct {
	// Name is the schedulerName that pods ask for.
	Name string
	// Filters are the filter plugins, in the order in which they run.
	Filters []pb.Plugin
	// Scores are the score plugins in order. A weight of 0 stands for 1.
	Scores           []PluginWeight
	NodeAffinity     configv1.NodeAffinityArgs
	Fit              configv1.NodeResourcesFitArgs
	Balanced         configv1.NodeResourcesBalancedAllocationArgs
	Spread           configv1.PodTopologySpreadArgs
	InterPodAffinity configv1.InterPodAffinityArgs
	VolumeBinding    configv1.VolumeBindingArgs
	DynamicResources configv1.DynamicResourcesArgs
	Preemption       configv1.DefaultPreemptionArgs
	CELFilter        CELFilterArgs
	CELScore         CELScoreArgs
	// Arguments are those of plugins without a field above.
	Arguments map[pb.Plugin]runtime.Object
	// IgnoresGates says that scheduling gates hold no pod back.
	IgnoresGates bool
	// PreFilters and PostFilters name the plugins of these points, in order. Of the former only
	// the order counts, for what the latter tell.
	PreFilters, PostFilters []string
	// GatesPreemptors says that a pod is not tried while its victims are told to leave.
	GatesPreemptors bool
	// PodGroups is what the profile has for pods that name a PodGroup.
	PodGroups PodGroupPlugins
}

// PodGroupPlugins are upstream's plugins for pod groups, as far as a profile has them.
type PodGroupPlugins struct {
	// Gates: pods of a gang are held back until there are as many as it needs (GangScheduling at preEnqueue).
	Gates bool
	// Counts: a gang of which fewer pods fit than it needs is not placed (GangScheduling at permit).
	Counts bool
	// Proposes: each domain of a PodGroup's topology is tried (TopologyPlacementGenerator at placementGenerate).
	Proposes bool
	// PodsCount and Fit are the weights of PodGroupPodsCount and NodeResourcesFit at placementScore; 0: it is not there.
	PodsCount, Fit int64
}

// PluginWeight is a score plugin with what its score counts.
type PluginWeight struct {
	Plugin pb.Plugin
	Weight int64
}

// Profile is a ProfileConfig checked and made ready. It is immutable.
type Profile struct {
	name    string
	filters []pb.Plugin
	scores  []*pb.ScoreWeight

	added     *pb.NodeSelector    // addedAffinity's required terms; nil: none
	preferred []*pb.PreferredTerm // addedAffinity's preferred terms

	ignored, ignoredGroups sets.Set[string]
	scoring                pb.ScoringType
	shape                  []*pb.ShapePoint
	fitResources           []*pb.ScoredResource // without requests
	balancedResources      []*pb.ScoredResource // without requests

	// defaults are the constraints of pods that have none; systemDefaults tells that they
	// are upstream's.
	defaults       []v1.TopologySpreadConstraint
	systemDefaults bool
	// hardAffinityWeight is what the required affinity term of another pod counts for.
	hardAffinityWeight int64
	// ignorePreferred leaves out the scores of pods without preferred terms.
	ignorePreferred bool

	ignoresGates bool
	preFilters   []string
	postFilters  []string
	gatesPreempt bool
	podGroups    PodGroupPlugins

	minCandidatesPercent, minCandidates int
	bindTimeout, devicesTimeout         time.Duration
	cel                                 *celProfile // nil: there are no expressions
	addedSelector                       *nodeaffinity.NodeSelector
	addedTerms                          *v1.NodeSelector
	defaultHard                         []v1.TopologySpreadConstraint

	parts   map[pb.Plugin]*Part
	written []written
}

// How long claims of volumes and of devices are waited for where nothing else is said, as upstream's.
const (
	defaultBindTimeout    = 10 * time.Minute
	defaultDevicesTimeout = 10 * time.Minute
)

// How many candidates for preemption extenders are shown where nothing else is said, as upstream's.
const (
	defaultMinCandidatesPercent = 10
	defaultMinCandidates        = 100
)

// Name is the schedulerName that pods ask for.
func (p *Profile) Name() string { return p.name }

// Scores are the score plugins in order with their weights. The caller must not
// change them.
func (p *Profile) Scores() []*pb.ScoreWeight { return p.scores }

// FiltersBy tells whether a plugin is among the filters.
func (p *Profile) FiltersBy(plugin pb.Plugin) bool { return slices.Contains(p.filters, plugin) }

// scoresBy tells whether a plugin is among the scores.
func (p *Profile) scoresBy(plugin pb.Plugin) bool {
	return slices.ContainsFunc(p.scores, func(s *pb.ScoreWeight) bool { return s.Plugin == plugin })
}

// BindTimeout is how long VolumeBinding waits for a pod's claims to be bound.
func (p *Profile) BindTimeout() time.Duration { return p.bindTimeout }

// BindsVolumes tells whether VolumeBinding is in use: it chooses volumes for claims with the
// node, and has them bound before the pod is.
func (p *Profile) BindsVolumes() bool { return p.FiltersBy(pb.Plugin_PLUGIN_VOLUME_BINDING) }

// AllocatesDevices tells whether DynamicResources is in use: claims of devices are allocated with the node.
func (p *Profile) AllocatesDevices() bool {
	return p.FiltersBy(pb.Plugin_PLUGIN_DYNAMIC_RESOURCES)
}

// DevicesTimeout is how long devices of a pod's claims may take to become ready.
func (p *Profile) DevicesTimeout() time.Duration { return p.devicesTimeout }

// IgnoresGates tells whether pods are tried whatever their scheduling gates.
func (p *Profile) IgnoresGates() bool { return p.ignoresGates }

// PostFilters are the plugins that are asked where a pod fits nowhere, in order. The caller must
// not change them.
func (p *Profile) PostFilters() []string { return p.postFilters }

// Candidates is how many candidates for preemption extenders are shown, of so many nodes that were
// tried (upstream: calculateNumCandidates).
func (p *Profile) Candidates(tried int) int {
	return min(max(tried*p.minCandidatesPercent/100, p.minCandidates), tried)
}

// GatesPreemptors tells whether a pod is not tried while its victims are told to leave.
func (p *Profile) GatesPreemptors() bool { return p.gatesPreempt }

// ScoredResources are the resources that NodeResourcesFit scores, with their weights and without requests.
func (p *Profile) ScoredResources() []*pb.ScoredResource { return p.fitResources }

// PodGroups is what the profile has for pods that name a PodGroup.
func (p *Profile) PodGroups() PodGroupPlugins { return p.podGroups }

// Prepares tells whether the PreFilter of a plugin has run where those of others have ended the
// attempt: of several, the last one did.
func (p *Profile) Prepares(plugin string, ended []string) bool {
	at := slices.Index(p.preFilters, plugin)
	last := -1
	for _, name := range ended {
		last = max(last, slices.Index(p.preFilters, name))
	}
	return at >= 0 && (last < 0 || at < last)
}

// AddedAffinity is the required part of addedAffinity; nil: there is none.
func (p *Profile) AddedAffinity() *nodeaffinity.NodeSelector { return p.addedSelector }

// AddedTerms is AddedAffinity as the configuration has it. The caller must not change it.
func (p *Profile) AddedTerms() *v1.NodeSelector { return p.addedTerms }

// DefaultHardConstraints are the constraints with DoNotSchedule of pods that have no
// constraints, without selectors. The caller must not change them.
func (p *Profile) DefaultHardConstraints() []v1.TopologySpreadConstraint { return p.defaultHard }

// uses tells whether a plugin is among the filters or the scores.
func (p *Profile) uses(plugin pb.Plugin) bool { return p.FiltersBy(plugin) || p.scoresBy(plugin) }

// NewProfile checks a configuration and makes a profile of it. parts are those of all plugins that there are.
func NewProfile(c ProfileConfig, parts []Part) (*Profile, error) {
	p := &Profile{name: c.Name, ignoresGates: c.IgnoresGates, ignored: sets.New(c.Fit.IgnoredResources...),
		ignoredGroups: sets.New(c.Fit.IgnoredResourceGroups...)}
	p.preFilters, p.postFilters, p.gatesPreempt = slices.Clone(c.PreFilters), slices.Clone(c.PostFilters), c.GatesPreemptors
	p.podGroups = c.PodGroups
	p.bindTimeout, p.devicesTimeout = defaultBindTimeout, defaultDevicesTimeout
	p.minCandidatesPercent, p.minCandidates = defaultMinCandidatesPercent, defaultMinCandidates
	if n := c.Preemption.MinCandidateNodesPercentage; n != nil {
		p.minCandidatesPercent = int(*n)
	}
	if n := c.Preemption.MinCandidateNodesAbsolute; n != nil {
		p.minCandidates = int(*n)
	}
	if t := c.VolumeBinding.BindTimeoutSeconds; t != nil {
		p.bindTimeout = time.Duration(*t) * time.Second
	}
	if t := c.DynamicResources.BindingTimeout; t != nil {
		p.devicesTimeout = t.Duration
	}
	for _, step := range []func(*ProfileConfig) error{p.setPlugins, p.setAdded, p.setFit, p.setBalanced, p.setSpread,
		p.setInterPodAffinity, p.setCEL} {
		if err := step(&c); err != nil {
			return nil, fmt.Errorf("profile %q: %w", c.Name, err)
		}
	}
	p.setParts(&c, parts)
	return p, nil
}

// setPlugins takes the plugins, each of which must be able to do what it is
// listed for.
func (p *Profile) setPlugins(c *ProfileConfig) error {
	for _, f := range c.Filters {
		if !f.Filters() || p.FiltersBy(f) {
			return fmt.Errorf("filters: %v is listed twice or filters nothing", f)
		}
		p.filters = append(p.filters, f)
	}
	total := int64(0)
	for _, s := range c.Scores {
		if !s.Plugin.Scores() || p.scoresBy(s.Plugin) {
			return fmt.Errorf("scores: %v is listed twice or scores nothing", s.Plugin)
		}
		if s.Weight == 0 {
			s.Weight = 1
		}
		if s.Weight < 0 || s.Weight > (math.MaxInt64-total)/100 {
			return fmt.Errorf("scores: weight of %v: %d is below zero or makes the total score overflow", s.Plugin, s.Weight)
		}
		total += 100 * s.Weight
		p.scores = append(p.scores, &pb.ScoreWeight{Plugin: s.Plugin, Weight: s.Weight})
	}
	return nil
}

// setAdded takes addedAffinity. Unlike a pod's, its malformed terms are an error.
func (p *Profile) setAdded(c *ProfileConfig) error {
	a := c.NodeAffinity.AddedAffinity
	if a == nil {
		return nil
	}
	if s := a.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
		parsed, err := nodeaffinity.NewNodeSelector(s)
		if err != nil {
			return fmt.Errorf("addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
		p.addedSelector, p.addedTerms = parsed, s
		p.added = nodeSelector(s)
	}
	var err error
	if p.preferred, err = preferredTerms(a.PreferredDuringSchedulingIgnoredDuringExecution); err != nil {
		return fmt.Errorf("addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: %w", err)
	}
	return nil
}

// setFit takes NodeResourcesFit's scoring strategy.
func (p *Profile) setFit(c *ProfileConfig) error {
	s := c.Fit.ScoringStrategy
	if s == nil {
		s = &configv1.ScoringStrategy{}
	}
	switch s.Type {
	case "", configv1.LeastAllocated:
		p.scoring = pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED
	case configv1.MostAllocated:
		p.scoring = pb.ScoringType_SCORING_TYPE_MOST_ALLOCATED
	case configv1.RequestedToCapacityRatio:
		p.scoring = pb.ScoringType_SCORING_TYPE_REQUESTED_TO_CAPACITY_RATIO
	default:
		return fmt.Errorf("scoringStrategy.type: scoring strategy %s is not supported", s.Type)
	}
	var err error
	if p.fitResources, err = resourceSpecs(s.Resources, 100); err != nil {
		return fmt.Errorf("scoringStrategy.%w", err)
	}
	if p.scoring != pb.ScoringType_SCORING_TYPE_REQUESTED_TO_CAPACITY_RATIO {
		return nil
	}
	if s.RequestedToCapacityRatio == nil || len(s.RequestedToCapacityRatio.Shape) == 0 {
		return fmt.Errorf("scoringStrategy.requestedToCapacityRatio.shape: at least one point must be specified")
	}
	if p.shape, err = shapePoints(s.RequestedToCapacityRatio.Shape); err != nil {
		return fmt.Errorf("scoringStrategy.requestedToCapacityRatio.%w", err)
	}
	return nil
}

// setBalanced takes the resources that NodeResourcesBalancedAllocation balances.
func (p *Profile) setBalanced(c *ProfileConfig) (err error) {
	p.balancedResources, err = resourceSpecs(c.Balanced.Resources, 1)
	return err
}

// setSpread takes the default constraints.
func (p *Profile) setSpread(c *ProfileConfig) error {
	switch kind := c.Spread.DefaultingType; {
	case kind == "" || kind == configv1.SystemDefaulting:
		if len(c.Spread.DefaultConstraints) > 0 {
			return fmt.Errorf("defaultConstraints: expected none with defaultingType %s", configv1.SystemDefaulting)
		}
		p.defaults, p.systemDefaults = systemDefaults(), true
	case kind == configv1.ListDefaulting:
		p.defaults = c.Spread.DefaultConstraints
		for _, d := range p.defaults {
			if d.WhenUnsatisfiable == v1.DoNotSchedule {
				p.defaultHard = append(p.defaultHard, d)
			}
		}
	default:
		return fmt.Errorf("defaultingType: expected %s or %s, got %q", configv1.SystemDefaulting, configv1.ListDefaulting, kind)
	}
	return nil
}

// systemDefaults are upstream's default constraints.
func systemDefaults() []v1.TopologySpreadConstraint {
	return []v1.TopologySpreadConstraint{
		{TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 3},
		{TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 5},
	}
}

// setInterPodAffinity takes what other pods' terms count for.
func (p *Profile) setInterPodAffinity(c *ProfileConfig) error {
	p.hardAffinityWeight = 1
	if w := c.InterPodAffinity.HardPodAffinityWeight; w != nil {
		p.hardAffinityWeight = int64(*w)
	}
	if p.hardAffinityWeight < 0 || p.hardAffinityWeight > 100 {
		return fmt.Errorf("hardPodAffinityWeight: %d is not between 0 and 100", p.hardAffinityWeight)
	}
	p.ignorePreferred = c.InterPodAffinity.IgnorePreferredTermsOfExistingPods
	return nil
}

// resourceSpecs checks the resources of a strategy; without any, cpu and memory
// are taken.
func resourceSpecs(list []configv1.ResourceSpec, maxWeight int64) ([]*pb.ScoredResource, error) {
	if len(list) == 0 {
		list = []configv1.ResourceSpec{{Name: string(v1.ResourceCPU)}, {Name: string(v1.ResourceMemory)}}
	}
	seen := sets.Set[string]{}
	out := make([]*pb.ScoredResource, 0, len(list))
	for i, r := range list {
		if r.Weight == 0 {
			r.Weight = 1
		}
		if r.Weight < 1 || r.Weight > maxWeight {
			return nil, fmt.Errorf("resources[%d].weight: %d is not between 1 and %d", i, r.Weight, maxWeight)
		}
		if r.Name == "" || !usable(r.Name) {
			return nil, fmt.Errorf("resources[%d].name: expected a resource, got %q", i, r.Name)
		}
		if seen.Has(r.Name) {
			return nil, fmt.Errorf("resources[%d].name: duplicate %q", i, r.Name)
		}
		seen.Insert(r.Name)
		out = append(out, &pb.ScoredResource{Name: r.Name, Weight: r.Weight})
	}
	return out, nil
}

// shapePoints checks the points of a broken line; a configured score of up to 10
// becomes one of up to 100.
func shapePoints(points []configv1.UtilizationShapePoint) ([]*pb.ShapePoint, error) {
	out := make([]*pb.ShapePoint, 0, len(points))
	for i, s := range points {
		switch {
		case s.Utilization < 0 || s.Utilization > 100:
			return nil, fmt.Errorf("shape[%d].utilization: %d is not between 0 and 100", i, s.Utilization)
		case i > 0 && s.Utilization <= points[i-1].Utilization:
			return nil, fmt.Errorf("shape[%d].utilization: utilization values must be sorted in increasing order", i)
		case s.Score < 0 || s.Score > 10:
			return nil, fmt.Errorf("shape[%d].score: %d is not between 0 and 10", i, s.Score)
		}
		out = append(out, &pb.ShapePoint{Utilization: int64(s.Utilization), Score: 10 * int64(s.Score)})
	}
	return out, nil
}
