package worker

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/utils/clock"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

// What a Config leaves out.
const (
	DefaultCacheBytes   = 1 << 30
	DefaultCacheClasses = 4096
)

// Config is what a worker is made of. The zero value of each field but Cluster is usable.
type Config struct {
	// Cluster is the one that the worker serves; requests for others are refused.
	Cluster string
	// Leading tells which term leads the cluster: LeadingTerm. It is asked where a term comes that is newer
	// than those before; nil: whoever comes is believed, as where nobody else can come.
	Leading func(context.Context) (uint64, error)
	// ID is unique to one life of one process; empty: a new UUID.
	ID string
	// Address is the host:port where a coordinator reaches the worker.
	Address string
	// Cores to evaluate on, and the worker's weight; 0: all that Go may use.
	Cores int
	// Version of the program, for people to read.
	Version string
	// CacheBytes is the budget for shards; 0: DefaultCacheBytes.
	CacheBytes int64
	// CacheClasses is how many compiled classes are kept; 0: DefaultCacheClasses.
	CacheClasses int
	// Registerer takes the metrics; nil: they are kept nowhere. Two workers of one
	// process need registerers that tell them apart.
	Registerer prometheus.Registerer
	// Clock measures durations; nil: the real one.
	Clock clock.PassiveClock
	// TracerProvider makes spans of the requests whose sender samples them; nil: nobody
	// does.
	TracerProvider trace.TracerProvider
}

// withDefaults fills in what c leaves out.
func (c Config) withDefaults() Config {
	if c.ID == "" {
		c.ID = uuid.NewString()
	}
	if c.CacheBytes <= 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.CacheClasses <= 0 {
		c.CacheClasses = DefaultCacheClasses
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c
}

// Server implements pb.WorkerServiceServer. It is safe for concurrent use.
type Server struct {
	pb.UnimplementedWorkerServiceServer

	cfg     Config
	clock   clock.PassiveClock
	pool    *scan.Pool
	answers scan.Answers
	terms   *terms
	turns   turns
	shards  *shardCache
	classes *classCache
	metrics *metrics
	// building are the tables of snapshots that are under way.
	building building
	health   *health.Server
	tracer   trace.Tracer // nil: no spans
}

// New makes a worker that holds nothing yet.
func New(cfg Config) *Server {
	cfg = cfg.withDefaults()
	m := newMetrics(cfg.Registerer)
	s := &Server{
		cfg:      cfg,
		clock:    cfg.Clock,
		pool:     scan.NewPool(cfg.Cores, cfg.Clock),
		terms:    newTerms(&cfg, m),
		shards:   newShardCache(cfg.CacheBytes, m),
		classes:  newClassCache(cfg.CacheClasses, m),
		metrics:  m,
		building: building{budget: cfg.CacheBytes},
		health:   health.NewServer(),
	}
	if cfg.TracerProvider != nil {
		s.tracer = cfg.TracerProvider.Tracer(instrumentation)
	}
	s.setServing(healthpb.HealthCheckResponse_SERVING)
	return s
}

// Register adds the worker's services, gRPC health among them.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	pb.RegisterWorkerServiceServer(r, s)
	healthpb.RegisterHealthServer(r, s.health)
}

// Member is what the worker registers in etcd.
func (s *Server) Member() *pb.WorkerRegistration {
	return &pb.WorkerRegistration{
		Id:      s.cfg.ID,
		Address: s.cfg.Address,
		Cores:   uint32(s.pool.Cores()),
		Version: s.cfg.Version,
		Rules:   scan.Rules(),
	}
}

// Evaluate implements pb.WorkerServiceServer.
func (s *Server) Evaluate(ctx context.Context, req *pb.EvaluateRequest) (*pb.EvaluateResponse, error) {
	start := s.clock.Now()
	spans := s.trace(ctx, req, start)
	resp, err := s.evaluate(ctx, req, spans)
	err = toStatus(err)
	spans.finish(err)
	took := s.clock.Since(start)
	s.metrics.request("Evaluate", err, took)
	if err != nil {
		return nil, err
	}
	resp.BusyNanos = uint64(max(took, 0) / time.Nanosecond)
	return resp, nil
}

// setServing sets the health of all services.
func (s *Server) setServing(status healthpb.HealthCheckResponse_ServingStatus) {
	s.health.SetServingStatus("", status)
	s.health.SetServingStatus(pb.WorkerService_ServiceDesc.ServiceName, status)
}
