package worker

import (
	"context"
	"errors"
	"slices"

	"k8s.io/klog/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// evaluate answers one request; doc.go draws its way.
func (s *Server) evaluate(ctx context.Context, req *pb.EvaluateRequest, spans *traced) (*pb.EvaluateResponse, error) {
	if err := sameRules(req.GetRules()); err != nil { // first: what another version says may look wrong to this one
		return nil, err
	}
	if err := req.Validate(); err != nil {
		return nil, invalid(err, "evaluate request")
	}
	if err := s.terms.fits(req.GetCluster()); err != nil {
		return nil, err
	}
	if err := s.admit(ctx, req.GetTerm()); err != nil {
		return nil, err
	}
	defer s.turns.begin(req.GetTerm(), req.GetTurn()) // also after an error
	asks, dry, needClasses, err := s.classes.resolve(req)
	if err != nil {
		return nil, err
	}
	s.turns.await(ctx, req.GetTerm(), req.GetFollows())
	locked, err := s.shards.lock(req.GetTerm(), req.GetShards())
	s.turns.begin(req.GetTerm(), req.GetTurn())
	if err != nil {
		return nil, err
	}
	defer locked.unlock()
	if len(needClasses)+len(locked.missing) > 0 {
		s.metrics.needs.WithLabelValues("shards").Add(float64(len(locked.missing)))
		s.metrics.needs.WithLabelValues("classes").Add(float64(len(needClasses)))
		return &pb.EvaluateResponse{NeedSnapshots: locked.missing, NeedClasses: needClasses}, nil
	}
	spans.ready()
	answers := s.answers.Take(len(asks))
	defer s.answers.Put(answers)
	if err := s.pool.Run(ctx, locked.tables(), asks, answers); err != nil {
		return nil, err
	}
	found := make([]scorer.PreemptionResult, len(dry))
	if len(dry) > 0 {
		if err := s.pool.RunPreempt(ctx, locked.tables(), dry, found); err != nil {
			return nil, err
		}
	}
	spans.answered(answers)
	// Nothing is told to a leader that was deposed while we evaluated for it.
	if err := s.admit(ctx, req.GetTerm()); err != nil {
		return nil, err
	}
	return s.respond(ctx, req, answers, found), nil
}

// admit checks the term, and forgets what older leaders sent when it is new.
func (s *Server) admit(ctx context.Context, term uint64) error {
	risen, err := s.terms.admit(ctx, term)
	if risen {
		s.shards.dropOlder(term)
	}
	return err
}

// respond puts the answers in a message.
func (s *Server) respond(ctx context.Context, req *pb.EvaluateRequest, answers []scan.Answer,
	found []scorer.PreemptionResult) *pb.EvaluateResponse {
	shards := make([]uint32, len(req.GetShards()))
	for i, x := range req.GetShards() {
		shards[i] = x.GetShard()
	}
	slices.Sort(shards)
	resp := &pb.EvaluateResponse{Results: make([]*pb.ClassResult, 0, len(answers))}
	if len(answers) > 0 {
		grow(resp, answers)
	}
	for i := range answers {
		a := &answers[i]
		if s.failed(ctx, resp, a.Result.ClassID, a.Result.Failed) {
			continue
		}
		s.metrics.answer(a)
		appendPasses(resp.Passes, a.Result.AppendTo(resp, shards), a.Passes)
	}
	for i := range found {
		if !s.failed(ctx, resp, found[i].ClassID, found[i].Failed) {
			resp.Preemptions = append(resp.Preemptions, found[i].Proto())
		}
	}
	return resp
}

// failed tells of a class that could not be evaluated: the coordinator's own tables are to do it, who do not ask for it again for
// a while where they meet a bug, too.
func (s *Server) failed(ctx context.Context, resp *pb.EvaluateResponse, class uint64, why error) bool {
	if why == nil {
		return false
	}
	resp.FailedClasses = append(resp.FailedClasses, class)
	if why == scorer.ErrUnfinished {
		return true
	}
	s.metrics.panics.Inc()
	var stack []byte
	if p := (*scan.Panic)(nil); errors.As(why, &p) {
		stack = p.Stack
	}
	klog.FromContext(ctx).Error(why, "A class can not be evaluated", "class", class, "stack", string(stack))
	return true
}

// grow makes room for the columns of answers.
func grow(resp *pb.EvaluateResponse, answers []scan.Answer) {
	scorer.Grow(resp, func(yield func(*scorer.Result) bool) {
		for i := range answers {
			if !yield(&answers[i].Result) {
				return
			}
		}
	})
	n := 0
	for i := range answers {
		n += len(answers[i].Passes)
	}
	resp.Passes = &pb.PassColumns{
		Plugins: make([]pb.Plugin, 0, n), ExtensionPoints: make([]pb.ExtensionPoint, 0, n), Nanos: make([]uint64, 0, n),
		RowsIn: make([]int64, 0, n), RowsRefused: make([]uint32, 0, n),
	}
}

// appendPasses adds a result's passes to the columns.
func appendPasses(to *pb.PassColumns, of *pb.ClassResult, passes []scan.Pass) {
	of.Passes = uint32(len(passes))
	left := uint32(0)
	for i := range passes {
		p := &passes[i]
		to.Plugins, to.ExtensionPoints = append(to.Plugins, p.Plugin), append(to.ExtensionPoints, p.Point)
		to.Nanos = append(to.Nanos, uint64(max(p.Took, 0)))
		to.RowsIn, to.RowsRefused = append(to.RowsIn, int64(p.RowsIn)-int64(left)), append(to.RowsRefused, p.RowsIn-p.RowsOut)
		left = p.RowsOut
	}
}
