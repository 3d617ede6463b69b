package cli

import (
	"context"
	"io"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
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
