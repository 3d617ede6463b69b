package compile

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// spreading is PodTopologySpread's part of a plan.
type spreading struct {
	hard, soft []constraint
	// defaults: the constraints are the profile's, with a selector of the setting.
	defaults bool
	// requireAll: nodes without all of the soft constraints' labels are not scored.
	requireAll bool
	// hardErr and softErr are upstream's errors for constraints of either kind.
	hardErr, softErr error
	// keys are the topology keys and matchKeys the labels of the pod that are part of its
	// constraints: sorted, each once. shape is what the nodes make of keys.
	keys, matchKeys []string
	shape           count.Shape
}

// constraint is a topologySpreadConstraint.
type constraint struct {
	key                 string
	maxSkew, minDomains int32
	honourAffinity      bool
	honourTaints        bool
	selector            *selector.Selector // nil: the setting's
	matchKeys           []string
}

// noLabel is a key that no node has a label of.
const noLabel = "/"

// planSpread is PodTopologySpread's PreFilter and PreScore.
func (o *outline) planSpread(p *v1.Pod) {
	o.spread = compileSpread(p, o.prof)
	o.refuse(pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, nil, o.spread.hardErr)
	o.refuseScore(pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, o.spread.softErr)
}

// compileSpread sorts a pod's constraints, or the profile's where it has none.
func compileSpread(p *v1.Pod, prof *Profile) spreading {
	var out spreading
	list := p.Spec.TopologySpreadConstraints
	if out.defaults = len(list) == 0; out.defaults {
		list = prof.defaults
	}
	out.requireAll = !out.defaults || !prof.systemDefaults
	if prof.FiltersBy(pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD) {
		out.hard, out.hardErr = out.constraints(list, v1.DoNotSchedule)
	}
	if prof.scoresBy(pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD) {
		out.soft, out.softErr = out.constraints(list, v1.ScheduleAnyway)
	}
	out.keys, out.matchKeys = once(out.keys), once(out.matchKeys)
	if out.defaults {
		return out
	}
	if out.hardErr != nil {
		out.hardErr = fmt.Errorf("get constraints from pod: obtaining pod's hard topology spread constraints: %w", out.hardErr)
	}
	if out.softErr != nil {
		out.softErr = fmt.Errorf("calculating preScoreState: obtaining pod's soft topology spread constraints: %w", out.softErr)
	}
	return out
}

// constraints reads the constraints of one kind.
func (x *spreading) constraints(list []v1.TopologySpreadConstraint, kind v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var out []constraint
	for i := range list {
		c := &list[i]
		if c.WhenUnsatisfiable != kind {
			continue
		}
		made := constraint{
			key:            topologyKey(c.TopologyKey),
			maxSkew:        max(1, c.MaxSkew),
			minDomains:     1,
			honourAffinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor,
			honourTaints:   c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor,
		}
		if c.MinDomains != nil {
			made.minDomains = max(1, *c.MinDomains)
		}
		x.keys = append(x.keys, made.key)
		if !x.defaults {
			s, err := selector.New(c.LabelSelector)
			if err != nil {
				return nil, err
			}
			made.selector, made.matchKeys = s, c.MatchLabelKeys
			x.matchKeys = append(x.matchKeys, made.matchKeys...)
		}
		out = append(out, made)
	}
	return out, nil
}

// topologyKey is a topology key as rows know it.
func topologyKey(key string) string {
	if key == "" || !usable(key) {
		return noLabel
	}
	return key
}

