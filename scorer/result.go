package scorer

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// MaxGroups is how many groups a result holds. With more distinct keys it overflows.
const MaxGroups = 32

// Result is a class's answer over any set of tables. Results over disjoint sets add
// up by Merge, in any order and grouping, to the answer over all.
type Result struct {
	ClassID uint64
	// Rows hold a node; Feasible ones passed every filter.
	Rows, Feasible int
	// Groups are the feasible rows by key, sorted by key.
	Groups []Group
	// Overflow tells that there were more than MaxGroups keys: Groups is then empty,
	// and Extrema serves a second round.
	Overflow bool
	// Normalised tells that this is the second of two rounds: the one group has an
	// empty key, and its candidates carry the whole score.
	Normalised bool
	// Extrema are the maxima of the normalised plugins' raw scores over the feasible
	// rows, in the order of Group.Key. Without feasible rows they are 0 or missing.
	Extrema []int64
	// Reasons say why rows were refused, sorted by plugin and text. Only where asked for.
	Reasons []ReasonCount

	// limit is how many candidates a group holds.
	limit int
	spare []Candidate
}

// Group is the feasible rows with one key.
type Group struct {
	// Key is the raw score of each normalised plugin, in the order of Query.scores.
	Key []int64
	// Rows is how many feasible rows have the key.
	Rows int
	// Candidates are the best of them, best first.
	Candidates []Candidate
}

// Reset empties the result for a class, of which groups hold so many candidates. It
// keeps the memory.
func (r *Result) Reset(classID uint64, candidates int) {
	*r = Result{
		ClassID: classID,
		Groups:  r.Groups[:0],
		Extrema: r.Extrema[:0],
		Reasons: r.Reasons[:0],
		limit:   max(candidates, 0),
		spare:   r.spare[:0],
	}
}

// Merge adds the answer over other tables. It copies what it needs of o.
func (r *Result) Merge(o *Result) {
	r.limit = max(r.limit, o.limit)
	r.Rows += o.Rows
	r.Feasible += o.Feasible
	r.Normalised = r.Normalised || o.Normalised
	r.raise(o.Extrema)
	for _, c := range o.Reasons {
		r.addReason(Reason{c.Plugin, c.Text, c.Unresolvable}, c.Nodes)
	}
	if o.Overflow {
		r.overflow()
	}
	for i := range o.Groups {
		g := &o.Groups[i]
		r.addGroup(g.Key, g.Rows, g.Candidates)
	}
}

// raise takes the maxima of extrema into the result's.
func (r *Result) raise(extrema []int64) {
	for i, v := range extrema {
		if i == len(r.Extrema) {
			r.Extrema = append(r.Extrema, v)
		}
		r.Extrema[i] = max(r.Extrema[i], v)
	}
}

func (r *Result) overflow() {
	r.Overflow = true
	r.Groups = r.Groups[:0]
}

// addReason counts n more nodes for a reason.
func (r *Result) addReason(why Reason, n int) {
	i, found := slices.BinarySearchFunc(r.Reasons, why, compareReasons)
	if !found {
		r.Reasons = slices.Insert(r.Reasons, i, ReasonCount{Plugin: why.Plugin, Text: why.Text, Unresolvable: why.Unresolvable})
	}
	r.Reasons[i].Nodes += n
}

// addGroup adds rows to the group with that key; best are the best of them in order.
func (r *Result) addGroup(key []int64, rows int, best []Candidate) {
	if r.Overflow {
		return
	}
	i, found := slices.BinarySearchFunc(r.Groups, key, func(g Group, key []int64) int { return slices.Compare(g.Key, key) })
	if !found {
		if len(r.Groups) == MaxGroups {
			r.overflow()
			return
		}
		r.insertGroup(i, key)
	}
	g := &r.Groups[i]
	g.Rows += rows
	if len(g.Candidates) == 0 {
		g.Candidates = append(g.Candidates, best[:min(len(best), r.limit)]...)
		return
	}
	merged := mergeCandidates(r.spare[:0], g.Candidates, best, r.limit)
	r.spare, g.Candidates = g.Candidates[:0], merged
}

