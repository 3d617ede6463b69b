package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// writes tries every kind of write and returns their errors.
func writes(t *testing.T, s *store.Store, f lease.Fence, b objects.Binding) map[string]error {
	t.Helper()
	_, _, applied := s.Apply(t.Context(), f, []runtime.Object{pod("new")}, false)
	_, updated := s.Update(t.Context(), f, []objects.Object{b.Pod})
	_, _, deleted := s.Delete(t.Context(), f, []objects.Ref{ref(objects.KindPod, "default", "a")})
	return map[string]error{
		"apply":   applied,
		"delete":  deleted,
		"bind":    s.Bind(t.Context(), f, []objects.Binding{b})[0],
		"update":  updated,
		"journal": s.SaveEntries(t.Context(), f, map[types.UID]*pb.QueueEntry{"x": {}}, []types.UID{"y"}),
		"gangs":   s.SaveGangs(t.Context(), f, map[string]*pb.GangCommit{"d/g/1": {PodGroup: "d/g", Parts: 1}}, []string{"d/g/0"}),
		"history": s.SaveHistory(t.Context(), f, map[int][]byte{3: []byte("x")}),
	}
}

func TestADeposedLeaderWritesNothing(t *testing.T) {
	for name, depose := range map[string]func(*testing.T, *rig){
		"its deadline has passed":   func(_ *testing.T, r *rig) { r.fence.expired.Store(true) },
		"etcd has another's term":   func(t *testing.T, r *rig) { r.depose(t) },
		"both, the clock saw first": func(t *testing.T, r *rig) { r.fence.expired.Store(true); r.depose(t) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.apply(t, pod("a"))
			binding := objects.Binding{Pod: r.pod(t, "a"), Node: "n1"}
			depose(t, r)
			before := r.load(t).Revision
			for what, err := range writes(t, r.Store, r.fence, binding) {
				wantError(t, what, err, lease.ErrDeposed)
			}
			if after := r.load(t).Revision; after != before {
				t.Errorf("revision: got %d, want %d: something was written", after, before)
			}
		})
	}
}

func TestCheckComesBeforeEveryTransaction(t *testing.T) {
	r := newRig(t)
	r.apply(t, pods("p", 250)...)
	if got := r.fence.checks.Load(); got != 3 {
		t.Errorf("checks for 250 creates: got %d, want one for each of 3 transactions", got)
	}
}

func TestAPausedLeaderIsRefusedByClockAndByEtcd(t *testing.T) {
	r := newRig(t)
	clk := clocktesting.NewFakeClock(time.Now())
	elect := func(cfg lease.Config) *lease.Leadership {
		e, err := lease.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		l, err := e.Campaign(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Resign(context.WithoutCancel(t.Context())) })
		return l
	}
	paused := elect(lease.Config{Client: r.client, Cluster: "test", Record: &pb.LeaderRecord{Id: "paused"}, Clock: clk})
	if _, _, err := r.Apply(t.Context(), paused, []runtime.Object{pod("a")}, false); err != nil {
		t.Fatalf("while it leads: %v", err)
	}
	binding := objects.Binding{Pod: r.pod(t, "a"), Node: "n1"}
	// The scripted clock stands still, so no renewal goes out, and etcd ends the lease.
	leases, err := r.client.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("leases: got %v, %v, want one", leases, err)
	}
	if _, err := r.client.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	next := elect(lease.Config{Client: r.client, Cluster: "test", Record: &pb.LeaderRecord{Id: "next"}})
	onlyCompare := uncheckedFence{paused}
	for what, err := range writes(t, r.Store, onlyCompare, binding) {
		wantError(t, what+" behind a clock that stands", err, lease.ErrDeposed)
	}
	clk.Step(time.Hour)
	for what, err := range writes(t, r.Store, paused, binding) {
		wantError(t, what+" after it woke", err, lease.ErrDeposed)
	}
	if got := r.pod(t, "a"); got == nil || got.Spec.NodeName != "" {
		t.Fatalf("pod a: got %v, want it there and pending", got)
	}
	if errs := r.Bind(t.Context(), next, []objects.Binding{binding}); errs[0] != nil {
		t.Errorf("the next leader's bind: %v", errs[0])
	}
}

// uncheckedFence leaves Check out, so that Compare stands alone.
type uncheckedFence struct{ *lease.Leadership }

func (uncheckedFence) Check() error { return nil }

