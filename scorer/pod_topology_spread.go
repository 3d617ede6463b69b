package scorer

import (
	"math"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// spreadFilter is the hard part of the plugin PodTopologySpread: no domain may have
// maxSkew pods more than the one with the fewest.
type spreadFilter struct {
	hard []hardConstraint
	why  []Reason
}

// hardConstraint is a constraint that must hold.
type hardConstraint struct {
	place
	maxSkew, minDomains, self int64
}

// The reasons of spreadFilter.
const (
	skewed = iota
	domainMissing
)

func newSpreadFilter(q *pb.Query) (groupFilter, *groupReads) {
	n := &groupReads{}
	r := &spreadFilter{}
	for _, h := range q.GetSpread().GetHard() {
		c := hardConstraint{
			place: newPlace(h.GetPlace()), maxSkew: int64(h.GetMaxSkew()), minDomains: int64(h.GetMinDomains()),
			self: int64(asInt(h.GetSelfMatch())),
		}
		n.add(c.place, true)
		r.hard = append(r.hard, c)
	}
	if len(r.hard) == 0 {
		return nil, n
	}
	const text = "node(s) didn't match pod topology spread constraints"
	plugin := PluginName(pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD)
	r.why = []Reason{
		skewed:        {plugin, text, false},
		domainMissing: {plugin, text + " (missing required label)", true},
	}
	return r, n
}

func (r *spreadFilter) reasons() []Reason { return r.why }

// begin finds the smallest count of each constraint. Too few domains make it 0.
func (r *spreadFilter) begin(s *Standing) {
	s.least = scratch(s.least, len(r.hard))
	for i := range r.hard {
		c := &r.hard[i]
		least, domains := s.result.Measures[c.measure].least()
		if domains < c.minDomains {
			least = 0
		}
		s.least[i] = least
	}
}

func (r *spreadFilter) refusal(s *Standing, group int) int {
	for i := range r.hard {
		c := &r.hard[i]
		n, has := s.count(&c.place, group)
		switch {
		case !has:
			return domainMissing
		case n+c.self-s.least[i] > c.maxSkew:
			return skewed
		}
	}
	return -1
}

// least is the smallest sum of a domain, and how many domains there are. By value, each
// row is a domain of its own.
func (m *MeasureResult) least() (least, domains int64) {
	least = math.MaxInt64
	for i := range m.Cells {
		c := &m.Cells[i]
		switch {
		case c.Rows == 0:
		case m.By == pb.Breakdown_BREAKDOWN_VALUE:
			least, domains = min(least, c.Value), domains+int64(c.Rows)
		default:
			least, domains = min(least, c.Sum), domains+1
		}
	}
	return least, domains
}

// spreadScore is the soft part of PodTopologySpread: the fewer pods a row's domains
// have, the better, and the more so the more domains there are.
type spreadScore struct {
	soft       []softConstraint
	requireAll bool
}

// softConstraint is a constraint that had better hold.
type softConstraint struct {
	place
	// hostname tells that the place is the row itself, whatever other rows are named:
	// upstream counts the pods of the node then, and takes each node for a domain.
	hostname bool
	maxSkew  int32
}

func newSpreadScore(q *pb.Query) (groupScore, *groupReads) {
	n := &groupReads{}
	r := &spreadScore{requireAll: q.GetSpread().GetRequireAllTopologies()}
	for _, s := range q.GetSpread().GetSoft() {
		c := softConstraint{place: newPlace(s.GetPlace()), maxSkew: s.GetMaxSkew()}
		c.hostname = c.value >= 0 && q.GetRowValues()[c.value].GetTopologyKey() == "kubernetes.io/hostname"
		n.add(c.place, false)
		r.soft = append(r.soft, c)
	}
	if len(r.soft) == 0 {
		return nil, n
	}
	return r, n
}

// ignored marks the raw score of groups that lack a label that they should have.
const ignored = -1

func (r *spreadScore) score(s *Standing, raw, normalised []int64) {
	r.weigh(s, raw)
	least, most := int64(math.MaxInt64), int64(0)
	for _, i := range s.counted {
		if raw[i] == ignored {
			continue
		}
		raw[i] = r.raw(s, int(i))
		least, most = min(least, raw[i]), max(most, raw[i])
	}
	for _, i := range s.counted {
		switch {
		case raw[i] == ignored:
			raw[i], normalised[i] = 0, 0
		case most == 0:
			normalised[i] = maxNodeScore
		default:
			normalised[i] = maxNodeScore * (most + least - raw[i]) / most
		}
	}
}

// weigh finds how much a pod counts under each constraint, and which groups are ignored.
func (r *spreadScore) weigh(s *Standing, raw []int64) {
	rows := 0
	for _, i := range s.counted {
		raw[i] = 0
		if r.requireAll && r.lacks(s, int(i)) {
			raw[i] = ignored
			continue
		}
		rows += s.result.Groups[i].Rows
	}
	s.weights = scratch(s.weights, len(r.soft))
	for k := range r.soft {
		c := &r.soft[k]
		size := rows
		if c.domain >= 0 {
			size = s.distinct(c.domain, raw)
		} else if !c.hostname {
			size = s.having(c.value, raw)
		}
		s.weights[k] = math.Log(float64(size + 2))
	}
}

// lacks tells whether a group lacks the label of a constraint.
func (r *spreadScore) lacks(s *Standing, group int) bool {
	return slices.ContainsFunc(r.soft, func(c softConstraint) bool { return !s.has(&c.place, group) })
}

// distinct counts the domains of a key among the groups that are not ignored. A group
// that lacks the label counts as the domain "".
func (s *Standing) distinct(domain int, raw []int64) int {
	s.seen = scratch(s.seen, len(s.names[domain]))
	clear(s.seen)
	n := 0
	for _, i := range s.counted {
		id := max(0, s.id(domain, int(i)))
		if raw[i] != ignored && !s.seen[id] {
			s.seen[id] = true
			n++
		}
	}
	return n
}

// having counts the rows that have a label that no two rows share, and the others as one.
func (s *Standing) having(value int, raw []int64) int {
	n, lacking := 0, 0
	for _, i := range s.counted {
		g := &s.result.Groups[i]
		switch {
		case raw[i] == ignored:
		case g.Key.Values[value] == NoLabel:
			lacking = 1
		default:
			n += g.Rows
		}
	}
	return n + lacking
}

// raw is a group's score before it is normalised.
func (r *spreadScore) raw(s *Standing, group int) int64 {
	var score float64
	for k := range r.soft {
		c := &r.soft[k]
		n, has := s.count(&c.place, group)
		if !has {
			continue
		}
		if c.domain >= 0 && !r.requireAll && s.id(c.domain, group) == 0 {
			n += s.result.Measures[c.measure].Missing.Sum // upstream reads no label as ""
		}
		score += float64(n)*s.weights[k] + float64(c.maxSkew-1)
	}
	return int64(math.Round(score))
}
