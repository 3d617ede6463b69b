package cli

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strconv"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/worker"
)

// localWorkers are workers of this process: gRPC servers of their own on loopback,
// asked in the same way as any other worker.
type localWorkers struct {
	count      int
	cluster    string
	tls        serving.TLS
	etcd       *clientv3.Client // nil: they do not register
	registerer prometheus.Registerer
	tracer     trace.TracerProvider // nil: they make no spans
}

// start serves them in g until its context ends, and returns who they are.
func (w localWorkers) start(ctx context.Context, g *errgroup.Group) ([]fanout.Member, error) {
	credentials, err := w.tls.ServerCredentials()
	if err != nil {
		return nil, err
	}
	// They share the machine's cores: each gets its part.
	cores := max(1, runtime.GOMAXPROCS(0)/max(w.count, 1))
	var members []fanout.Member
	for i := range w.count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("worker %d: %w", i, err)
		}
		s := worker.New(worker.Config{
			ID:             "local-" + strconv.Itoa(i) + "-" + uuid.NewString()[:8],
			Address:        l.Addr().String(),
			Cores:          cores,
			Version:        Version(),
			Registerer:     prometheus.WrapRegistererWith(prometheus.Labels{"worker": strconv.Itoa(i)}, w.registerer),
			TracerProvider: w.tracer,
		})
		run := worker.RunConfig{Listener: l, Options: []grpc.ServerOption{grpc.Creds(credentials)}}
		if w.etcd != nil {
			run.Registration = worker.NewRegistration(worker.RegistrationConfig{
				Client: w.etcd, Cluster: w.cluster, Member: s.Member(),
			})
		}
		g.Go(func() error { return s.Run(ctx, run) })
		m := s.Member()
		members = append(members, fanout.Member{ID: m.Id, Address: m.Address, Cores: m.Cores, Version: m.Version})
	}
	return members, nil
}
