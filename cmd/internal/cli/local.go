package cli

import (
	"context"
	"io"
	"net"
	"runtime"
	"strconv"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/worker"
)

// pipeBytes is the buffer of each direction of a connection within the process.
const pipeBytes = 1 << 20

// inProcess is the address of what only this process can dial.
const inProcess = "in-process"

// localWorkers are workers of this process: gRPC servers of their own, asked in the same way as
// any other worker, over connections that no other process can open.
type localWorkers struct {
	members   []fanout.Member
	servers   []*worker.Server
	listeners map[fanout.Member]*bufconn.Listener
}

// newLocalWorkers makes workers that do not serve yet. tracer may be nil: they make no spans.
func newLocalWorkers(count int, cluster string, registerer prometheus.Registerer, tracer trace.TracerProvider) *localWorkers {
	w := &localWorkers{listeners: make(map[fanout.Member]*bufconn.Listener, count)}
	// They share the machine's cores: each gets its part.
	cores := max(1, runtime.GOMAXPROCS(0)/max(count, 1))
	for i := range count {
		s := worker.New(worker.Config{
			Cluster:        cluster,
			ID:             "local-" + strconv.Itoa(i) + "-" + uuid.NewString()[:8],
			Address:        inProcess,
			Cores:          cores,
			Version:        Version(),
			Registerer:     prometheus.WrapRegistererWith(prometheus.Labels{"worker": strconv.Itoa(i)}, registerer),
			TracerProvider: tracer,
		})
		m := s.Member()
		member := fanout.Member{ID: m.Id, Address: m.Address, Cores: m.Cores, Version: m.Version}
		w.members, w.servers = append(w.members, member), append(w.servers, s)
		w.listeners[member] = bufconn.Listen(pipeBytes)
	}
	return w
}

// serve answers in g until its context ends. guard has a call that panics end by itself.
func (w *localWorkers) serve(ctx context.Context, g *errgroup.Group, guard *serving.Guard) {
	for i, s := range w.servers {
		g.Go(func() error {
			return s.Run(ctx, worker.RunConfig{Listener: w.listeners[w.members[i]], Options: guard.ServerOptions()})
		})
	}
}

// dial connects to the workers of this process, and to others by remote.
func (w *localWorkers) dial(remote fanout.Dial, options []grpc.DialOption) fanout.Dial {
	return func(ctx context.Context, m fanout.Member) (pb.WorkerServiceClient, io.Closer, error) {
		l, ours := w.listeners[m]
		if !ours {
			return remote(ctx, m)
		}
		return fanout.Dialer(append(options[:len(options):len(options)], within(l))...)(ctx, m)
	}
}

// within dials a listener of this process, whatever the address.
func within(l *bufconn.Listener) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
}
