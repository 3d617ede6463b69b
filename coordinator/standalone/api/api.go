package api

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Scheduler is what the API asks of the leading coordinator's loop. An error that is
// a gRPC status passes to the client as it is.
type Scheduler interface {
	Explain(ctx context.Context, req *pb.ExplainRequest) (*pb.ExplainResponse, error)
	ExplainNode(ctx context.Context, req *pb.ExplainNodeRequest) (*pb.ExplainNodeResponse, error)
	Summary(ctx context.Context) (*pb.Summary, error)
	Workers(ctx context.Context) ([]*pb.WorkerStatus, error)
	Shards(ctx context.Context) ([]*pb.ShardStatus, error)
	Devices(ctx context.Context, req *pb.ListDevicesRequest) (*pb.ListDevicesResponse, error)
	Pending(ctx context.Context, req *pb.ListPendingRequest) (*pb.ListPendingResponse, error)
	PodGroups(ctx context.Context, req *pb.ListPodGroupsRequest) (*pb.ListPodGroupsResponse, error)
	PodGroup(ctx context.Context, req *pb.ExplainPodGroupRequest) (*pb.ExplainPodGroupResponse, error)
	Decisions(ctx context.Context, req *pb.ListDecisionsRequest) (*pb.ListDecisionsResponse, error)
	NodeMap(ctx context.Context, req *pb.GetNodeMapRequest) (*pb.GetNodeMapResponse, error)
	MapNodes(ctx context.Context, req *pb.ListMapNodesRequest) (*pb.ListMapNodesResponse, error)
	Fragmentation(ctx context.Context) (*pb.GetFragmentationResponse, error)
	Plugins(ctx context.Context) (*pb.ListPluginsResponse, error)
	Lacking(ctx context.Context) ([]*pb.LackingPods, error)
}

// Config tells who this coordinator is.
type Config struct {
	// Self is this coordinator's own record, by which GetLeader answers while it leads.
	Self *pb.LeaderRecord
	// Traces gives the traces that this process has kept; nil: none.
	Traces func(*pb.ListTracesRequest) *pb.ListTracesResponse
	// Configuration is what GetConfiguration tells, without pods; nil: nothing.
	Configuration *pb.GetConfigurationResponse
	// Clock measures how long watchers take; nil: the real one.
	Clock clock.WithDelayedExecution
}

// Server answers clients. It begins as a follower of nobody.
type Server struct {
	pb.UnimplementedSchedulerServiceServer
	self   *pb.LeaderRecord
	traces func(*pb.ListTracesRequest) *pb.ListTracesResponse
	clock  clock.WithDelayedExecution
	// configuration never changes.
	configuration *pb.GetConfigurationResponse

	mu   sync.Mutex
	role *role // guarded by mu; what it points to never changes
}

// role is what the server is at one time.
type role struct {
	leader *pb.LeaderRecord // nil: nobody leads
	term   *term            // nil: it follows
	// held is the Lease that another holds, for which this coordinator waits, and holder is who holds it; empty: none.
	held, holder string
}

// term is what a leading server answers with. ctx ends with it.
type term struct {
	store *store.Store
	fence lease.Fence
	sched Scheduler
	ctx   context.Context
	end   context.CancelFunc
}

// New returns a follower that knows no leader.
func New(cfg Config) *Server {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Traces == nil {
		cfg.Traces = func(*pb.ListTracesRequest) *pb.ListTracesResponse { return &pb.ListTracesResponse{} }
	}
	return &Server{self: cfg.Self, traces: cfg.Traces, clock: cfg.Clock, role: &role{}, configuration: cfg.Configuration}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { pb.RegisterSchedulerServiceServer(r, s) }

// SetLeading makes the server answer from now on. Without a store (nil) the objects are the
// Kubernetes API server's: they are refused here, and the rest is answered.
func (s *Server) SetLeading(st *store.Store, f lease.Fence, sched Scheduler) {
	ctx, end := context.WithCancel(context.Background())
	s.become(func(*role) *role {
		return &role{leader: s.self, term: &term{store: st, fence: f, sched: sched, ctx: ctx, end: end}}
	})
}

// SetFollowing makes the server refuse, naming the leader (nil: nobody leads), and ends
// the watches of the time when it led. Who holds the Lease stays: of leaders in etcd the server may be told later.
func (s *Server) SetFollowing(leader *pb.LeaderRecord) {
	s.become(func(before *role) *role { return &role{leader: leader, held: before.held, holder: before.holder} })
}

// StandBy makes the server tell, where no leader is known, that another holds the Lease for which this coordinator waits.
func (s *Server) StandBy(held, holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.role.term == nil {
		next := *s.role
		next.held, next.holder = held, holder
		s.role = &next
	}
}

func (s *Server) become(next func(before *role) *role) {
	s.mu.Lock()
	before := s.role
	s.role = next(before)
	s.mu.Unlock()
	if before.term != nil {
		before.term.end()
	}
}

func (s *Server) now() *role {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.role
}

// begin is the start of every call but GetLeader: the request is checked and there is
// a term to answer in.
func (s *Server) begin(req any) (*term, error) {
	r := s.now()
	if r.term == nil {
		return nil, r.refusal()
	}
	if err := r.term.fence.Check(); err != nil {
		return nil, notLeader(nil) // the next leader is not known yet
	}
	if v, ok := req.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return nil, invalidArgument(err.Error())
		}
	}
	return r.term, nil
}

