package cli

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/worker"
)

// startWorkers serves n workers. The first dies in the middle of its killAt-th
// evaluation, without an answer; 0: it does not.
func startWorkers(ctx context.Context, t *testing.T, g *errgroup.Group, n int, killAt int64) []fanout.Member {
	t.Helper()
	var members []fanout.Member
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var s *grpc.Server
		var calls atomic.Int64
		s = grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			if i == 0 && calls.Add(1) == killAt {
				go s.Stop()
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return h(ctx, req)
		}))
		w := worker.New(worker.Config{ID: "w" + strconv.Itoa(i), Address: l.Addr().String(), Cores: 1})
		pb.RegisterWorkerServiceServer(s, w)
		g.Go(func() error {
			context.AfterFunc(ctx, s.Stop)
			return s.Serve(l)
		})
		m := w.Member()
		members = append(members, fanout.Member{ID: m.Id, Address: m.Address, Cores: m.Cores})
	}
	return members
}
