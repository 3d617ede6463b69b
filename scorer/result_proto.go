package scorer

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Proto is the result as a message, without timings. The tie rule's columns stay
// behind: the receiver has them.
func (r *Result) Proto() *pb.ClassResult {
	out := &pb.ClassResult{
		ClassId:  r.ClassID,
		Rows:     uint32(r.Rows),
		Feasible: uint32(r.Feasible),
		Overflow: r.Overflow,
		Hopeless: uint32(r.Hopeless),
		Grouped:  r.grouped,
	}
	keyLen := min(len(r.Extrema), MaxKey)
	if r.Overflow || r.Normalised {
		out.Extrema = slices.Clone(r.Extrema)
		keyLen = 0
	}
	if n := len(r.Groups); n > 0 {
		store := make([]pb.Group, n)
		out.Groups = make([]*pb.Group, n)
		for i := range store {
			r.Groups[i].proto(keyLen, &store[i])
			out.Groups[i] = &store[i]
		}
	}
	for i := range r.Measures {
		out.Measures = append(out.Measures, r.Measures[i].proto())
	}
	for _, c := range r.Reasons {
		out.Reasons = append(out.Reasons, &pb.ReasonCount{
			Plugin: c.Plugin, Reason: c.Text, Nodes: uint32(c.Nodes), Unresolvable: c.Unresolvable,
		})
	}
	return out
}

// proto writes the group to an empty message.
func (g *Group) proto(keyLen int, out *pb.Group) {
	n := len(g.Candidates)
	out.Key, out.Rows = slices.Clone(g.Key.Raw[:keyLen]), uint32(g.Rows)
	out.Domains, out.Missing, out.RowValues = slices.Clone(g.Key.Domains), g.Key.Missing.words(), slices.Clone(g.Key.Values)
	out.LateFilter, out.LateReasons = g.Key.LateFilter, g.Key.LateReasons
	places := make([]uint32, 2*n)
	out.CandidateShards, out.CandidateRows, out.CandidateScores = places[:n:n], places[n:], make([]int64, n)
	for i := range g.Candidates {
		c := &g.Candidates[i]
		out.CandidateShards[i], out.CandidateRows[i], out.CandidateScores[i] = c.Shard, c.Row, c.Score
	}
}

// AddProto merges a message, of which tie looks up the tie rule's columns: they must be
// those of the generation that the message answers for. A second-round message is
// told by its extrema, one of a class with a group part by what only such a class has.
// Lists that do not fit together are cut to the shortest one; nothing in the message makes
// it panic.
func (r *Result) AddProto(p *pb.ClassResult, tie func(shard, row uint32) (lastDecision, nameHash uint64, name string)) {
	r.AddProtoBy(&Result{}, p, tie)
}

// AddProtoBy is AddProto with memory to read the message into, whatever that held.
func (r *Result) AddProtoBy(part *Result, p *pb.ClassResult, tie func(shard, row uint32) (lastDecision, nameHash uint64, name string)) {
	part.Reset(r.ClassID, r.limit)
	part.SetProto(p, tie)
	r.Merge(part)
}

// SetProto is AddProto for a result that is as Reset left it.
func (r *Result) SetProto(p *pb.ClassResult, tie func(shard, row uint32) (lastDecision, nameHash uint64, name string)) {
	r.Rows, r.Feasible, r.Overflow = int(p.GetRows()), int(p.GetFeasible()), p.GetOverflow()
	r.Hopeless = int(p.GetHopeless())
	r.raise(p.GetExtrema())
	r.Normalised = len(p.GetExtrema()) > 0 && !p.GetOverflow()
	r.grouped = p.GetGrouped() || len(p.GetMeasures()) > 0
	for _, c := range p.GetReasons() {
		r.addReason(Reason{c.GetPlugin(), c.GetReason(), c.GetUnresolvable()}, int(c.GetNodes()))
	}
	r.openMeasures(len(p.GetMeasures()))
	for i, m := range p.GetMeasures() {
		r.Measures[i].setProto(m)
	}
	r.growGroups(len(p.GetGroups()))
	for i, g := range p.GetGroups() {
		r.raise(g.GetKey())
		r.Groups[i].setProto(g, tie)
		r.grouped = r.grouped || len(g.GetDomains())+len(g.GetRowValues()) > 0
	}
	r.unite()
}

// unite puts groups in order that came otherwise, and adds those with equal keys.
func (r *Result) unite() {
	sortGroups(r.Groups)
	for i := 1; i < len(r.Groups); i++ {
		if r.Groups[i-1].Key.Equal(&r.Groups[i].Key) {
			list := r.Groups
			r.Groups = nil
			for k := range list {
				if n := len(r.Groups); n == 0 || !r.Groups[n-1].Key.Equal(&list[k].Key) {
					r.openGroup().Key.set(&list[k].Key)
				}
				r.addRows(&r.Groups[len(r.Groups)-1], list[k].Rows, list[k].Candidates, &r.spare)
			}
			return
		}
	}
}

// setProto reads a message into an empty group.
func (g *Group) setProto(p *pb.Group, tie func(shard, row uint32) (uint64, uint64, string)) {
	key := Key{Domains: p.GetDomains(), Values: p.GetRowValues(), LateFilter: p.GetLateFilter(), LateReasons: p.GetLateReasons()}
	key.Missing.setWords(p.GetMissing())
	g.Key.set(&key)
	copy(g.Key.Raw[:], p.GetKey())
	g.Rows, g.Candidates = int(p.GetRows()), appendCandidates(g.Candidates, p, tie)
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