// refusal names who leads, or who holds the Lease.
func (r *role) refusal() error {
	if r.leader != nil || r.holder == "" {
		return notLeader(r.leader)
	}
	message := fmt.Sprintf("%s holds %s; this coordinator stands by", r.holder, r.held)
	return newStatus(codes.FailedPrecondition, message, &pb.NotLeader{Holder: r.holder})
}

// beginStored is begin for what is about objects.
func (s *Server) beginStored(req any) (*term, error) {
	t, err := s.begin(req)
	if err == nil && t.store == nil {
		return nil, newStatus(codes.FailedPrecondition, "objects are the API server's: use kubectl", &pb.NotKept{})
	}
	return t, err
}

// GetLeader names the leader. Any coordinator answers it.
func (s *Server) GetLeader(context.Context, *pb.GetLeaderRequest) (*pb.GetLeaderResponse, error) {
	r := s.now()
	return &pb.GetLeaderResponse{Leader: r.leader, IsSelf: r.term != nil && r.term.fence.Check() == nil}, nil
}

// Explain tells why a pod is where it is, or why it is nowhere.
func (s *Server) Explain(ctx context.Context, req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.Explain(ctx, req)
	return resp, schedulerStatus(err)
}

// ExplainNode tells what a node has left.
func (s *Server) ExplainNode(ctx context.Context, req *pb.ExplainNodeRequest) (*pb.ExplainNodeResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.ExplainNode(ctx, req)
	return resp, schedulerStatus(err)
}

// GetSummary tells what the scheduler did since it began to lead.
func (s *Server) GetSummary(ctx context.Context, req *pb.GetSummaryRequest) (*pb.GetSummaryResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	summary, err := t.sched.Summary(ctx)
	if err != nil {
		return nil, schedulerStatus(err)
	}
	return &pb.GetSummaryResponse{Summary: summary}, nil
}

// ListWorkers tells the live workers and what they did.
func (s *Server) ListWorkers(ctx context.Context, req *pb.ListWorkersRequest) (*pb.ListWorkersResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	workers, err := t.sched.Workers(ctx)
	if err != nil {
		return nil, schedulerStatus(err)
	}
	return &pb.ListWorkersResponse{Workers: workers}, nil
}

// ListShards tells the shards and who holds them.
func (s *Server) ListShards(ctx context.Context, req *pb.ListShardsRequest) (*pb.ListShardsResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	shards, err := t.sched.Shards(ctx)
	if err != nil {
		return nil, schedulerStatus(err)
	}
	return &pb.ListShardsResponse{Shards: shards}, nil
}

// ListDevices pages through the devices that slices offer.
func (s *Server) ListDevices(ctx context.Context, req *pb.ListDevicesRequest) (*pb.ListDevicesResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.Devices(ctx, req)
	return resp, schedulerStatus(err)
}

// ListPending tells what pending pods want and do not get.
func (s *Server) ListPending(ctx context.Context, req *pb.ListPendingRequest) (*pb.ListPendingResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.Pending(ctx, req)
	return resp, schedulerStatus(err)
}

// ListPodGroups pages through the pod groups, with why each of them waits.
func (s *Server) ListPodGroups(ctx context.Context, req *pb.ListPodGroupsRequest) (*pb.ListPodGroupsResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.PodGroups(ctx, req)
	return resp, schedulerStatus(err)
}

// ExplainPodGroup tells why a pod group waits, and what became of each of its members.
func (s *Server) ExplainPodGroup(ctx context.Context, req *pb.ExplainPodGroupRequest) (*pb.ExplainPodGroupResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.PodGroup(ctx, req)
	return resp, schedulerStatus(err)
}

// ListDecisions pages through the decisions that are remembered.
func (s *Server) ListDecisions(ctx context.Context, req *pb.ListDecisionsRequest) (*pb.ListDecisionsResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.Decisions(ctx, req)
	return resp, schedulerStatus(err)
}

// GetNodeMap tells one thing of every node.
func (s *Server) GetNodeMap(ctx context.Context, req *pb.GetNodeMapRequest) (*pb.GetNodeMapResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.NodeMap(ctx, req)
	return resp, schedulerStatus(err)
}

// ListMapNodes names nodes by their places in a map.
func (s *Server) ListMapNodes(ctx context.Context, req *pb.ListMapNodesRequest) (*pb.ListMapNodesResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.MapNodes(ctx, req)
	return resp, schedulerStatus(err)
}

// GetFragmentation tells how what is left of each resource is spread over the nodes.
func (s *Server) GetFragmentation(ctx context.Context, req *pb.GetFragmentationRequest) (*pb.GetFragmentationResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.Fragmentation(ctx)
	return resp, schedulerStatus(err)
}

// ListPlugins tells what plugins and extenders take.
func (s *Server) ListPlugins(ctx context.Context, req *pb.ListPluginsRequest) (*pb.ListPluginsResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.sched.Plugins(ctx)
	return resp, schedulerStatus(err)
}

// GetConfiguration tells by what the scheduler decides.
func (s *Server) GetConfiguration(ctx context.Context, req *pb.GetConfigurationRequest) (*pb.GetConfigurationResponse, error) {
	t, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	lacking, err := t.sched.Lacking(ctx)
	if err != nil {
		return nil, schedulerStatus(err)
	}
	resp := &pb.GetConfigurationResponse{}
	proto.Merge(resp, s.configuration)
	resp.Lacking = lacking
	return resp, nil
}

// ListTraces tells the last attempts whose traces the leader has kept.
func (s *Server) ListTraces(_ context.Context, req *pb.ListTracesRequest) (*pb.ListTracesResponse, error) {
	if _, err := s.begin(req); err != nil {
		return nil, err
	}
	return s.traces(req), nil
}
