package scorer

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Proto is the question as a message.
func (p *Preemption) Proto(classID uint64) *pb.PreemptionRequest {
	out := &pb.PreemptionRequest{
		ClassId: classID, Priority: p.Priority, NowMicros: p.NowMicros, Candidates: uint32(p.Limit()),
		SearchSteps: uint32(p.Steps),
	}
	for _, b := range p.Budgets {
		out.Budgets = append(out.Budgets, &pb.Budget{Id: b.ID, Allowed: b.Allowed})
	}
	for _, s := range p.Skip {
		out.SkipShards, out.SkipRows = append(out.SkipShards, s.Shard), append(out.SkipRows, s.Row)
	}
	if p.Whole != nil {
		for i := range p.Whole.Measures {
			out.Measures = append(out.Measures, p.Whole.Measures[i].proto())
		}
	}
	return out
}

// NewPreemption reads a message that is valid.
func NewPreemption(x *pb.PreemptionRequest) *Preemption {
	p := &Preemption{
		Priority: x.GetPriority(), NowMicros: x.GetNowMicros(), All: int(x.GetCandidates()), Steps: int64(x.GetSearchSteps()), Whole: &Result{},
	}
	for _, b := range x.GetBudgets() {
		p.Budgets = append(p.Budgets, Budget{b.GetId(), b.GetAllowed()})
	}
	for i, s := range x.GetSkipShards() {
		p.Skip = append(p.Skip, RowRef{s, x.SkipRows[i]})
	}
	p.Whole.openMeasures(len(x.GetMeasures()))
	for i, m := range x.GetMeasures() {
		p.Whole.Measures[i].setProto(m)
	}
	return p
}

// Proto is the result as a message. The tie rule's columns stay behind: the receiver has
// them.
func (r *PreemptionResult) Proto() *pb.PreemptionResult {
	out := &pb.PreemptionResult{ClassId: r.ClassID, Tried: uint32(r.Tried)}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		out.Candidates = append(out.Candidates, &pb.PreemptionCandidate{
			Shard: c.Shard, Row: c.Row, Victims: slices.Clone(c.Victims), Violations: uint32(c.Violations),
			TopPriority: c.TopPriority, PrioritySum: c.PrioritySum, EarliestStart: c.EarliestStart,
		})
	}
	for _, c := range r.Reasons {
		out.Reasons = append(out.Reasons, &pb.ReasonCount{
			Plugin: c.Plugin, Reason: c.Text, Nodes: uint32(c.Nodes), Unresolvable: c.Unresolvable,
		})
	}
	for _, x := range r.Failing {
		out.FailingShards, out.FailingRows = append(out.FailingShards, x.Shard), append(out.FailingRows, x.Row)
	}
	return out
}

// Tie looks up the columns of the tie rule.
type Tie func(shard, row uint32) (lastDecision, nameHash uint64, name string)

// AddProto merges a message, of which tie looks up the tie rule's columns: they must be
// those of the generation that the message answers for. Nothing in the message makes it
// panic.
func (r *PreemptionResult) AddProto(p *pb.PreemptionResult, tie Tie) {
	part := &PreemptionResult{Tried: int(p.GetTried())}
	for _, x := range p.GetCandidates() {
		c := PreemptionCandidate{
			Shard: x.GetShard(), Row: x.GetRow(), Victims: x.GetVictims(), Violations: int(x.GetViolations()),
			TopPriority: x.GetTopPriority(), PrioritySum: x.GetPrioritySum(), EarliestStart: x.GetEarliestStart(),
		}
		c.LastDecision, c.NameHash, c.Name = tie(c.Shard, c.Row)
		part.Candidates = append(part.Candidates, c)
	}
	for _, c := range p.GetReasons() {
		part.AddReason(Reason{c.GetPlugin(), c.GetReason(), c.GetUnresolvable()}, int(c.GetNodes()))
	}
	for i, shard := range p.GetFailingShards() {
		if i == MaxFailingRows || i == len(p.GetFailingRows()) {
			break
		}
		x := FailingRow{Shard: shard, Row: p.FailingRows[i]}
		_, _, x.Name = tie(x.Shard, x.Row)
		part.AddFailing(x)
	}
	r.Merge(part)
}
