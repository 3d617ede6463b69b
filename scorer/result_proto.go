package scorer

import (
	"iter"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Locate finds a row in one of the shards that were asked, which are numbered in ascending order. It gives the row as a
// candidate with the score 0.
type Locate func(shard int, row uint32) Candidate

// AppendTo adds the result to the response to a request for some shards, in ascending order, without passes. The tie
// rule's columns stay behind: the receiver has them.
func (r *Result) AppendTo(resp *pb.EvaluateResponse, shards []uint32) *pb.ClassResult {
	out := &pb.ClassResult{
		ClassId:  r.ClassID,
		Rows:     uint32(r.Rows),
		Feasible: uint32(r.Feasible),
		Overflow: r.Overflow,
		Hopeless: uint32(r.Hopeless),
		Grouped:  r.grouped,
		Copies:   r.Copies.proto(),
	}
	keyLen := min(len(r.Extrema), MaxKey)
	if r.Overflow || r.Normalised {
		out.Extrema = slices.Clone(r.Extrema)
		keyLen = 0
	}
	r.appendGroups(resp, out, shards, keyLen)
	for i := range r.Measures {
		out.Measures = append(out.Measures, r.Measures[i].proto())
	}
	for _, c := range r.Reasons {
		out.Reasons = append(out.Reasons, &pb.ReasonCount{
			Plugin: c.Plugin, Reason: c.Text, Nodes: uint32(c.Nodes), Unresolvable: c.Unresolvable,
		})
	}
	resp.Results = append(resp.Results, out)
	return out
}

// appendGroups adds the groups to the columns of a response.
func (r *Result) appendGroups(resp *pb.EvaluateResponse, out *pb.ClassResult, shards []uint32, keyLen int) {
	if len(r.Groups) == 0 {
		return
	}
	if resp.Groups == nil {
		resp.Groups = &pb.GroupColumns{}
	}
	first := &r.Groups[0].Key
	out.Groups, out.KeyScores = uint32(len(r.Groups)), uint32(keyLen)
	out.KeyDomains, out.KeyValues = uint32(len(first.Domains)), uint32(len(first.Values))
	for i := range r.Groups {
		out.Late = out.Late || r.Groups[i].Key.LateFilter > 0
	}
	resp.Groups.Shards = uint32(len(shards))
	for i := range r.Groups {
		r.Groups[i].appendTo(resp.Groups, out)
		appendCandidates(resp.Groups, r.Groups[i].Candidates, shards)
	}
}

// appendTo adds the group to columns.
func (g *Group) appendTo(to *pb.GroupColumns, of *pb.ClassResult) {
	to.Rows, to.Candidates = append(to.Rows, uint32(g.Rows)), append(to.Candidates, uint32(len(g.Candidates)))
	to.Keys = append(to.Keys, g.Key.Raw[:of.KeyScores]...)
	to.Domains, to.RowValues = append(to.Domains, g.Key.Domains...), append(to.RowValues, g.Key.Values...)
	to.Missing = append(to.Missing, g.Key.Missing[:min(words(len(g.Key.Domains)), len(g.Key.Missing))]...)
	if of.Late {
		to.LateFilters, to.LateReasons = append(to.LateFilters, g.Key.LateFilter), append(to.LateReasons, g.Key.LateReasons)
	}
}

// appendCandidates adds the candidates of a group to columns.
func appendCandidates(to *pb.GroupColumns, list []Candidate, shards []uint32) {
	n, shard := uint64(len(shards)), 0
	for i := range list {
		c := &list[i]
		if n > 1 {
			shard, _ = slices.BinarySearch(shards, c.Shard)
		}
		to.RowRefs = append(to.RowRefs, uint64(c.Row)*n+uint64(shard))
		switch {
		case i == 0:
			to.Runs, to.RunScores = append(to.Runs, 1), append(to.RunScores, c.Score)
		case c.Score == list[i-1].Score:
			to.Runs[len(to.Runs)-1]++
		default:
			to.Runs, to.RunScores = append(to.Runs, 1), append(to.RunScores, list[i-1].Score-c.Score)
		}
	}
}

// Grow makes room in a response for the groups of some results, so that AppendTo allocates nothing for a candidate.
func Grow(resp *pb.EvaluateResponse, results iter.Seq[*Result]) {
	groups, keys, candidates, runs := 0, 0, 0, 0
	for r := range results {
		groups += len(r.Groups)
		keys += len(r.Groups) * min(len(r.Extrema), MaxKey)
		for i := range r.Groups {
			list := r.Groups[i].Candidates
			candidates += len(list)
			for k := range list {
				runs += asInt(k == 0 || list[k].Score != list[k-1].Score)
			}
		}
	}
	if groups == 0 {
		return
	}
	resp.Groups = &pb.GroupColumns{
		Rows: make([]uint32, 0, groups), Candidates: make([]uint32, 0, groups), Keys: make([]int64, 0, keys),
		RowRefs: make([]uint64, 0, candidates), Runs: make([]uint32, 0, runs), RunScores: make([]int64, 0, runs),
	}
}

// AddNext merges the next result of a response. The tie rule's columns that locate finds must be
// those of the generation that the message answers for. part is memory to read the result into, whatever that held.
// A second-round message is told by its extrema, one of a class with a group part by what only such a class has.
// Columns that do not fit together are read as far as they go; nothing in the message makes it panic.
func (r *Result) AddNext(part *Result, p *pb.ClassResult, columns *pb.ResultReader, locate Locate) {
	part.Reset(r.ClassID, r.limit)
	part.SetNext(p, columns, locate)
	r.Merge(part)
}

// SetNext is AddNext for a result that is as Reset left it.
func (r *Result) SetNext(p *pb.ClassResult, columns *pb.ResultReader, locate Locate) {
	r.Rows, r.Feasible, r.Overflow = int(p.GetRows()), int(p.GetFeasible()), p.GetOverflow()
	r.Hopeless, r.Copies = int(p.GetHopeless()), copiesOf(p.GetCopies())
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
	r.growGroups(columns.Groups(p))
	for i := range r.Groups {
		g := columns.Group(p)
		r.raise(g.Key)
		r.Groups[i].set(&g, locate)
		r.grouped = r.grouped || len(g.Domains)+len(g.RowValues) > 0
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
				r.addRows(&r.Groups[len(r.Groups)-1], list[k].Rows, list[k].Candidates, list[k].Rows > len(list[k].Candidates), &r.spare)
			}
			return
		}
	}
}