// once sorts a list and leaves each text in it once.
func once(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// counted is what a constraint counts on a row; nothing where no node has its label, and where its
// selector matches no pod, or every pod: upstream counts none for an empty one. Pods that leave in a dry run of
// preemption are taken from that all the same, where the constraint is hard.
func (g *groups) counted(c *constraint, hard bool) []*pb.CounterTerm {
	s := g.selector(c)
	if s.Empty() && !hard || g.setting.absent(c.key) {
		return nil
	}
	return counters(g.registry.Spread(g.setting.pod.Namespace, s))
}

// selector is a constraint's, with its matchLabelKeys.
func (g *groups) selector(c *constraint) *selector.Selector {
	s := g.setting.selector(c)
	if len(c.matchKeys) > 0 {
		own := map[string]string{}
		for _, key := range c.matchKeys {
			if value, ok := g.setting.pod.Labels[key]; ok {
				own[key] = value
			}
		}
		s = s.And(selector.Equal(own))
	}
	return s
}

// spread is what PodTopologySpread asks; nil where it skips.
func (g *groups) spread(x *spreading) *pb.SpreadQuery {
	if x.defaults && g.setting.defaults == nil || len(x.hard)+len(x.soft) == 0 {
		return nil
	}
	q := &pb.SpreadQuery{}
	g.spreadHard(q, x)
	g.spreadSoft(q, x)
	return q
}

// spreadHard adds the hard constraints. Where no node has the label of one, no node is counted, and none
// gets past that constraint.
func (g *groups) spreadHard(q *pb.SpreadQuery, x *spreading) {
	list, keys := x.hard, keysOf(x.hard)
	if i := g.missing(list); i >= 0 {
		list, keys = list[:i+1], []string{list[i].key}
	}
	for i := range list {
		c := &list[i]
		g.setting.hard = append(g.setting.hard, g.selector(c))
		q.Hard = append(q.Hard, &pb.HardConstraint{
			Place:      g.hardPlace(c, g.among(c, keys)),
			MaxSkew:    c.maxSkew,
			MinDomains: c.minDomains,
			SelfMatch:  g.setting.selfSpread[i],
		})
	}
}

// spreadSoft adds the soft constraints. Where all of their labels are wanted and no node has one of
// them, no node is rated.
func (g *groups) spreadSoft(q *pb.SpreadQuery, x *spreading) {
	list := x.soft
	var keys []string
	if x.requireAll {
		keys = keysOf(list)
		if i := g.missing(list); i >= 0 {
			list, keys = list[i:i+1], []string{list[i].key}
		}
	}
	q.RequireAllTopologies = x.requireAll && len(list) > 0
	for i := range list {
		c := &list[i]
		q.Soft = append(q.Soft, &pb.SoftConstraint{Place: g.softPlace(c, g.among(c, keys), x.requireAll), MaxSkew: c.maxSkew})
	}
}

// missing is the first constraint of a label that no node has, else below 0.
func (g *groups) missing(list []constraint) int {
	return slices.IndexFunc(list, func(c constraint) bool { return g.setting.absent(c.key) })
}

// keysOf are the topology keys of constraints: sorted, each once.
func keysOf(list []constraint) []string {
	var out []string
	for i := range list {
		out = append(out, list[i].key)
	}
	return once(out)
}

// among is which rows a constraint counts on.
func (g *groups) among(c *constraint, keys []string) *pb.Inclusion {
	return g.inclusion(keys, c.honourTaints, c.honourAffinity && g.required)
}

func (g *groups) hardPlace(c *constraint, among *pb.Inclusion) *pb.Place {
	counts := g.counted(c, true)
	if !g.setting.unique(c.key) {
		return g.inDomain(c.key, counts, among)
	}
	return g.inRow(&pb.RowValue{TopologyKey: c.key, Counters: counts, Inclusion: among},
		&pb.Measure{By: pb.Breakdown_BREAKDOWN_VALUE, Counters: counts, Inclusion: among})
}

// softPlace looks at the row alone for the hostname, as upstream does, whatever nodes
// share one, and without an inclusion.
//
// Where nodes without the label are scored, too, they make up a domain together with
// those where it is empty. So the label's values are domains then, even where each has
// but one node.
func (g *groups) softPlace(c *constraint, among *pb.Inclusion, requireAll bool) *pb.Place {
	counts := g.counted(c, false)
	switch {
	case c.key == v1.LabelHostname:
		return g.inRow(&pb.RowValue{TopologyKey: c.key, Counters: counts}, nil)
	case requireAll && g.setting.unique(c.key):
		return g.inRow(&pb.RowValue{TopologyKey: c.key, Counters: counts, Inclusion: among}, nil)
	}
	return g.inDomain(c.key, counts, among)
}
