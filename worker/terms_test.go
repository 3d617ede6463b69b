package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
	"github.com/shardsched/shardsched/worker"
)

// election is what etcd says.
type election struct {
	term  atomic.Uint64
	away  atomic.Bool
	asked atomic.Int64
}

func (e *election) leading(context.Context) (uint64, error) {
	e.asked.Add(1)
	if e.away.Load() {
		return 0, errors.New("etcd is away")
	}
	return e.term.Load(), nil
}

// newElected is a rig whose leader has sent a shard.
func newElected(t *testing.T) (*rig, *election) {
	e := &election{}
	r := newRig(t, worker.Config{Leading: e.leading})
	e.term.Store(r.term)
	r.fill(0, 20)
	r.load(0)
	return r, e
}

// wantServed checks that the leader is answered.
func (r *rig) wantServed() {
	r.t.Helper()
	q := query(1, 1000)
	req := r.request(r.at(0), q)
	r.wantRight(req, r.evaluate(req), q)
}

// Whoever may call, and claims a term that does not lead, harms nobody.
func TestATermThatDoesNotLeadIsRefused(t *testing.T) {
	r, e := newElected(t)
	for _, term := range []uint64{8, math.MaxUint64} {
		_, err := r.client.Evaluate(t.Context(), &pb.EvaluateRequest{Cluster: "blue", Rules: scan.Rules(), Term: term})
		wantCode(t, err, codes.FailedPrecondition, "does not lead")
		_, err = r.send(&pb.LoadSnapshotRequest{Header: &pb.SnapshotHeader{Cluster: "blue", Rules: scan.Rules(), Term: term}})
		wantCode(t, err, codes.FailedPrecondition, "does not lead")
		r.wantServed()
	}
	r.wantMetric(7, "shardsched_worker_term")
	r.wantMetric(4, "shardsched_worker_terms_refused_total")

	e.term.Store(9)
	r.term = 9
	r.load(0)
	r.wantServed()
	r.term = 7
	_, err := r.client.Evaluate(t.Context(), r.request(r.at(0)))
	wantCode(t, err, codes.FailedPrecondition, "term 7 is over, term 9 leads")
}

// A header that is not valid is refused before anything is made of it, or asked.
func TestATermIsLookedAtAfterTheRest(t *testing.T) {
	r, e := newElected(t)
	e.term.Store(8)
	asked := e.asked.Load()
	_, err := r.send(&pb.LoadSnapshotRequest{Header: &pb.SnapshotHeader{Cluster: "blue", Rules: scan.Rules(), Term: 8, Shard: pb.MaxShard}})
	wantCode(t, err, codes.InvalidArgument, "snapshot header: shard")
	_, err = r.client.Evaluate(t.Context(), &pb.EvaluateRequest{Cluster: "blue", Rules: scan.Rules(), Term: 8, Classes: []*pb.ClassRequest{{}}})
	wantCode(t, err, codes.InvalidArgument, "classes[0]")
	r.wantServed()
	if n := e.asked.Load() - asked; n > 0 {
		t.Errorf("etcd was asked %d times, want none", n)
	}
}

func TestWithoutEtcdTheKnownTermIsServed(t *testing.T) {
	r, e := newElected(t)
	e.away.Store(true)
	r.wantServed()
	_, err := r.client.Evaluate(t.Context(), &pb.EvaluateRequest{Cluster: "blue", Rules: scan.Rules(), Term: 8})
	wantCode(t, err, codes.Unavailable, "etcd is away")
	r.wantServed()
	e.away.Store(false)
	e.term.Store(8)
	r.term = 8
	r.load(0)
	r.wantServed()
}

func TestAnotherClusterIsRefused(t *testing.T) {
	r, _ := newElected(t)
	for range 3 {
		_, err := r.client.Evaluate(t.Context(), &pb.EvaluateRequest{Cluster: "green", Rules: scan.Rules(), Term: 8})
		wantCode(t, err, codes.InvalidArgument, `cluster "green": this worker serves the cluster "blue"`)
		_, err = r.send(&pb.LoadSnapshotRequest{Header: &pb.SnapshotHeader{Cluster: "green", Rules: scan.Rules(), Term: 8}})
		wantCode(t, err, codes.InvalidArgument, "green")
	}
	r.wantMetric(0, "shardsched_worker_term", "green")
	r.wantServed()
}

// A term that many requests bring is asked for once.
func TestEtcdIsAskedOnceATerm(t *testing.T) {
	r, e := newElected(t)
	for range 5 {
		r.wantServed()
	}
	if n := e.asked.Load(); n != 1 {
		t.Errorf("etcd was asked %d times, want once", n)
	}
}

// The first of the contenders leads, whatever their keys are called.
func TestLeadingTermIsTheFirstContenders(t *testing.T) {
	etcd := startEtcd(t)
	leading := worker.LeadingTerm(etcd, "blue")
	want := func(when string, want int64) {
		t.Helper()
		if got, err := leading(t.Context()); err != nil || got != uint64(want) {
			t.Errorf("%s: got term %d, %v; want %d", when, got, err, want)
		}
	}
	put := func(key string) int64 {
		t.Helper()
		resp, err := etcd.Put(t.Context(), key, "")
		if err != nil {
			t.Fatal(err)
		}
		return resp.Header.Revision
	}
	want("before there is one", 0)
	put("/shardsched/green/leader/a")
	first := put("/shardsched/blue/leader/b")
	second := put("/shardsched/blue/leader/a")
	put("/shardsched/blue/leader/b") // changes its value
	want("with two contenders", first)
	if _, err := etcd.Delete(t.Context(), "/shardsched/blue/leader/b", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	want("without the first", second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := leading(ctx); err == nil {
		t.Error("without an answer: got no error")
	}
}

// A coordinator of another version gets no answer by rules that are not its own.
func TestOtherRulesAreNotAnswered(t *testing.T) {
	r, e := newElected(t)
	e.term.Store(8)
	for _, rules := range []uint64{0, scan.Rules() + 1} {
		req := r.request(r.at(0), query(1, 1000))
		req.Rules, req.Term = rules, 8
		_, err := r.client.Evaluate(t.Context(), req)
		wantCode(t, err, codes.Unimplemented, fmt.Sprintf("rules %016x: this worker computes by the rules %016x", rules, scan.Rules()))
		_, err = r.send(&pb.LoadSnapshotRequest{Header: &pb.SnapshotHeader{Cluster: "blue", Term: 8, Rules: rules}})
		wantCode(t, err, codes.Unimplemented, "rules")
		// What looks wrong here may be right there: it is not called a bug.
		req = r.request(r.at(0), query(1, 1000))
		req.Rules, req.Term, req.Queries[0].Filters = rules, 8, []pb.Plugin{1 << 20}
		_, err = r.client.Evaluate(t.Context(), req)
		wantCode(t, err, codes.Unimplemented, "rules")
		_, err = r.send(&pb.LoadSnapshotRequest{Header: &pb.SnapshotHeader{Cluster: "blue", Term: 8, Rules: rules, Shard: pb.MaxShard + 1}})
		wantCode(t, err, codes.Unimplemented, "rules")
	}
	r.wantServed() // in the term that it knows
	if got := r.server.Member().GetRules(); got != scan.Rules() {
		t.Errorf("registered: got rules %016x, want %016x", got, scan.Rules())
	}
}
