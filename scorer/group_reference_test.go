package scorer

import (
	"math"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// The reference for the group part: what a pod asks of the cluster as its spec says it,
// judged one node after the other over maps, as upstream's plugins do. It knows
// nothing of groups, domains in keys, row values or measures.

// groupSpec is what a pod asks of other pods. Counters stand for selectors: a row's value
// is how many of its pods match.
type groupSpec struct {
	hard, soft                          []spreadSpec
	systemDefault                       bool // the soft constraints are the system's own
	required, anti, existing, preferred []affinitySpec
	self                                bool // the pod matches its own affinity terms
	claims                              []uint32
}

type spreadSpec struct {
	key                 string
	counter             uint32 // 0: matches nothing
	maxSkew, minDomains int32
	self                bool
	affinity, taints    bool // honoured
}

type affinitySpec struct {
	key      string
	counters []*pb.CounterTerm
}

// groupNode is one node with its counters.
type groupNode struct {
	*pb.SnapshotRow
	counters map[uint32]int64
}

func (n *groupNode) label(key string) (string, bool) { return refLabel(n.Node, key) }

func (n *groupNode) sum(terms []*pb.CounterTerm) int64 {
	s := int64(0)
	for _, t := range terms {
		s += t.Weight * n.counters[t.Counter]
	}
	return s
}

// groupJudge is what the reference finds.
type groupJudge struct {
	spec  *groupSpec
	query *pb.Query
	nodes []*groupNode
	// before is the cluster when claims were counted, and at the node that has changed since; nil:
	// it has not.
	before []*groupNode
	at     int

	reasons  map[*groupNode][]Reason
	feasible []*groupNode
	// raw and normalised scores by plugin and node, and the whole score.
	raw, normalised map[pb.Plugin]map[*groupNode]int64
	total           map[*groupNode]int64
}

func judgeGroups(spec *groupSpec, q *pb.Query, nodes []*groupNode) *groupJudge {
	j := &groupJudge{
		spec: spec, query: q, nodes: nodes, reasons: map[*groupNode][]Reason{}, total: map[*groupNode]int64{},
		raw: map[pb.Plugin]map[*groupNode]int64{}, normalised: map[pb.Plugin]map[*groupNode]int64{},
	}
	for _, n := range nodes {
		if j.reasons[n] = j.filter(n); len(j.reasons[n]) == 0 {
			j.feasible = append(j.feasible, n)
		}
	}
	for _, s := range q.Scores {
		raw := map[*groupNode]int64{}
		normalised := map[*groupNode]int64{}
		switch s.Plugin {
		case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD:
			j.spread(raw, normalised)
		case pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
			j.affinity(raw, normalised)
		default:
			for _, n := range j.feasible {
				raw[n] = refScore(n.SnapshotRow, q, s.Plugin)
			}
			j.normalise(s.Plugin, raw, normalised)
		}
		for _, n := range j.feasible {
			j.total[n] += s.Weight * normalised[n]
		}
		j.raw[s.Plugin], j.normalised[s.Plugin] = raw, normalised
	}
	return j
}

func (j *groupJudge) normalise(p pb.Plugin, raw, normalised map[*groupNode]int64) {
	top := int64(0)
	for _, v := range raw {
		top = max(top, v)
	}
	for n, v := range raw {
		normalised[n] = v
		switch {
		case p == pb.Plugin_PLUGIN_TAINT_TOLERATION && top == 0:
			normalised[n] = 100
		case p == pb.Plugin_PLUGIN_TAINT_TOLERATION:
			normalised[n] = 100 - 100*v/top
		case p == pb.Plugin_PLUGIN_NODE_AFFINITY && top > 0:
			normalised[n] = 100 * v / top
		}
	}
}

func (j *groupJudge) filter(n *groupNode) []Reason {
	if j.query.Narrowed != nil && !slices.Contains(j.query.Narrowed.Names, n.Node.Name) {
		names := strings.Join(j.query.Narrowed.Plugins, " ")
		return []Reason{{names, "node(s) didn't satisfy plugin(s) [" + names + "]", true}}
	}
	for _, p := range j.query.Filters {
		var why []Reason
		switch p {
		case pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS:
			why = j.filterClaims(n)
		case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD:
			why = j.filterSpread(n)
		case pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
			why = j.filterAffinity(n)
		case pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS:
			why = refLimits(n.Node, n.counters, j.query.GetVolumeLimits())
		default:
			why = refFilter(n.SnapshotRow, j.query, p)
		}
		if len(why) > 0 {
			return why
		}
	}
	return nil
}

func (j *groupJudge) filterClaims(n *groupNode) []Reason {
	for _, disk := range j.query.GetVolumeRestrictions().GetDisks() {
		if n.counters[disk] > 0 {
			return []Reason{{"VolumeRestrictions", "node(s) had no available disk", false}}
		}
	}
	refs, before := int64(0), j.nodes
	if j.before != nil {
		before = j.before
	}
	for _, claim := range j.spec.claims {
		if slices.ContainsFunc(before, func(other *groupNode) bool { return other.counters[claim] > 0 }) {
			refs++
		}
	}
	if refs == 0 && len(j.query.GetVolumeRestrictions().GetDisks()) == 0 {
		return nil
	}
	if j.before != nil {
		for _, id := range j.query.GetVolumeRestrictions().GetNamed() {
			refs += j.nodes[j.at].counters[id] - j.before[j.at].counters[id]
		}
	}
	if refs > 0 {
		return []Reason{{"VolumeRestrictions", "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod", false}}
	}
	return nil
}

// included is upstream's node inclusion policies.
func (j *groupJudge) included(n *groupNode, c *spreadSpec) bool {
	if c.affinity {
		a := &pb.NodeAffinityQuery{NodeSelector: j.query.NodeAffinity.GetNodeSelector(), Required: j.query.NodeAffinity.GetRequired()}
		if len(refAffinity(n.Node, a)) > 0 {
			return false
		}
	}
	if c.taints {
		for _, t := range n.Node.Taints {
			if t.Effect != pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE && !refTolerated(j.query.Tolerations, t) {
				return false
			}
		}
	}
	return true
}

func hasAll(n *groupNode, list []spreadSpec) bool {
	for i := range list {
		if _, has := n.label(list[i].key); !has {
			return false
		}
	}
	return true
}

func (j *groupJudge) filterSpread(n *groupNode) []Reason {
	const text = "node(s) didn't match pod topology spread constraints"
	for i := range j.spec.hard {
		c := &j.spec.hard[i]
		value, has := n.label(c.key)
		if !has {
			return []Reason{{"PodTopologySpread", text + " (missing required label)", true}}
		}
		counts := map[string]int64{}
		for _, other := range j.nodes {
			if hasAll(other, j.spec.hard) && j.included(other, c) {
				v, _ := other.label(c.key)
				counts[v] += other.counters[c.counter]
			}
		}
		least := int64(math.MaxInt64)
		for _, v := range counts {
			least = min(least, v)
		}
		if len(counts) < int(c.minDomains) {
			least = 0
		}
		self := int64(0)
		if c.self {
			self = 1
		}
		if counts[value]+self-least > int64(c.maxSkew) {
			return []Reason{{"PodTopologySpread", text, false}}
		}
	}
	return nil
}

// around is the sum over the nodes that share a label's value with n.
func (j *groupJudge) around(n *groupNode, a *affinitySpec) (sum int64, has bool) {
	value, has := n.label(a.key)
	if !has {
		return 0, false
	}
	for _, other := range j.nodes {
		if v, ok := other.label(a.key); ok && v == value {
			sum += other.sum(a.counters)
		}
	}
	return sum, true
}

func (j *groupJudge) filterAffinity(n *groupNode) []Reason {
	met, anywhere := true, false
	for i := range j.spec.required {
		a := &j.spec.required[i]
		sum, has := j.around(n, a)
		if !has {
			return []Reason{{"InterPodAffinity", "node(s) didn't match pod affinity rules", true}}
		}
		met = met && sum > 0
		for _, other := range j.nodes {
			if _, has := other.label(a.key); has && other.sum(a.counters) > 0 {
				anywhere = true
			}
		}
	}
	if !met && (anywhere || !j.spec.self) {
		return []Reason{{"InterPodAffinity", "node(s) didn't match pod affinity rules", true}}
	}
	for i := range j.spec.anti {
		if sum, has := j.around(n, &j.spec.anti[i]); has && sum > 0 {
			return []Reason{{"InterPodAffinity", "node(s) didn't match pod anti-affinity rules", false}}
		}
	}
	for i := range j.spec.existing {
		if sum, has := j.around(n, &j.spec.existing[i]); has && sum > 0 {
			return []Reason{{"InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules", false}}
		}
	}
	return nil
}

func (j *groupJudge) affinity(raw, normalised map[*groupNode]int64) {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, n := range j.feasible {
		raw[n] = 0
		for i := range j.spec.preferred {
			if sum, has := j.around(n, &j.spec.preferred[i]); has {
				raw[n] += sum
			}
		}
		least, most = min(least, raw[n]), max(most, raw[n])
	}
	for n, v := range raw {
		normalised[n] = 0
		if most > least {
			normalised[n] = int64(float64(100) * (float64(v-least) / float64(most-least)))
		}
	}
}

func (j *groupJudge) spread(raw, normalised map[*groupNode]int64) {
	soft := j.spec.soft
	ignored := map[*groupNode]bool{}
	counts := make([]map[string]int64, len(soft))
	for i := range soft {
		counts[i] = map[string]int64{}
	}
	for _, n := range j.feasible {
		if !j.spec.systemDefault && !hasAll(n, soft) {
			ignored[n] = true
			continue
		}
		for i := range soft {
			v, _ := n.label(soft[i].key)
			counts[i][v] = 0
		}
	}
	weights := make([]float64, len(soft))
	for i := range soft {
		size := len(counts[i])
		if soft[i].key == "kubernetes.io/hostname" {
			size = len(j.feasible) - len(ignored)
		}
		weights[i] = math.Log(float64(size + 2))
	}
	for _, n := range j.nodes {
		if !j.spec.systemDefault && !hasAll(n, soft) {
			continue
		}
		for i := range soft {
			v, _ := n.label(soft[i].key)
			if _, known := counts[i][v]; known && j.included(n, &soft[i]) {
				counts[i][v] += n.counters[soft[i].counter]
			}
		}
	}
	least, most := int64(math.MaxInt64), int64(0)
	for _, n := range j.feasible {
		raw[n] = 0
		if ignored[n] {
			continue
		}
		var score float64
		for i := range soft {
			v, has := n.label(soft[i].key)
			if !has {
				continue
			}
			count := counts[i][v]
			if soft[i].key == "kubernetes.io/hostname" {
				count = n.counters[soft[i].counter]
			}
			score += float64(count)*weights[i] + float64(soft[i].maxSkew-1)
		}
		raw[n] = int64(math.Round(score))
		least, most = min(least, raw[n]), max(most, raw[n])
	}
	for _, n := range j.feasible {
		switch {
		case ignored[n]:
			normalised[n] = 0
		case most == 0:
			normalised[n] = 100
		default:
			normalised[n] = 100 * (most + least - raw[n]) / most
		}
	}
}