// set reads a group of a message into an empty one.
func (g *Group) set(p *pb.Group, locate Locate) {
	key := Key{Domains: p.Domains, Values: p.RowValues, LateFilter: p.LateFilter, LateReasons: p.LateReasons}
	key.Missing.setWords(p.Missing)
	g.Key.set(&key)
	copy(g.Key.Raw[:], p.Key)
	g.Rows = int(p.Rows)
	g.setCandidates(p, locate)
}

// Closed tells whether the rows of a group can not be feasible, whatever the rest of the cluster is like. Such a group offers no
// candidates.
func (c *Class) Closed(g *pb.Group) bool {
	if g.LateFilter > 0 {
		return !c.FailsPod(g)
	}
	for i := range c.group.values {
		if c.group.values[i].forbids && i < len(g.RowValues) && g.RowValues[i] > 0 {
			return true
		}
	}
	return false
}

// setCandidates reads a group's candidates, best first.
func (g *Group) setCandidates(p *pb.Group, locate Locate) {
	list, sorted := slices.Grow(g.Candidates[:0], len(p.RowRefs)), true
	p.Each(func(shard int, row uint32, score int64) {
		list = append(list, locate(shard, row))
		c := &list[len(list)-1]
		c.Score = score
		sorted = sorted && (len(list) == 1 || compareCandidates(&list[len(list)-2], c) <= 0)
	})
	if g.Candidates = list; !sorted {
		slices.SortFunc(list, func(a, b Candidate) int { return compareCandidates(&a, &b) })
	}
}
