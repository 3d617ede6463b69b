package fanout_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/coordinator/embedetcd"
	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestWatchMembersFollowsRegistrations(t *testing.T) {
	server, err := embedetcd.Start(t.Context(), embedetcd.Config{DataDir: t.TempDir(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client, err := server.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := client.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	register := func(cluster, id string) {
		t.Helper()
		value, err := proto.Marshal(&pb.WorkerRegistration{Id: id, Address: "127.0.0.1:1", Cores: 2, Version: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		put("/shardsched/"+cluster+"/workers/"+id, value)
	}
	member := func(id string) fanout.Member {
		return fanout.Member{ID: id, Address: "127.0.0.1:1", Cores: 2, Version: "v1"}
	}

	register("blue", "b")
	register("green", "x") // another cluster's
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told, ended := make(chan []fanout.Member, 16), make(chan error, 1)
	go func() {
		ended <- fanout.WatchMembers(ctx, client, "blue", func(m []fanout.Member) { told <- m })
	}()
	want := func(members ...fanout.Member) {
		t.Helper()
		if diff := cmp.Diff(append([]fanout.Member{}, members...), append([]fanout.Member{}, <-told...)); diff != "" {
			t.Fatalf("members (-want +got):\n%s", diff)
		}
	}
	want(member("b"))
	register("blue", "a")
	want(member("a"), member("b"))
	put("/shardsched/blue/workers/c", []byte("no registration"))
	want(member("a"), member("b"))
	put("/shardsched/blue/workers/d", nil) // a registration without an id
	want(member("a"), member("b"))
	if _, err := client.Delete(t.Context(), "/shardsched/blue/workers/b"); err != nil {
		t.Fatal(err)
	}
	want(member("a"))
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the context's error", err)
	}
}
