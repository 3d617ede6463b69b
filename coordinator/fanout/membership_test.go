package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
	"github.com/shardsched/shardsched/worker"
)

// newEtcd starts etcd for a test.
func newEtcd(t *testing.T) *clientv3.Client {
	t.Helper()
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
	return client
}

func TestWatchMembersFollowsRegistrations(t *testing.T) {
	client := newEtcd(t)
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := client.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	register := func(cluster, id string) {
		t.Helper()
		value, err := proto.Marshal(&pb.WorkerRegistration{Id: id, Address: "127.0.0.1:1", Cores: 2, Version: "v1", Rules: scan.Rules()})
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
	old, err := proto.Marshal(&pb.WorkerRegistration{Id: "old", Address: "127.0.0.1:1", Cores: 2, Version: "v0"})
	if err != nil {
		t.Fatal(err)
	}
	put("/shardsched/blue/workers/old", old)
	other := fanout.Member{ID: "old", Address: "127.0.0.1:1", Cores: 2, Version: "v0", OtherRules: true}
	want(member("a"), member("b"), other)
	if _, err := client.Delete(t.Context(), "/shardsched/blue/workers/b"); err != nil {
		t.Fatal(err)
	}
	want(member("a"), other)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the context's error", err)
	}
}

// Of more workers than a cluster may have those count that were there first, and others once these leave.
func TestRegistrationsAreBounded(t *testing.T) {
	const most = 1024
	client := newEtcd(t)
	name := func(i int) string { return fmt.Sprintf("w%04d", 9999-i) } // the later ones sort before
	register := func(i int) clientv3.Op {
		value, err := proto.Marshal(&pb.WorkerRegistration{Id: name(i), Address: "h:1", Cores: 1})
		if err != nil {
			t.Fatal(err)
		}
		return clientv3.OpPut("/shardsched/blue/workers/"+name(i), string(value))
	}
	do := func(ops ...clientv3.Op) {
		t.Helper()
		if _, err := client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	for from := range most / 64 {
		var ops []clientv3.Op
		for i := range 64 {
			ops = append(ops, register(64*from+i))
		}
		do(ops...)
	}
	do(register(most))
	told := make(chan []fanout.Member, 16)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- fanout.WatchMembers(ctx, client, "blue", func(m []fanout.Member) { told <- m })
	}()
	want := func(when string, first, last int) {
		t.Helper()
		got := <-told
		if len(got) != last-first+1 || got[0].ID != name(last) || got[len(got)-1].ID != name(first) {
			t.Fatalf("%s: got %d workers from %s to %s, want %d to %d", when, len(got), got[0].ID, got[len(got)-1].ID, first, last)
		}
	}
	want("one too many", 0, most-1)
	do(register(most + 1))
	want("one more", 0, most-1)
	do(clientv3.OpDelete("/shardsched/blue/workers/" + name(0)))
	want("once the first has left", 1, most)
	cancel()
	<-ended
}

// answers measures what etcd answers at once.
type answers struct {
	clientv3.KV
	largest int
}

func (a *answers) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	r, err := a.KV.Get(ctx, key, opts...)
	a.largest = max(a.largest, (*etcdserverpb.RangeResponse)(r).Size())
	return r, err
}

func (a *answers) Txn(ctx context.Context) clientv3.Txn { return &txn{a.KV.Txn(ctx), a} }

type txn struct {
	clientv3.Txn
	answers *answers
}

func (x *txn) Then(ops ...clientv3.Op) clientv3.Txn { return &txn{x.Txn.Then(ops...), x.answers} }

func (x *txn) Commit() (*clientv3.TxnResponse, error) {
	r, err := x.Txn.Commit()
	x.answers.largest = max(x.answers.largest, (*etcdserverpb.TxnResponse)(r).Size())
	return r, err
}

// A registration that is too large is left out, and few of them are in memory at once.
func TestLargeRegistrationsAreLeftOut(t *testing.T) {
	const most, prefix = 16384, "/shardsched/blue/workers/"
	client := newEtcd(t)
	put := func(id string, bytes int) {
		t.Helper()
		value, err := proto.Marshal(&pb.WorkerRegistration{Id: id, Address: "h:1", Cores: 1})
		if err != nil {
			t.Fatal(err)
		}
		// A field that nobody knows makes it longer, and else it is as good as any.
		padding := bytes - len(prefix) - len(id) - len(value) - 4
		value = protowire.AppendBytes(protowire.AppendTag(value, 1000, protowire.BytesType), make([]byte, padding))
		if got := len(prefix) + len(id) + len(value); got < bytes-1 || got > bytes+2 {
			t.Fatalf("made %d bytes, want %d", got, bytes)
		}
		if _, err := client.Put(t.Context(), prefix+id, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		put(fmt.Sprint("large", i), 1<<20)
	}
	put("over", most+3)
	put("good", most-2)
	seen := &answers{KV: client.KV}
	client.KV = seen
	told := make(chan []fanout.Member, 16)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- fanout.WatchMembers(ctx, client, "blue", func(m []fanout.Member) { told <- m })
	}()
	want := func(when string, ids ...string) {
		t.Helper()
		var got []string
		for _, m := range <-told {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%s: got workers %v, want %v", when, got, ids)
		}
	}
	want("at first", "good")
	if seen.largest < 10<<20 || seen.largest > 20<<20 {
		t.Errorf("the largest answer of etcd had %d bytes, want those of 16 registrations", seen.largest)
	}
	client.KV = seen.KV
	put("good", most+3)
	want("once it is too large")
	put("good", most-2)
	want("once it is not", "good")
	cancel()
	<-ended
}

// A worker of another version is listed, and not asked.
func TestAWorkerOfAnotherVersionIsNotAsked(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 100)
	f := fleet.fanout(t, c, 2, fanout.Config{Replicas: 2})
	members := fleet.members(2)
	members[0].OtherRules = true
	f.SetMembers(members)
	c.wantSame(t, f, requests(t, 5, true, query(1, 100, false), query(2, 500, true)))
	for id, asked := range map[string]bool{"w0": false, "w1": true} {
		if w := status(t, f, id); (w.GetRequests() > 0) != asked || (w.GetShards() == 8) != asked || (w.GetQuarantine() == "") != asked {
			t.Errorf("worker %s: got %v, want it asked: %t", id, w, asked)
		}
	}
	if got := f.Stats().LocalShards; got != 0 {
		t.Errorf("got %d shards evaluated here, want all by the other worker", got)
	}
	if slices.Contains(slices.Concat(f.ShardOwners()...), "w0") {
		t.Error("got shards for the worker of another version")
	}
}

func TestManyChangesOfRegistrationsAreToldTogether(t *testing.T) {
	const changes = 300
	client := newEtcd(t)
	last, tells := make(chan struct{}), 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- fanout.WatchMembers(ctx, client, "blue", func(m []fanout.Member) {
			if tells++; tells == 1 {
				close(begun)
			}
			if len(m) == 1 && m[0].Cores == changes {
				close(last)
			}
		})
	}()
	<-begun
	began := time.Now()
	for i := range changes {
		value, err := proto.Marshal(&pb.WorkerRegistration{Id: "a", Address: "127.0.0.1:1", Cores: uint32(i + 1), Version: "v1", Rules: scan.Rules()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Put(t.Context(), "/shardsched/blue/workers/a", string(value)); err != nil {
			t.Fatal(err)
		}
	}
	<-last // the last of them is told
	most := 1 + 16 + int(time.Since(began)/time.Second) + 1
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if tells > most {
		t.Errorf("%d changes were told %d times, want %d at the most", changes, tells, most)
	}
}