// flaky is a client whose connection loses answers, or requests.
type flaky struct {
	loseAnswers  atomic.Int64 // that many transactions are executed, but not answered
	loseRequests atomic.Int64
	onLoss       func()
}

func (fl *flaky) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	lost := status.Error(codes.Unavailable, "the test cut the connection")
	if method != "/etcdserverpb.KV/Txn" {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	if fl.loseRequests.Add(-1) >= 0 {
		fl.onLoss()
		return lost
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	if err == nil && fl.loseAnswers.Add(-1) >= 0 {
		fl.onLoss()
		return lost
	}
	return err
}

func (r *rig) flaky(t *testing.T) (*store.Store, *flaky) {
	t.Helper()
	fl := &flaky{onLoss: func() {}}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{r.etcd.Endpoint()},
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(fl.intercept)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return store.New(client, "test"), fl
}

func TestAWriteWhoseAnswerIsLostIsFoundAgain(t *testing.T) {
	for name, lose := range map[string]func(*flaky) *atomic.Int64{
		"the answer":  func(fl *flaky) *atomic.Int64 { return &fl.loseAnswers },
		"the request": func(fl *flaky) *atomic.Int64 { return &fl.loseRequests },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.apply(t, pod("a"), pod("b"))
			s, fl := r.flaky(t)

			a := r.pod(t, "a")
			lose(fl).Store(2)
			if errs := s.Bind(t.Context(), r.fence, []objects.Binding{{Pod: a, Node: "n1"}}); errs[0] != nil {
				t.Errorf("bind: %v", errs[0])
			}
			if got := r.pod(t, "a").Spec.NodeName; got != "n1" {
				t.Errorf("node: got %q, want n1", got)
			}

			lose(fl).Store(3) // one may be that of the read before
			got, _, err := s.Apply(t.Context(), r.fence, []runtime.Object{pod("c")}, false)
			if err != nil {
				t.Fatal(err)
			}
			wantOutcomes(t, got, created)

			lose(fl).Store(3)
			deleted, _, err := s.Delete(t.Context(), r.fence, []objects.Ref{ref(objects.KindPod, "default", "b")})
			if err != nil || !deleted[0] {
				t.Errorf("delete: got %v, %v, want true", deleted, err)
			}
		})
	}
}

func TestAnOutcomeThatStaysOpenIsSaidToBe(t *testing.T) {
	r := newRig(t)
	r.apply(t, pod("a"))
	s, fl := r.flaky(t)
	a := r.pod(t, "a")
	fl.loseAnswers.Store(1)
	fl.onLoss = func() { r.fence.expired.Store(true) }
	err := s.Bind(t.Context(), r.fence, []objects.Binding{{Pod: a, Node: "n1"}})[0]
	wantError(t, "bind whose leader is deposed before the answer", err, objects.ErrUnknown)
	wantError(t, "bind whose leader is deposed before the answer", err, lease.ErrDeposed)
	if got := r.pod(t, "a").Spec.NodeName; got != "n1" {
		t.Errorf("node: got %q, want n1: the write was there all the time", got)
	}
}

func TestACallThatEndsBeforeAnythingIsSentIsNotOpen(t *testing.T) {
	r := newRig(t)
	r.apply(t, pod("a"))
	a := r.pod(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := r.Bind(ctx, r.fence, []objects.Binding{{Pod: a, Node: "n1"}})[0]
	wantError(t, "bind", err, context.Canceled)
	if got := r.pod(t, "a").Spec.NodeName; got != "" {
		t.Errorf("node: got %q, want none", got)
	}
}

func TestBindsGoOnOverARestartOfEtcd(t *testing.T) {
	r := newRig(t)
	r.apply(t, pods("p", 300)...)
	bs := make([]objects.Binding, 0, 300)
	for _, p := range r.load(t).Pods {
		bs = append(bs, objects.Binding{Pod: p, Node: "n1"})
	}
	ended := make(chan []error, 1)
	r.restart(t, func() { go func() { ended <- r.Bind(t.Context(), r.fence, bs) }() })
	for i, err := range await(t, "binds over a restart", ended) {
		if err != nil {
			t.Errorf("binding %d: %v", i, err)
		}
	}
	for _, p := range r.load(t).Pods {
		if p.Spec.NodeName != "n1" {
			t.Errorf("%s: got node %q, want n1", p.Name, p.Spec.NodeName)
		}
	}
}
