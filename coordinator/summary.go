package coordinator

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Summary tells what the scheduler did so far.
func (s *Scheduler) Summary(ctx context.Context) (*pb.Summary, error) {
	x := s.newSummary()
	if err := s.reads.Serve(ctx, x.Read()); err != nil {
		return nil, err
	}
	return x.Report(), nil
}

func (s *Scheduler) newSummary() *observe.Summary {
	return observe.NewSummary(s.state, s.queue, s.totals)
}

// totals is the part of a summary that takes one step, however much there is, and the pods whose binds are under way.
func (s *Scheduler) totals() (out *pb.Summary, binding []*v1.Pod) {
	out = s.metrics.Summary(s.cfg.Now(), s.seq)
	stats := s.fanout.Stats()
	out.Nodes, out.Shards, out.Idle = uint64(s.state.Nodes()), uint32(s.state.NumShards()), s.idle()
	out.Workers, out.Rounds, out.LocalEvaluations = s.fanout.Workers(), stats.Rounds, stats.LocalShards
	out.Classes, out.Tunings = uint64(s.answers.Asked()), s.tuning.tell()
	out.LeadingSince, out.Term, out.Hedges = timestamppb.New(s.since), s.cfg.Term, stats.Hedges
	for _, p := range []queue.Place{queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated, queue.InFlight} {
		pods := s.queue.Len(p)
		if p == queue.Backoff {
			pods += s.queue.Len(queue.ErrorBackoff)
		}
		out.Queues = append(out.Queues, &pb.QueueLength{Queue: p.String(), Pods: uint64(pods)})
	}
	return out, s.binding()
}

// binding are the pods whose binds are under way.
func (s *Scheduler) binding() (pods []*v1.Pod) {
	for uid := range s.binds.pending {
		if pod, _, assumed := s.state.Pod(uid); assumed {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Workers tells the live workers and what they did.
func (s *Scheduler) Workers(context.Context) ([]*pb.WorkerStatus, error) {
	return s.fanout.Workers(), nil
}

// Shards tells the shards and who holds them.
func (s *Scheduler) Shards(ctx context.Context) ([]*pb.ShardStatus, error) {
	var out []*pb.ShardStatus
	err := s.reads.Call(ctx, func() {
		owners, held := s.fanout.ShardOwners(), s.fanout.ShardsHeld()
		for i := range s.state.NumShards() {
			t := s.state.Table(i)
			out = append(out, &pb.ShardStatus{
				Shard: uint32(i), Nodes: uint32(t.Nodes()), Generation: t.Generation(), Workers: owners[i], Held: held[i],
			})
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Devices lists a page of the devices that slices offer, with the claims that have them.
func (s *Scheduler) Devices(ctx context.Context, req *pb.ListDevicesRequest) (*pb.ListDevicesResponse, error) {
	x := observe.NewDevices(s.state.Claims(), req)
	if err := s.reads.Serve(ctx, x.Read()); err != nil {
		return nil, err
	}
	return x.Page()
}

// Pending tells what pending pods want and do not get.
func (s *Scheduler) Pending(ctx context.Context, req *pb.ListPendingRequest) (*pb.ListPendingResponse, error) {
	x, err := s.pending(req)
	if err != nil {
		return nil, err
	}
	if err := s.reads.Serve(ctx, x.Read()); err != nil {
		return nil, err
	}
	return x.Answer(), nil
}

func (s *Scheduler) pending(req *pb.ListPendingRequest) (*observe.Pending, error) {
	return observe.NewPending(req, s.queue, s.state.Objects(), s.forWords(), s.cfg.Profiles, s.binding, s.cfg.Now())
}

// Decisions pages through the decisions that are remembered.
func (s *Scheduler) Decisions(ctx context.Context, req *pb.ListDecisionsRequest) (*pb.ListDecisionsResponse, error) {
	x, err := observe.NewDecisions(req, s.history, s.since)
	if err != nil {
		return nil, err
	}
	if err := s.reads.Serve(ctx, x.Read()); err != nil {
		return nil, err
	}
	return x.Page(), nil
}

// Plugins tells what plugins and extenders take.
func (s *Scheduler) Plugins(ctx context.Context) (out *pb.ListPluginsResponse, err error) {
	err = s.reads.Call(ctx, func() {
		out = s.metrics.PluginUses(func(profile, plugin string) []string {
			if p := s.cfg.Profiles[profile]; p != nil {
				return p.Expressions(plugin)
			}
			return nil
		})
	})
	return out, err
}

// Lacking counts the pending pods that ask for what shardsched has not got, or bounds.
func (s *Scheduler) Lacking(ctx context.Context) ([]*pb.LackingPods, error) {
	x := observe.NewLacking(s.queue)
	if err := s.reads.Serve(ctx, x.Read()); err != nil {
		return nil, err
	}
	return x.Answer(), nil
}

// Progress is the part of the summary that costs nothing to tell: how many pods are
// bound and how many wait.
func (s *Scheduler) Progress(ctx context.Context) (*pb.Summary, error) {
	out := &pb.Summary{}
	err := s.reads.Call(ctx, func() {
		out.Nodes, out.Decisions, out.PodsBound = uint64(s.state.Nodes()), s.seq, s.metrics.PodsBound()
		out.PodsPending = uint64(s.queue.Len(queue.Unschedulable) + s.queue.Len(queue.Gated))
		out.Idle = s.idle()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Pulse tells how far the scheduler is, and since when the oldest pod waits.
func (s *Scheduler) Pulse(ctx context.Context) (*observe.Pulse, error) {
	x := observe.NewPulse(s.queue, func() (decided, bound uint64) { return s.seq, s.metrics.PodsBound() })
	if err := s.reads.Read(ctx, x.Read()); err != nil {
		return nil, err
	}
	return x, nil
}

// debugger logs what the loop knows.
func (s *Scheduler) debugger() observe.Debugger {
	ours := func(p *v1.Pod) bool { return s.cfg.Profiles[p.Spec.SchedulerName] != nil }
	return observe.Debugger{Reads: s.reads, Cluster: s.state, Queue: s.queue, Ours: ours}
}

// Compare logs in what the state of the cluster differs from the nodes and pods that list gives.
func (s *Scheduler) Compare(ctx context.Context, list func() ([]*v1.Node, []*v1.Pod, error)) error {
	return s.debugger().Compare(ctx, list)
}

// Dump logs the state of the cluster and the queue.
func (s *Scheduler) Dump(ctx context.Context) error { return s.debugger().Dump(ctx) }
