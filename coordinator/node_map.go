package coordinator

import (
	"context"

	"github.com/shardsched/shardsched/coordinator/observe"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeMap tells one thing of every node. Where a pod is held against them, this is as in Explain: each node is judged as it is by then.
func (s *Scheduler) NodeMap(ctx context.Context, req *pb.GetNodeMapRequest) (*pb.GetNodeMapResponse, error) {
	x, err := observe.NewNodeMap(req, s.state)
	if err != nil {
		return nil, err
	}
	explainer := s.explainer()
	step := func() bool {
		s.aside.BeginSearching()
		defer s.aside.EndSearching(s.cfg.Now())
		return x.Step(explainer)
	}
	waits := func() bool {
		e := x.Explanation()
		return e != nil && s.explanationWaits(e)
	}
	if err := s.reads.Serve(ctx, observe.Read{Step: step, Waits: waits, End: x.End}); err != nil {
		return nil, err
	}
	out, names, err := x.Answer()
	if err != nil {
		return nil, err
	}
	s.mapNames.Keep(out.Fingerprint, names)
	return out, nil
}

// MapNodes names nodes by their places in a map.
func (s *Scheduler) MapNodes(_ context.Context, req *pb.ListMapNodesRequest) (*pb.ListMapNodesResponse, error) {
	return s.mapNames.List(req)
}

// Fragmentation tells how what is left of each resource is spread over the nodes.
func (s *Scheduler) Fragmentation(ctx context.Context) (*pb.GetFragmentationResponse, error) {
	x := observe.NewFragmentation(s.state)
	if err := s.reads.Serve(ctx, x.Read()); err != nil {
		return nil, err
	}
	return x.Answer(), nil
}