// insertGroup makes an empty group, with the memory of one that was there before.
func (r *Result) insertGroup(i int, key []int64) {
	n := len(r.Groups)
	if n < cap(r.Groups) {
		r.Groups = r.Groups[:n+1]
	} else {
		r.Groups = append(r.Groups, Group{})
	}
	g := r.Groups[n]
	copy(r.Groups[i+1:], r.Groups[i:n])
	r.Groups[i] = Group{Key: append(g.Key[:0], key...), Candidates: g.Candidates[:0]}
}

// mergeCandidates appends the best of two sorted lists to into.
func mergeCandidates(into, a, b []Candidate, limit int) []Candidate {
	for len(into) < limit && len(a) > 0 && len(b) > 0 {
		if compareCandidates(&b[0], &a[0]) < 0 {
			into, b = append(into, b[0]), b[1:]
		} else {
			into, a = append(into, a[0]), a[1:]
		}
	}
	into = append(into, a[:min(len(a), limit-len(into))]...)
	return append(into, b[:min(len(b), limit-len(into))]...)
}

// Proto is the result as a message, without timings. The tie rule's columns stay
// behind: the receiver has them.
func (r *Result) Proto() *pb.ClassResult {
	out := &pb.ClassResult{
		ClassId:  r.ClassID,
		Rows:     uint32(r.Rows),
		Feasible: uint32(r.Feasible),
		Overflow: r.Overflow,
	}
	if r.Overflow || r.Normalised {
		out.Extrema = slices.Clone(r.Extrema)
	}
	for i := range r.Groups {
		out.Groups = append(out.Groups, r.Groups[i].proto())
	}
	for _, c := range r.Reasons {
		out.Reasons = append(out.Reasons, &pb.ReasonCount{
			Plugin: c.Plugin, Reason: c.Text, Nodes: uint32(c.Nodes), Unresolvable: c.Unresolvable,
		})
	}
	return out
}

func (g *Group) proto() *pb.Group {
	n := len(g.Candidates)
	out := &pb.Group{
		Key:             slices.Clone(g.Key),
		Rows:            uint32(g.Rows),
		CandidateShards: make([]uint32, n),
		CandidateRows:   make([]uint32, n),
		CandidateScores: make([]int64, n),
	}
	for i := range g.Candidates {
		c := &g.Candidates[i]
		out.CandidateShards[i], out.CandidateRows[i], out.CandidateScores[i] = c.Shard, c.Row, c.Score
	}
	return out
}

// AddProto merges a message, of which tie looks up the tie rule's columns: they must be
// those of the generation that the message answers for. A second-round message is
// told by its extrema. Lists that do not fit together are cut to the shortest one;
// nothing in the message makes it panic.
func (r *Result) AddProto(p *pb.ClassResult, tie func(shard, row uint32) (lastDecision, nameHash uint64, name string)) {
	r.Rows += int(p.GetRows())
	r.Feasible += int(p.GetFeasible())
	r.raise(p.GetExtrema())
	r.Normalised = r.Normalised || len(p.GetExtrema()) > 0 && !p.GetOverflow()
	for _, c := range p.GetReasons() {
		r.addReason(Reason{c.GetPlugin(), c.GetReason(), c.GetUnresolvable()}, int(c.GetNodes()))
	}
	if p.GetOverflow() {
		r.overflow()
	}
	var list []Candidate
	for _, g := range p.GetGroups() {
		r.raise(g.GetKey())
		list = appendCandidates(list[:0], g, tie)
		r.addGroup(g.GetKey(), int(g.GetRows()), list)
	}
}

// appendCandidates appends a group's candidates, best first.
func appendCandidates(into []Candidate, g *pb.Group, tie func(shard, row uint32) (uint64, uint64, string)) []Candidate {
	n := min(len(g.GetCandidateShards()), len(g.GetCandidateRows()), len(g.GetCandidateScores()))
	into = slices.Grow(into, n)
	for i := range n {
		c := Candidate{Shard: g.CandidateShards[i], Row: g.CandidateRows[i], Score: g.CandidateScores[i]}
		c.LastDecision, c.NameHash, c.Name = tie(c.Shard, c.Row)
		into = append(into, c)
	}
	compare := func(a, b Candidate) int { return compareCandidates(&a, &b) }
	if !slices.IsSortedFunc(into, compare) {
		slices.SortFunc(into, compare)
	}
	return into
}
