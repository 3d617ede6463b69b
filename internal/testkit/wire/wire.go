// Package wire takes the answers of workers apart, for tests that change them:
//
//	x := wire.Open(response)
//	x.Results[0].Groups[0].Rows--
//	x.Close()
package wire

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Response is a response whose results have their groups.
type Response struct {
	*pb.EvaluateResponse
	Results []*Result
	// Columns changes the columns after all; nil: nothing does.
	Columns func(*pb.GroupColumns)
}

// Result is a result with its groups.
type Result struct {
	*pb.ClassResult
	Groups []*Group
	passes pb.Passes
}

// Group is a group with its candidates: the places of their shards in the request, their rows and scores.
type Group struct {
	pb.Group
	CandidateShards, CandidateRows []uint32
	CandidateScores                []int64
}

// Open takes a response apart.
func Open(resp *pb.EvaluateResponse) *Response {
	out, r := &Response{EvaluateResponse: resp}, resp.Reader()
	for _, result := range resp.GetResults() {
		x := &Result{ClassResult: result}
		for range r.Groups(result) {
			g := &Group{Group: r.Group(result)}
			g.Each(func(shard int, row uint32, score int64) {
				g.CandidateShards, g.CandidateRows = append(g.CandidateShards, uint32(shard)), append(g.CandidateRows, row)
				g.CandidateScores = append(g.CandidateScores, score)
			})
			x.Groups = append(x.Groups, g.Clone())
		}
		x.passes = r.Passes(result)
		out.Results = append(out.Results, x)
	}
	return out
}

// Clone is a copy of a group that shares no memory with it.
func (g *Group) Clone() *Group {
	x := *g
	x.Key, x.Domains = slices.Clone(g.Key), slices.Clone(g.Domains)
	x.Missing, x.RowValues = slices.Clone(g.Missing), slices.Clone(g.RowValues)
	x.CandidateShards, x.CandidateRows = slices.Clone(g.CandidateShards), slices.Clone(g.CandidateRows)
	x.CandidateScores = slices.Clone(g.CandidateScores)
	return &x
}

// Cut takes the first n candidates out.
func (g *Group) Cut(n int) {
	g.CandidateShards, g.CandidateRows, g.CandidateScores = g.CandidateShards[n:], g.CandidateRows[n:], g.CandidateScores[n:]
}

// Close puts the response together again.
func (x *Response) Close() {
	resp := x.EvaluateResponse
	resp.Results, resp.Groups, resp.Passes = nil, &pb.GroupColumns{Shards: resp.GetGroups().GetShards()}, &pb.PassColumns{}
	for _, r := range x.Results {
		resp.Results = append(resp.Results, r.ClassResult)
		r.Late = slices.ContainsFunc(r.Groups, func(g *Group) bool { return g.LateFilter > 0 || g.LateReasons > 0 })
		r.ClassResult.Groups = uint32(len(r.Groups))
		for _, g := range r.Groups {
			r.KeyScores, r.KeyDomains, r.KeyValues = uint32(len(g.Key)), uint32(len(g.Domains)), uint32(len(g.RowValues))
			g.add(resp.Groups, r.ClassResult)
		}
		r.Passes = uint32(len(r.passes.Plugins))
		t := resp.Passes
		t.Plugins, t.ExtensionPoints = append(t.Plugins, r.passes.Plugins...), append(t.ExtensionPoints, r.passes.ExtensionPoints...)
		t.Nanos = append(t.Nanos, r.passes.Nanos...)
		t.RowsIn, t.RowsRefused = append(t.RowsIn, r.passes.RowsIn...), append(t.RowsRefused, r.passes.RowsRefused...)
	}
	if x.Columns != nil {
		x.Columns(resp.Groups)
	}
}

// add adds a group to columns.
func (g *Group) add(to *pb.GroupColumns, of *pb.ClassResult) {
	n := len(g.CandidateRows)
	to.Rows, to.Candidates = append(to.Rows, g.Rows), append(to.Candidates, uint32(n))
	to.Keys, to.Domains = append(to.Keys, g.Key...), append(to.Domains, g.Domains...)
	to.Missing, to.RowValues = append(to.Missing, g.Missing...), append(to.RowValues, g.RowValues...)
	if of.Late {
		to.LateFilters, to.LateReasons = append(to.LateFilters, g.LateFilter), append(to.LateReasons, g.LateReasons)
	}
	for i := range n {
		to.RowRefs = append(to.RowRefs, uint64(g.CandidateRows[i])*uint64(to.Shards)+uint64(g.CandidateShards[i]))
		switch score := g.CandidateScores[i]; {
		case i == 0:
			to.Runs, to.RunScores = append(to.Runs, 1), append(to.RunScores, score)
		case score == g.CandidateScores[i-1]:
			to.Runs[len(to.Runs)-1]++
		default:
			to.Runs, to.RunScores = append(to.Runs, 1), append(to.RunScores, g.CandidateScores[i-1]-score)
		}
	}
}

// Changed is a function that changes a response.
func Changed(change func(*Response)) func(*pb.EvaluateResponse) {
	return func(resp *pb.EvaluateResponse) {
		x := Open(resp)
		change(x)
		x.Close()
	}
}
