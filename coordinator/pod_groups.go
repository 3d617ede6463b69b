package coordinator

import (
	"context"

	"github.com/shardsched/shardsched/coordinator/observe"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// PodGroups pages through the pod groups, with why each of them waits.
func (s *Scheduler) PodGroups(ctx context.Context, req *pb.ListPodGroupsRequest) (*pb.ListPodGroupsResponse, error) {
	x, err := observe.NewPodGroups(req, s.groups)
	if err != nil {
		return nil, err
	}
	if err := s.reads.Serve(ctx, x.Read()); err != nil {
		return nil, err
	}
	return x.Page(), nil
}

// PodGroup tells why a pod group waits, and what became of each of its members.
func (s *Scheduler) PodGroup(ctx context.Context, req *pb.ExplainPodGroupRequest) (*pb.ExplainPodGroupResponse, error) {
	x, err := observe.NewPodGroup(req, s.podGroupReader())
	if err != nil {
		return nil, err
	}
	if err := s.reads.Serve(ctx, x.Read()); err != nil {
		return nil, err
	}
	return x.Answer()
}

func (s *Scheduler) podGroupReader() observe.PodGroupReader {
	return observe.PodGroupReader{Groups: s.groups, Queue: s.queue, Placed: s.state, Held: s.reserved, NotHeld: s.unreserved}
}

// result is what a try of a pod group came to, as metrics name it.
func (o *gangOutcome) result() string {
	switch o.code {
	case gangFits:
		return observe.PodGroupScheduled
	case gangPreempting:
		return observe.PodGroupPreempting
	case gangFailed:
		return observe.PodGroupError
	}
	return observe.PodGroupUnschedulable
}
