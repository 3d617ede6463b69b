package coordinator

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A scheduler that only observes (SchedulerConfig.Observe) decides nothing: another scheduler does. Judge tells what this one would
// decide for a pending pod at that moment. Nothing comes of it: no pod is placed, refused or nominated, and no victim leaves.
//
//	Deliver(what happened before the other one bound the pod)
//	Judge(pod, the node that the other one has chosen)
//	Deliver(the bind)

// Judgement is what a scheduler would decide for a pending pod, and what it makes of one node.
type Judgement struct {
	// Nodes is how many nodes there are, and Feasible how many of them pass every filter.
	Nodes, Feasible int
	// Node is the best, and Score its score; empty: no node is feasible.
	Node  string
	Score int64
	// Passes tells whether the node that was asked about is feasible, and NodeScore is its score then.
	Passes    bool
	NodeScore int64
	// Message tells why no node is feasible.
	Message string
	// Nominated and Victims are what DefaultPreemption makes of a pod for which no node is feasible, where that was asked for; empty: it
	// finds no candidate.
	Nominated string
	Victims   []*v1.Pod
}

// What a pod may be asked about in vain.
var (
	// ErrNotPending says that a pod is not pending, as far as is known.
	ErrNotPending = errors.New("the pod is not pending")
	// ErrLeaving says that a pod is being deleted, so that no scheduler tries it.
	ErrLeaving = errors.New("the pod is being deleted")
)

// Judge tells what a scheduler that only observes would decide for a pending pod with the changes that were delivered before, and what it
// makes of a node; empty: of none. preempts: where no node is feasible, pods are looked for that would have to leave. Plugins and extenders
// beside the built-in plugins are not asked.
func (s *Scheduler) Judge(ctx context.Context, pod types.UID, node string, preempts bool) (*Judgement, error) {
	if !s.cfg.Observe {
		return nil, errors.New("only a scheduler that observes judges")
	}
	var out *Judgement
	var failed error
	err := s.reads.Call(ctx, func() {
		if out, failed = s.judge(ctx, pod, node, preempts); failed == nil {
			s.recordJudgement(pod, node, preempts, out)
		}
	})
	if err != nil {
		return nil, err
	}
	return out, failed
}

// recordJudgement notes a judgement, for who replays the record to judge it by.
func (s *Scheduler) recordJudgement(pod types.UID, node string, preempts bool, j *Judgement) {
	if s.cfg.Recorder == nil {
		return
	}
	s.seq++
	p := s.queue.Get(pod).Obj
	d := &pb.Decision{
		Seq: s.seq, Pod: p.Namespace + "/" + p.Name, Uid: string(pod), Profile: p.Spec.SchedulerName, Node: j.Node, Score: j.Score,
		Feasible: uint32(j.Feasible), Nodes: uint32(j.Nodes), Message: j.Message, Nominated: j.Nominated,
	}
	for _, v := range j.Victims {
		d.Victims = append(d.Victims, v.Namespace+"/"+v.Name)
	}
	s.cfg.Recorder.Judgement(&pb.RecordJudgement{Decision: d, Node: node, Passes: j.Passes, Score: j.NodeScore, Preempts: preempts})
}

func (s *Scheduler) judge(ctx context.Context, pod types.UID, node string, preempts bool) (*Judgement, error) {
	p := s.queue.Get(pod)
	_, at, _ := s.state.Pod(pod)
	switch {
	case p == nil || at != "":
		return nil, ErrNotPending
	case p.Obj.DeletionTimestamp != nil:
		return nil, ErrLeaving
	case s.state.Nodes() == 0:
		return &Judgement{Message: noNodes}, nil
	}
	s.answers.SetDeciding(true)
	defer s.answers.SetDeciding(false)
	now := s.cfg.Now()
	s.aside.BeginSearching()
	defer func() { s.aside.EndSearching(now) }()
	s.batch.begun, s.batch.traces = now, s.cfg.Tracer.Begin(1)
	attempts, err := s.prepareAll([]*queue.Pod{p})
	defer s.batch.forget()
	if err != nil {
		s.fail(err)
		return nil, err
	}
	if len(attempts) == 0 {
		return nil, fmt.Errorf("pod %s/%s waits for pods to be counted", p.Obj.Namespace, p.Obj.Name)
	}
	out := &Judgement{Nodes: s.state.Nodes()}
	return out, s.judgeCaught(ctx, &attempts[0], node, preempts, out)
}

