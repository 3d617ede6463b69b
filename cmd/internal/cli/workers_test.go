package cli

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/worker"
)

// fleet is workers that are served from this process, through gRPC.
type fleet struct {
	ctx context.Context
	g   *errgroup.Group
	// killAt is the call that is a worker's last.
	killAt int64
	calls  atomic.Int64
	// tell is told of the members when one has come back.
	tell func([]fanout.Member)

	mu      sync.Mutex
	members []fanout.Member
	killed  int
}

// startWorkers serves n workers. The one that gets the killAt-th evaluation dies in the
// middle of it, without an answer; 0: none does. Where tell is set, another comes in its
// place at once, which holds no table, and the next killAt-th evaluation is again one's last.
func startWorkers(ctx context.Context, t *testing.T, g *errgroup.Group, n int, killAt int64, tell func([]fanout.Member)) *fleet {
	t.Helper()
	f := &fleet{ctx: ctx, g: g, killAt: killAt, tell: tell, members: make([]fanout.Member, n)}
	for i := range n {
		if err := f.serve(i); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// serve starts a worker in the i-th place.
func (f *fleet) serve(i int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var s *grpc.Server
	s = grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		if !f.last() {
			return h(ctx, req)
		}
		if err := f.died(i); err != nil {
			return nil, err
		}
		go s.Stop()
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	w := worker.New(worker.Config{Cluster: "test", ID: "w" + strconv.Itoa(i), Address: l.Addr().String(), Cores: 1})
	pb.RegisterWorkerServiceServer(s, w)
	f.g.Go(func() error {
		context.AfterFunc(f.ctx, s.Stop)
		if err := s.Serve(l); !errors.Is(err, grpc.ErrServerStopped) { // all may be decided before it serves
			return err
		}
		return nil
	})
	m := w.Member()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[i] = fanout.Member{ID: m.Id, Address: m.Address, Cores: m.Cores}
	return nil
}

// last tells whether a call is a worker's last.
func (f *fleet) last() bool {
	n := f.calls.Add(1)
	if f.killAt == 0 || f.tell == nil {
		return n == f.killAt
	}
	return n%f.killAt == 0
}

// died puts another worker in the place of one, and tells of it.
func (f *fleet) died(i int) error {
	f.mu.Lock()
	f.killed++
	f.mu.Unlock()
	if f.tell == nil || f.ctx.Err() != nil {
		return nil
	}
	if err := f.serve(i); err != nil {
		return err
	}
	f.tell(f.alive())
	return nil
}

func (f *fleet) alive() []fanout.Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.members)
}
