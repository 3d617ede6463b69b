package leader

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// patience bounds what a test waits for; nothing waits that long when all is well.
const patience = 90 * time.Second

// fleet is an etcd with coordinators on it, and a record of every pod's life as etcd
// tells it.
type fleet struct {
	t    *testing.T
	ctx  context.Context
	etcd *embedetcd.Server
	own  *clientv3.Client

	mu      sync.Mutex
	pods    map[string]*v1.Pod // by name, as they are now
	foul    []string
	changed chan struct{} // closed and renewed at each change
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	t.Parallel() // most of it is waiting for etcd
	ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), klog.Logger{}), patience)
	t.Cleanup(cancel)
	etcd, err := embedetcd.Start(ctx, embedetcd.Config{DataDir: t.TempDir(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	f := &fleet{t: t, ctx: ctx, etcd: etcd, pods: map[string]*v1.Pod{}, changed: make(chan struct{})}
	f.own = f.client()
	watch, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = store.New(f.own, "test").Watch(watch, 0, f.saw)
	}()
	t.Cleanup(func() { stop(); <-stopped })
	return f
}

func (f *fleet) client() *clientv3.Client {
	f.t.Helper()
	c, err := f.etcd.Client()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

// saw notes changes of pods, and what must never happen to one.
func (f *fleet) saw(events []objects.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range events {
		e := &events[i]
		if e.Kind != objects.KindPod {
			continue
		}
		was := f.pods[e.Pod.Name]
		if was != nil && was.Spec.NodeName != "" && was.Spec.NodeName != e.Pod.Spec.NodeName {
			f.foul = append(f.foul, fmt.Sprintf("pod %s was bound to %s and then to %q", e.Pod.Name, was.Spec.NodeName, e.Pod.Spec.NodeName))
		}
		f.pods[e.Pod.Name] = e.Pod
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return nil
}

// bound counts the pods that are on a node.
func (f *fleet) bound() (n int, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pods {
		if p.Spec.NodeName != "" {
			n++
		}
	}
	return n, f.changed
}

// waitBound waits until that many pods are on a node.
func (f *fleet) waitBound(want int) {
	f.t.Helper()
	for {
		n, changed := f.bound()
		if n >= want {
			return
		}
		select {
		case <-changed:
		case <-f.ctx.Done():
			f.t.Fatalf("got %d pods bound, want %d", n, want)
		}
	}
}

// waitJournal waits until the queue journal has been written to.
func (f *fleet) waitJournal() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	if got := <-f.own.Watch(ctx, "/shardsched/test/queue/", clientv3.WithPrefix(), clientv3.WithRev(1)); len(got.Events) == 0 {
		f.t.Fatalf("queue journal: got %v, want an entry", got.Err())
	}
}

// wantSound checks what must hold at any time, and that pods got what their nodes have.
func (f *fleet) wantSound(nodeCores int64) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, foul := range f.foul {
		f.t.Error(foul)
	}
	used := map[string]int64{}
	for _, p := range f.pods {
		if p.Spec.NodeName != "" {
			used[p.Spec.NodeName] += p.Spec.Containers[0].Resources.Requests.Cpu().Value()
		}
	}
	for node, cores := range used {
		if cores > nodeCores {
			f.t.Errorf("node %s: got pods of %d cores, want no more than %d", node, cores, nodeCores)
		}
	}
}

// member is one coordinator process.
type member struct {
	f      *fleet
	id     string
	api    *api.Server
	etcd   *clientv3.Client
	terms  chan *coordinator.Scheduler // each term's, and nil at its end
	cancel context.CancelFunc
	ended  chan error
}

func (f *fleet) join(id string) *member {
	f.t.Helper()
	return f.joinWith(id, f.client())
}

// joinWith is join with a client of etcd; change may change the configuration.
func (f *fleet) joinWith(id string, etcd *clientv3.Client, change ...func(*coordinator.SchedulerConfig)) *member {
	f.t.Helper()
	record := &pb.LeaderRecord{Id: id, Address: id + ".example:7000"}
	m := &member{f: f, id: id, api: api.New(api.Config{Self: record}), etcd: etcd, terms: make(chan *coordinator.Scheduler, 100), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(f.ctx)
	m.cancel = cancel
	cfg := Config{
		Etcd: m.etcd, Record: record, LeaseTTL: 10 * time.Second, API: m.api, Mode: Standalone{},
		Scheduler: coordinator.SchedulerConfig{Cluster: "test", Shards: 4, BatchSize: 64, Groups: groups.All()},
		Leading:   func(s *coordinator.Scheduler) { m.terms <- s },
	}
	for _, f := range change {
		f(&cfg.Scheduler)
	}
	go func() { m.ended <- Run(ctx, cfg) }()
	f.t.Cleanup(func() { m.leave() })
	return m
}

// leave ends the process in good order; a second time does nothing.
func (m *member) leave() {
	m.f.t.Helper()
	m.cancel()
	if err, ok := <-m.ended; ok && err != nil {
		m.f.t.Errorf("coordinator %s: got %v, want nil", m.id, err)
	} else if ok {
		close(m.ended)
	}
}

// waitTerm waits for the process to begin a term, or (nil) to end it.
func (m *member) waitTerm(begins bool) *coordinator.Scheduler {
	m.f.t.Helper()
	select {
	case s := <-m.terms:
		if (s != nil) != begins {
			m.f.t.Fatalf("coordinator %s: got a term that begins %t, want %t", m.id, s != nil, begins)
		}
		return s
	case <-m.f.ctx.Done():
		m.f.t.Fatalf("coordinator %s: got no change of its term, want one that begins %t", m.id, begins)
		return nil
	}
}

// lose takes the leader's key away, as if its lease had run out.
func (f *fleet) lose(leader *member) {
	f.t.Helper()
	keys, err := f.own.Get(f.ctx, lease.Prefix("test"), clientv3.WithFirstCreate()...)
	if err != nil || len(keys.Kvs) == 0 {
		f.t.Fatalf("key of leader %s: got %v, %v, want one", leader.id, keys, err)
	}
	if _, err := f.own.Revoke(f.ctx, clientv3.LeaseID(keys.Kvs[0].Lease)); err != nil {
		f.t.Fatal(err)
	}
}

func (m *member) apply(objs ...objects.Object) {
	m.f.t.Helper()
	for part := range slices.Chunk(objs, 500) {
		req := &pb.ApplyRequest{}
		for _, obj := range part {
			raw, err := objects.Encode(obj)
			if err != nil {
				m.f.t.Fatal(err)
			}
			req.Objects = append(req.Objects, &pb.Object{Raw: raw})
		}
		if _, err := m.api.Apply(m.f.ctx, req); err != nil {
			m.f.t.Fatalf("apply at %s: %v", m.id, err)
		}
	}
}

func someNodes(n int, cpu string) []objects.Object {
	var out []objects.Object
	for i := range n {
		node := build.Node(fmt.Sprintf("n%02d", i)).CPU(cpu).Memory("64Gi").Pods("1000").Obj()
		node.UID = ""
		out = append(out, node)
	}
	return out
}

func somePods(prefix string, n int, cpu string) []objects.Object {
	var out []objects.Object
	for i := range n {
		out = append(out, build.Pod(fmt.Sprintf("%s%04d", prefix, i)).UID("").CPU(cpu).Obj())
	}
	return out
}

// explained asks the leader about a pod.
func (m *member) explained(name string) *pb.ExplainResponse {
	m.f.t.Helper()
	out, err := m.api.Explain(m.f.ctx, &pb.ExplainRequest{Namespace: "default", Name: name})
	if err != nil {
		m.f.t.Fatalf("explain %s at %s: %v", name, m.id, err)
	}
	return out
}

// wantFollower checks that a coordinator refuses, naming the leader.
func (m *member) wantFollower(leader string) {
	m.f.t.Helper()
	_, err := m.api.GetSummary(m.f.ctx, &pb.GetSummaryRequest{})
	if status.Code(err) != codes.FailedPrecondition {
		m.f.t.Errorf("summary of follower %s: got %v, want FAILED_PRECONDITION", m.id, err)
	}
	for {
		out, err := m.api.GetLeader(m.f.ctx, &pb.GetLeaderRequest{})
		if err != nil || out.IsSelf {
			m.f.t.Fatalf("leader according to %s: got %v, %v; want %s", m.id, out, err, leader)
		}
		if out.Leader.GetId() == leader {
			return
		}
		// It is told a moment later.
		select {
		case <-time.After(10 * time.Millisecond):
		case <-m.f.ctx.Done():
			m.f.t.Fatalf("leader according to %s: got %v, want %s", m.id, out.Leader, leader)
		}
	}
}

// Two coordinators; each loses the lead in its own way with binds under way.
func TestTheOtherCoordinatorTakesOver(t *testing.T) {
	const pods = 600
	f := newFleet(t)
	a := f.join("a")
	a.waitTerm(true)
	a.apply(someNodes(20, "200")...)
	a.apply(somePods("huge", 1, "1000")...)
	f.waitJournal()
	b := f.join("b")
	b.wantFollower("a")

	a.apply(somePods("first", pods, "1")...)
	f.waitBound(pods / 4)
	f.lose(a) // its clock has not noticed yet; etcd refuses what it sends
	second := b.waitTerm(true)
	a.waitTerm(false)
	f.waitBound(pods)
	if err := second.Idle(f.ctx); err != nil {
		t.Fatal(err)
	}
	a.wantFollower("b")
	if x := b.explained("huge0000"); x.Queue == "" || x.Attempts < 2 {
		t.Errorf("the pod that fits nowhere: got queue %q after %d attempts, want it there with those of the first term", x.Queue, x.Attempts)
	}
	sum, err := second.Summary(f.ctx)
	if err != nil || sum.PodsPresent+sum.PodsBound != pods || sum.PodsPresent < pods/4 {
		t.Errorf("second term: got %d pods present and %d bound, %v; want %d together", sum.GetPodsPresent(), sum.GetPodsBound(), err, pods)
	}

	b.apply(somePods("second", pods, "1")...)
	f.waitBound(pods + pods/4)
	b.leave()
	b.waitTerm(false)
	third := a.waitTerm(true)
	f.waitBound(2 * pods)
	if err := third.Idle(f.ctx); err != nil {
		t.Fatal(err)
	}
	a.apply(someNodes(21, "2000")[20]) // at last a node for the huge one
	f.waitBound(2*pods + 1)
	if err := third.Idle(f.ctx); err != nil { // it has heard of that bind
		t.Fatal(err)
	}
	f.wantSound(2000)
	if _, err := second.Summary(f.ctx); status.Code(err) != codes.Unavailable {
		t.Errorf("the second term's scheduler: got %v, want UNAVAILABLE", err)
	}
	a.leave()
	if entries, err := store.New(f.own, "test").LoadEntries(f.ctx); err != nil || len(entries) != 0 {
		t.Errorf("journal: got %v, %v; want no entry, for no pod is pending", entries, err)
	}
}

// Terms that end in the middle of binding hand a cluster's room out once, all together.
func TestRoomIsPromisedOnceAcrossTerms(t *testing.T) {
	f := newFleet(t)
	a, b := f.join("a"), f.join("b")
	next := func() (*member, *coordinator.Scheduler) {
		for {
			lead, s := a, (*coordinator.Scheduler)(nil)
			select {
			case s = <-a.terms:
			case s = <-b.terms:
				lead = b
			case <-f.ctx.Done():
				t.Fatal("nobody leads")
			}
			if s != nil {
				return lead, s
			}
		}
	}
	lead, s := next()
	lead.apply(someNodes(4, "25")...) // for a hundred pods
	for round := range 3 {
		lead.apply(somePods(fmt.Sprintf("r%d-", round), 60, "1")...)
		f.waitBound(min(60*round+20, 100))
		f.lose(lead)
		lead, s = next()
	}
	f.waitBound(100)
	if err := s.Idle(f.ctx); err != nil {
		t.Fatal(err)
	}
	sum, err := s.Summary(f.ctx)
	if err != nil || sum.PodsPresent+sum.PodsBound != 100 || sum.PodsPending != 80 {
		t.Errorf("last term: got %d pods present, %d bound, %d pending, %v; want 100 on nodes and 80 pending", sum.GetPodsPresent(), sum.GetPodsBound(), sum.GetPodsPending(), err)
	}
	if n, _ := f.bound(); n != 100 {
		t.Errorf("bound: got %d pods, want the 100 that fit", n)
	}
	f.wantSound(25)
}
