package scorer

import (
	"math/bits"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Standing is what becomes of a result's groups once the whole cluster is known. It
// keeps memory, and what it looked up of the result, for the next Settle.
type Standing struct {
	// Feasible is how many rows are. Failing is how many fail the pod, whatever the others say.
	//
	// Differs from upstream: it stops at the first node that fails the pod, and says what that one says.
	Feasible, Failing int
	// Groups stand beside Result.Groups.
	Groups []GroupStanding

	class  *Class
	result *Result
	epoch  uint64
	// names number the domains of each domain key; "" is 0. ids are the domains of each
	// group, one after the other; -1 where it lacks the label.
	names []map[string]int32
	ids   []int32
	// cells find a domain's cell of each measure, plus one; of so many cells.
	cells []cellIndex

	// counted are the feasible groups that have rows.
	counted []int32
	extrema [MaxKey]int64
	scored  []scoredGroups // by Class.scores

	least   []int64   // spreadFilter's
	weights []float64 // spreadScore's
	seen    []bool
	first   bool // interPodAffinityFilter's
	claimed bool // readWriteOncePod's
}

// Release keeps the standing's memory for another class, and nothing of the last one.
func (s *Standing) Release() { s.class, s.result = nil, nil }

// GroupStanding is what becomes of one group.
type GroupStanding struct {
	// Feasible tells that its rows passed every filter; Failing that they fail the pod: no filter refuses them before
	// DynamicResources, which can not judge them.
	Feasible, Failing bool
	// Score is the weighted sum of the plugins that all its rows share; 0 where
	// Result.Normalised, where the group is not feasible and where it has no rows.
	Score int64
}

type cellIndex struct {
	of    []int32
	known int
}

// scoredGroups is one group score: by group, valid for the counted ones.
type scoredGroups struct{ raw, normalised []int64 }

// Settle decides about the groups of a result that holds the whole cluster: which are
// feasible, and what they score. It allocates nothing once s has seen a result as large.
func (c *Class) Settle(r *Result, s *Standing) {
	s.lookUp(c, r)
	for i := range c.filters {
		if f := &c.filters[i]; f.group != nil {
			f.group.begin(s)
		}
	}
	s.Feasible, s.Failing, s.extrema, s.counted = 0, 0, [MaxKey]int64{}, s.counted[:0]
	for i := range r.Groups {
		g := &r.Groups[i]
		f, _ := c.refusingGroup(s, i)
		s.Groups[i] = GroupStanding{Feasible: f == nil}
		if f != nil && f.claims != nil && c.fails(g.Key.lateMark()) {
			s.Groups[i].Failing = true
			s.Failing += g.Rows
		}
		if f == nil && g.Rows > 0 {
			s.counted = append(s.counted, int32(i))
			s.Feasible += g.Rows
			for k := range s.extrema {
				s.extrema[k] = max(s.extrema[k], g.Key.Raw[k])
			}
		}
	}
	if r.Normalised {
		return
	}
	for i := range c.scores {
		s.addScores(&c.scores[i], &s.scored[i])
	}
}

// addScores adds one plugin's part to the scores of the counted groups.
func (s *Standing) addScores(term *scoreTerm, x *scoredGroups) {
	if term.key < 0 && term.group == nil {
		return
	}
	x.raw, x.normalised = scratch(x.raw, len(s.Groups)), scratch(x.normalised, len(s.Groups))
	if term.group != nil {
		term.group.score(s, x.raw, x.normalised)
	} else {
		for _, i := range s.counted {
			x.raw[i] = s.result.Groups[i].Key.Raw[term.key]
			x.normalised[i] = term.normalisation.apply(x.raw[i], s.extrema[term.key])
		}
	}
	for _, i := range s.counted {
		s.Groups[i].Score += term.weight * x.normalised[i]
	}
}

// FiltersGroups tells whether a filter of the class looks beyond the row.
func (c *Class) FiltersGroups() bool {
	for i := range c.filters {
		if c.filters[i].group != nil {
			return true
		}
	}
	return false
}

// refusingGroup is the filter that refuses a group, with its reason; nil where none does.
// A reason of -1: a late filter refuses it, Key.LateReasons tell why.
func (c *Class) refusingGroup(s *Standing, group int) (f *filterTerm, reason int) {
	late := s.result.Groups[group].Key.LateFilter
	if late == 0 && !c.group.any() {
		return nil, 0
	}
	for i := range c.filters {
		f := &c.filters[i]
		if late != 0 && f.number == late {
			return f, -1
		}
		if f.group != nil {
			if why := f.group.refusal(s, group); why >= 0 {
				return f, why
			}
		}
	}
	return nil, 0
}

// GroupReasons tells which plugin refuses a group's rows, and why, in upstream's order;
// nothing for a feasible group. s is of r, settled.
func (c *Class) GroupReasons(r *Result, s *Standing, group int) (plugin pb.Plugin, reasons []Reason) {
	f, why := c.refusingGroup(s, group)
	switch {
	case f == nil:
		return pb.Plugin_PLUGIN_UNSPECIFIED, nil
	case why >= 0:
		return f.plugin, f.group.reasons()[why : why+1]
	case f.rule == nil:
		return f.plugin, nil
	}
	all := f.rule.reasons()
	for set := r.Groups[group].Key.LateReasons; set != 0; set &= set - 1 {
		if i := bits.TrailingZeros64(set); i < len(all) {
			reasons = append(reasons, all[i])
		}
	}
	return f.plugin, reasons
}

// GroupScore is what one plugin gives all rows of a group.
type GroupScore struct {
	Plugin          pb.Plugin
	Raw, Normalised int64
	Weight          int64
}

// GroupScores gives the plugins of which GroupStanding.Score is the sum, in the order of
// Query.scores; nothing for a group that is not feasible or has no rows. s is of r,
// settled.
func (c *Class) GroupScores(r *Result, s *Standing, group int) []GroupScore {
	if r.Normalised || !s.Groups[group].Feasible || r.Groups[group].Rows == 0 {
		return nil
	}
	var out []GroupScore
	for i := range c.scores {
		if t := &c.scores[i]; t.key >= 0 || t.group != nil {
			x := &s.scored[i]
			out = append(out, GroupScore{Plugin: t.plugin, Raw: x.raw[group], Normalised: x.normalised[group], Weight: t.weight})
		}
	}
	return out
}

// lookUp finds what is new in the result: a group's domains, and a measure's cells.
func (s *Standing) lookUp(c *Class, r *Result) {
	if s.class != c || s.result != r || s.epoch != r.epoch || len(s.Groups) > len(r.Groups) {
		s.forget(c, r)
	}
	r.openMeasures(len(c.group.measures))
	for i := len(s.Groups); i < len(r.Groups); i++ {
		key := &r.Groups[i].Key
		for d := range c.group.domains {
			id := int32(-1)
			if !key.lacks(uint32(d)) {
				id = s.number(d, key.Domains[d])
			}
			s.ids = append(s.ids, id)
		}
		s.Groups = append(s.Groups, GroupStanding{})
	}
	for i := range c.group.measures {
		x, cells := &s.cells[i], r.Measures[i].Cells
		if x.known == len(cells) || c.group.measures[i].domain < 0 {
			continue
		}
		clear(x.of)
		for k := range cells {
			id := s.number(c.group.measures[i].domain, cells[k].Domain)
			for len(x.of) <= int(id) {
				x.of = append(x.of, 0)
			}
			x.of[id] = int32(k + 1)
		}
		x.known = len(cells)
	}
}

// forget empties what was looked up of another result.
func (s *Standing) forget(c *Class, r *Result) {
	s.class, s.result, s.epoch = c, r, r.epoch
	s.Groups, s.ids = s.Groups[:0], s.ids[:0]
	for len(s.names) < len(c.group.domains) {
		s.names = append(s.names, map[string]int32{})
	}
	for _, m := range s.names {
		clear(m)
		m[""] = 0
	}
	s.cells = slices.Grow(s.cells[:0], len(c.group.measures))[:len(c.group.measures)]
	for i := range s.cells {
		s.cells[i] = cellIndex{of: s.cells[i].of[:0]}
	}
	s.scored = slices.Grow(s.scored[:0], len(c.scores))[:len(c.scores)]
}

// number is the number of a domain.
func (s *Standing) number(domain int, name string) int32 {
	id, known := s.names[domain][name]
	if !known {
		id = int32(len(s.names[domain]))
		s.names[domain][name] = id
	}
	return id
}

// id is the number of a group's domain, -1 where it lacks the label.
func (s *Standing) id(domain, group int) int32 {
	return s.ids[group*len(s.class.group.domains)+domain]
}

// has tells whether a group has the label of a place.
func (s *Standing) has(p *place, group int) bool {
	if p.domain >= 0 {
		return s.id(p.domain, group) >= 0
	}
	return s.result.Groups[group].Key.Values[p.value] != NoLabel
}

// count is the number at a place: the row's own, or the sum over its domain, 0 where no
// included row is in it. Not has: the rows lack the label.
func (s *Standing) count(p *place, group int) (n int64, has bool) {
	if p.domain < 0 {
		n = s.result.Groups[group].Key.Values[p.value]
		return n, n != NoLabel
	}
	id := s.id(p.domain, group)
	if id < 0 {
		return 0, false
	}
	x := &s.cells[p.measure]
	if int(id) >= len(x.of) || x.of[id] == 0 {
		return 0, true
	}
	return s.result.Measures[p.measure].Cells[x.of[id]-1].Sum, true
}

// UnavailableClaims are the allocated claims, as bits by their indexes, that are not for the rows of a group, if no filter before
// DynamicResources refuses these. s is of a diagnosed r, settled.
func (c *Class) UnavailableClaims(r *Result, s *Standing, group int) uint64 {
	if f, _ := c.refusingGroup(s, group); f == nil || f.claims == nil {
		return 0
	}
	return r.Groups[group].Key.LateReasons >> unavailableClaim
}
