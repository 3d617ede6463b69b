package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"k8s.io/klog/v2"
)

// MaxMessageBytes is the largest message on the wire in either direction.
const MaxMessageBytes = 4 << 20

// RunConfig says where a worker serves.
type RunConfig struct {
	Listener net.Listener
	// Options of the gRPC server: credentials, interceptors.
	Options []grpc.ServerOption
	// Registrar is what registers the services with the server; nil: the server itself.
	Registrar func(grpc.ServiceRegistrar) grpc.ServiceRegistrar
	// Registration is kept while the worker serves; nil: none, the coordinator is
	// told of the worker otherwise.
	Registration *Registration
	// DrainTimeout is how long requests in flight may take to end once the context
	// has; 0: 10 seconds.
	DrainTimeout time.Duration
}

// Run serves until ctx ends: it registers once it serves; at the end it
// deregisters, then reports NOT_SERVING, then waits for the requests in flight.
// It returns nil after a drain, however long that took.
func (s *Server) Run(ctx context.Context, cfg RunConfig) error {
	if cfg.DrainTimeout <= 0 {
		cfg.DrainTimeout = 10 * time.Second
	}
	// Who may call is asked before anything is told of the call.
	server := grpc.NewServer(slices.Concat(s.serverOptions(), cfg.Options, []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(boundedUnary), grpc.ChainStreamInterceptor(boundedStream),
	})...)
	if cfg.Registrar != nil {
		s.Register(cfg.Registrar(server))
	} else {
		s.Register(server)
	}
	s.setServing(healthpb.HealthCheckResponse_SERVING)

	served := make(chan error, 1)
	go func() { served <- server.Serve(netutil.LimitListener(cfg.Listener, maxConnections)) }()
	registered := make(chan error, 1)
	regCtx, stopRegistration := context.WithCancel(ctx)
	defer stopRegistration()
	go func() { registered <- register(regCtx, cfg.Registration) }()
	klog.FromContext(ctx).V(1).Info("Worker serves", "worker", s.cfg.ID, "address", cfg.Listener.Addr().String(), "cores", s.pool.Cores())

	select {
	case err := <-served:
		stopRegistration()
		return errors.Join(fmt.Errorf("serve on %s: %w", cfg.Listener.Addr(), err), <-registered)
	case <-ctx.Done():
	}
	if err := <-registered; err != nil {
		klog.FromContext(ctx).Error(err, "Worker drains without having deregistered", "worker", s.cfg.ID)
	}
	s.drain(server, cfg.DrainTimeout)
	<-served
	return nil
}

// serverOptions are those that the wire contract and the traffic ask for. Windows
// of a fixed size spare the pings by which gRPC would measure the connection, and
// stream workers a new stack for each request.
func (s *Server) serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes), grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.StaticStreamWindowSize(MaxMessageBytes), grpc.StaticConnWindowSize(2 * MaxMessageBytes),
		grpc.NumStreamWorkers(uint32(s.pool.Cores())),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderBytes), grpc.ConnectionTimeout(maxHandshake),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
	}
}

// register runs the registration if there is one.
func register(ctx context.Context, r *Registration) error {
	if r == nil {
		<-ctx.Done()
		return nil
	}
	return r.Run(ctx)
}

// drain ends the server when the requests in flight have ended, or after the
// limit.
func (s *Server) drain(server *grpc.Server, limit time.Duration) {
	s.setServing(healthpb.HealthCheckResponse_NOT_SERVING)
	timer := time.AfterFunc(limit, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
}
