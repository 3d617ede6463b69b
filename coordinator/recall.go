package coordinator

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/observe"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Past is what others have decided.
type Past struct {
	// Decisions are in the order in which they were made; one without its pod's workload is of the pod's, where that is there.
	Decisions []*pb.PastDecision
	// Refused are pods without a node: what their last attempts have come to.
	Refused map[types.UID]Refusal
}

// Refusal is what the last attempt for a pod without a node has come to.
type Refusal struct {
	// Attempts is how many there were.
	Attempts int
	// Message is a FitError, or the error where the attempt Failed.
	Message string
	Failed  bool
	At      time.Time
	// Nominated is the node that the pod is nominated to; empty: what its status says.
	Nominated string
}

// Recall tells a scheduler that only observes what others have decided: decisions are remembered, and the pods that were refused
// wait as they were left. A pod that is not in the queue, or is gated, stays as it is.
func (s *Scheduler) Recall(ctx context.Context, p Past) error {
	return s.reads.Call(ctx, func() {
		for _, d := range p.Decisions {
			c := observe.Circumstances{Kind: d.GetKind(), Workload: d.GetWorkload()}
			if p := s.podOf(types.UID(d.GetDecision().GetUid())); c.Kind == "" && p != nil {
				c.Kind, c.Workload = observe.WorkloadOf(p)
			}
			s.history.Remember(d.GetDecision(), d.GetTime().AsTime(), int(d.GetAttempt()), c)
			s.seq = d.GetDecision().GetSeq()
		}
		refusers := observe.NewRefusers()
		for uid, r := range p.Refused {
			var by []string
			if !r.Failed {
				by = refusers.Of(r.Message)
			}
			s.queue.Recall(uid, &pb.QueueEntry{
				Attempts: uint32(r.Attempts), Message: r.Message, RejectedBy: by, NominatedNode: r.Nominated, Queued: timestamppb.New(r.At),
			}, r.Failed)
		}
	})
}

// podOf is a pod that is on a node or waits; nil: it is neither.
func (s *Scheduler) podOf(uid types.UID) *v1.Pod {
	if p := s.queue.Get(uid); p != nil {
		return p.Obj
	}
	p, _, _ := s.state.Pod(uid)
	return p
}
