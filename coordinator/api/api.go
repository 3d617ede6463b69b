package api

import (
	"context"

	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/coordinator/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Scheduler is what the API asks of the leading coordinator's loop. An error that is
// a gRPC status passes to the client as it is.
type Scheduler interface {
	Explain(ctx context.Context, req *pb.ExplainRequest) (*pb.ExplainResponse, error)
	Summary(ctx context.Context) (*pb.Summary, error)
	Workers(ctx context.Context) ([]*pb.WorkerStatus, error)
	Shards(ctx context.Context) ([]*pb.ShardStatus, error)
}

// Config tells who this coordinator is.
type Config struct {
	// Self is this coordinator's own record, by which GetLeader knows itself.
	Self *pb.LeaderRecord
}

// Server answers clients. It begins as a follower of nobody.
type Server struct {
	pb.UnimplementedSchedulerServiceServer
}

// New returns a follower that knows no leader.
func New(cfg Config) *Server { return &Server{} }

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { pb.RegisterSchedulerServiceServer(r, s) }

// SetLeading makes the server answer from now on.
func (s *Server) SetLeading(st *store.Store, f store.Fence, sched Scheduler) {}

// SetFollowing makes the server refuse, naming the leader (nil: nobody leads), and ends
// the watches of the time when it led.
func (s *Server) SetFollowing(leader *pb.LeaderRecord) {}
