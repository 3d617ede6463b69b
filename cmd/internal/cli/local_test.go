package cli

import (
	"context"
	"io"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
	"github.com/shardsched/shardsched/worker"
)

// TestLocalWorkersAreNobodyElses has pods decided by the workers of a coordinator's process, of which
// etcd knows nothing.
func TestLocalWorkersAreNobodyElses(t *testing.T) {
	p := start(t, "coordinator", "--standalone", "--embedded-etcd", "--embedded-etcd-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http-listen", "", "--local-workers", "2")
	endpoint := p.line("etcd serves on ")
	c, err := client.New(client.Config{Addresses: []string{p.line("coordinator serves clients on ")}, Patience: submitPatience, Dial: client.DialWith(insecure.NewCredentials())})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in, err := readInput(Streams{}, UpOptions{Demo: true}.input())
	if err != nil {
		t.Fatal(err)
	}
	if err := (&applier{client: c, lines: io.Discard}).apply(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	var asked uint64
	for asked == 0 {
		err := c.Do(t.Context(), func(ctx context.Context, s pb.SchedulerServiceClient) error {
			resp, err := s.ListWorkers(ctx, &pb.ListWorkersRequest{})
			if len(resp.GetWorkers()) != 2 && err == nil {
				t.Fatalf("want 2 workers, got %v", resp.GetWorkers())
			}
			for _, w := range resp.GetWorkers() {
				asked += w.GetRequests()
				if w.GetAddress() != inProcess || w.GetFailures() > 0 {
					t.Errorf("want a worker of this process without failures, got %v", w)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	etcd, err := Etcd{Endpoints: []string{endpoint}}.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	found, err := etcd.Get(t.Context(), "/shardsched/default/workers/", clientv3.WithPrefix())
	if err != nil || found.Count != 0 {
		t.Errorf("want no registration, got %v, %v", found.Kvs, err)
	}
}

// What is served within the process must not end it, either, where a call panics.
func TestACallWithinTheProcessThatPanicsEndsByItself(t *testing.T) {
	w := newLocalWorkers(1, "c", newRegistry(), nil)
	w.servers[0] = worker.New(worker.Config{Cluster: "c", Leading: func(context.Context) (uint64, error) { panic("of a worker") }})
	server := api.New(api.Config{Self: &pb.LeaderRecord{}})
	server.SetLeading(nil, nil, panickingScheduler{})
	l := bufconn.Listen(pipeBytes)
	ctx, end := context.WithTimeout(t.Context(), time.Minute) // workers want a deadline
	g, ctx := errgroup.WithContext(ctx)
	w.serve(ctx, g, &serving.Guard{})
	g.Go(func() error { return service{}.serveAPI(ctx, l, server, &serving.Guard{}) })

	asked, closer, err := w.dial(nil, nil)(ctx, w.members[0])
	if err != nil {
		t.Fatal(err)
	}
	_, err = asked.Evaluate(ctx, &pb.EvaluateRequest{Cluster: "c", Rules: scan.Rules(), Term: 1})
	closer.Close()
	if status.Code(err) != codes.Internal {
		t.Errorf("a worker: got %v, want INTERNAL", err)
	}
	conn, err := grpc.NewClient("passthrough:///", grpc.WithTransportCredentials(insecure.NewCredentials()), within(l))
	if err != nil {
		t.Fatal(err)
	}
	_, err = pb.NewSchedulerServiceClient(conn).GetSummary(ctx, &pb.GetSummaryRequest{})
	conn.Close()
	if status.Code(err) != codes.Internal {
		t.Errorf("the client API: got %v, want INTERNAL", err)
	}
	end()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// panickingScheduler panics whatever it is asked.
type panickingScheduler struct{ api.Scheduler }