// judgeCaught is judgeOne that puts a class into quarantine which meets a bug.
func (s *Scheduler) judgeCaught(ctx context.Context, a *attempt, node string, preempts bool, out *Judgement) (err error) {
	if a.failed != nil {
		return a.failed
	}
	defer func() {
		if v := recover(); v != nil {
			err = s.guard.Confine(a.Class, v)
		}
	}()
	if err := s.guard.WhyNot(a.Class); err != nil {
		return err
	}
	return s.judgeOne(ctx, a, node, preempts, out)
}

// judgeOne takes a pod through the steps of a decision, up to the choice, and forgets it.
func (s *Scheduler) judgeOne(ctx context.Context, a *attempt, node string, preempts bool, out *Judgement) error {
	var end *choice.Ending
	if a.Class.Rejected != nil {
		end = s.chooser.Rejected(a.Class.Rejected, answers.Domain{})
	} else {
		best, ending, err := s.bestFor(ctx, a)
		if err != nil {
			return err
		}
		if end = ending; end == nil {
			out.Node, out.Score, out.Feasible = s.nameOf(best.Row), best.Score, best.Feasible
			return s.judgeNode(ctx, a, node, out)
		}
	}
	if end.Failed != nil {
		return end.Failed
	}
	if out.Message = end.Message; !preempts {
		return nil
	}
	help, err := s.chooser.PostFilter(ctx, &a.Try, end.Answer)
	if err != nil {
		return err
	}
	if help.Nominating != nil {
		out.Nominated, out.Victims = help.Nominating.Node, help.Victims
	}
	return nil
}

// bestFor is the choice for an attempt of a batch of its own.
func (s *Scheduler) bestFor(ctx context.Context, a *attempt) (answers.Choice, *choice.Ending, error) {
	batch := s.answers.Begin(1)
	batch.Join(a.Class)
	if _, need, ok := s.want(batch, a); ok && need >= 0 {
		if err := s.fetch(ctx, batch.Needs(), []string{a.Pod.Obj.Spec.SchedulerName}); err != nil {
			return answers.Choice{}, nil, err
		}
	}
	if a.failed != nil {
		return answers.Choice{}, nil, a.failed
	}
	s.aside.AllowDecision()
	best, _, end, err := s.chooser.Choose(ctx, &a.Try)
	return best, end, err
}

// judgeNode tells what the class makes of one node, once the best is known. The score of a node that the pod is nominated to is that
// among all nodes, as the score of any other: the choice does not look at others then.
func (s *Scheduler) judgeNode(ctx context.Context, a *attempt, node string, out *Judgement) (err error) {
	if out.Node == a.Pod.Nomination() {
		if out.Score, _, err = s.scoreOf(ctx, a, out.Node); err != nil {
			return err
		}
	}
	if node == out.Node {
		out.Passes, out.NodeScore = true, out.Score
		return nil
	}
	out.NodeScore, out.Passes, err = s.scoreOf(ctx, a, node)
	return err
}

// scoreOf is the score of a node among all; a node that is refused, or is not there, does not pass.
func (s *Scheduler) scoreOf(ctx context.Context, a *attempt, node string) (score int64, passes bool, err error) {
	row, ok := s.state.RowOf(node)
	if !ok {
		return 0, false, nil
	}
	q := s.chooser.Question(&a.Try)
	q.Nominees = s.nominees.Of(a.Pod.Obj, a.Class, a.Pod.Backfills).ForEngine()
	for {
		score, passes, need := s.answers.ScoreOf(q, row)
		if need == nil {
			return score, passes, nil
		}
		if err := s.fetchOne(ctx, &a.Try, need); err != nil {
			return 0, false, err
		}
	}
}
