package cli

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// world is a scheduler in this process that is loaded with a cluster and serves nobody else: conn reaches its client API.
type world struct {
	*coordinator.Scheduler
	conn grpc.ClientConnInterface
	end  func() error
}

// newWorld begins a world, which runs until its end is called. id is the leader's in its answers.
func newWorld(ctx context.Context, id string, cfg coordinator.SchedulerConfig, all *objects.Snapshot) (*world, error) {
	s, err := coordinator.NewScheduler(cfg)
	if err != nil {
		return nil, err
	}
	s.Load(all, nil)
	server := api.New(api.Config{Self: &pb.LeaderRecord{Id: id}})
	server.SetLeading(nil, endless{}, s)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Run(gctx) })
	return &world{
		Scheduler: s, conn: (&serving.Guard{}).Within(&pb.SchedulerService_ServiceDesc, server, maxRequestBytes),
		end: func() error {
			cancel()
			if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	}, nil
}

// endless is the fence of a term that nobody else can take.
type endless struct{}

// Check is part of lease.Fence.
func (endless) Check() error { return nil }

// Compare is part of lease.Fence. Nothing is written.
func (endless) Compare() clientv3.Cmp { return clientv3.Cmp{} }
