package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/kube/leaseserver"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// land is what coordinators of a Kubernetes cluster share: an etcd, a Lease, and an API server's
// nodes and pods.
type land struct {
	t     *testing.T
	ctx   context.Context
	etcd  *embedetcd.Server
	own   *clientv3.Client
	lease *leaseserver.Server

	mu       sync.Mutex
	version  int
	nodes    []*v1.Node
	others   []objects.Object
	bindable int // how many binds go through before the next is held; less than 0: all
	pods     map[string]*v1.Pod
	readers  map[*picturer]func([]objects.Event)
	held     chan struct{} // binds wait for it; nil: they don't
	waiting  chan struct{} // told of each bind that waits
	bound    int
	changed  chan struct{} // closed and renewed with each bind
	rejected int
}

func newLand(t *testing.T, nodes ...*v1.Node) *land {
	t.Helper()
	return newLandOn(t, embedetcd.Config{}, nodes...)
}

func newLandOn(t *testing.T, onEtcd embedetcd.Config, nodes ...*v1.Node) *land {
	t.Helper()
	t.Parallel() // most of it is waiting for etcd
	ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), klog.Logger{}), patience)
	t.Cleanup(cancel)
	onEtcd.DataDir, onEtcd.Logger = t.TempDir(), zap.NewNop()
	etcd, err := embedetcd.Start(ctx, onEtcd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	l := &land{
		t: t, ctx: ctx, etcd: etcd, lease: &leaseserver.Server{}, nodes: nodes, pods: map[string]*v1.Pod{},
		bindable: -1,
		readers:  map[*picturer]func([]objects.Event){}, waiting: make(chan struct{}, 1000), changed: make(chan struct{}),
	}
	l.own = l.client()
	return l
}

func (l *land) client() *clientv3.Client {
	l.t.Helper()
	c, err := l.etcd.Client()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return c
}

// create makes pods.
func (l *land) create(pods ...*v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pods {
		l.write(objects.Added, p)
	}
}

// write is called with the lock held.
func (l *land) write(what objects.EventType, p *v1.Pod) {
	l.version++
	p = p.DeepCopy()
	p.ResourceVersion = strconv.Itoa(l.version)
	l.pods[p.Name] = p
	for _, deliver := range l.readers {
		deliver([]objects.Event{{Type: what, Kind: objects.KindPod, Pod: p}})
	}
}

// hold makes binds wait until the function that it returns is called.
func (l *land) hold() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(chan struct{})
	l.held = held
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held = nil
		close(held)
	}
}

// bind is a POST of pods/binding.
func (l *land) bind(ctx context.Context, fence func() error, b objects.Binding) error {
	l.mu.Lock()
	held := l.held
	if l.bindable--; l.bindable == 0 {
		l.held = make(chan struct{})
	}
	l.mu.Unlock()
	if held != nil {
		l.waiting <- struct{}{}
		select {
		case <-held:
		case <-ctx.Done():
			return objects.ErrUnknown
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := fence(); err != nil {
		return err
	}
	p := l.pods[b.Pod.Name]
	if p.Spec.NodeName != "" {
		l.rejected++
		return objects.ErrAlreadyBound
	}
	p = p.DeepCopy()
	p.Spec.NodeName = b.Node
	l.write(objects.Modified, p)
	l.bound++
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// waitBound waits until so many pods are bound.
func (l *land) waitBound(want int) {
	l.t.Helper()
	for {
		l.mu.Lock()
		n, changed := l.bound, l.changed
		l.mu.Unlock()
		if n >= want {
			return
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
			l.t.Fatalf("got %d pods bound, want %d", n, want)
		}
	}
}

// picturer is a process's informers. They show what is true only after they have caught up.
type picturer struct {
	land     *land
	fence    *Fence
	started  chan struct{}
	synced   chan struct{} // nil: at once
	mu       sync.Mutex
	caughtUp bool
}

func (p *picturer) Run(ctx context.Context) error {
	close(p.started)
	<-ctx.Done()
	return ctx.Err()
}

func (p *picturer) WaitSynced(ctx context.Context) error {
	for _, until := range []chan struct{}{p.started, p.synced} {
		if until == nil {
			continue
		}
		select {
		case <-until:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// CatchUp fails at first, and has to come after both leases were won.
func (p *picturer) CatchUp(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.fence.Check(); err != nil {
		p.land.t.Errorf("a consistent read before the leases are won: %v", err)
	}
	if !p.caughtUp {
		p.caughtUp = true
		return errors.New("too many requests")
	}
	return nil
}

func (p *picturer) Subscribe(deliver func([]objects.Event)) (*objects.Snapshot, func(), error) {
	p.mu.Lock()
	if !p.caughtUp {
		p.land.t.Error("objects are read from informers that have not caught up")
	}
	p.mu.Unlock()
	l := p.land
	l.mu.Lock()
	defer l.mu.Unlock()
	all := &objects.Snapshot{Nodes: l.nodes, Cluster: l.others}
	for _, pod := range l.pods {
		all.Pods = append(all.Pods, pod)
	}
	l.readers[p] = deliver
	return all, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.readers, p)
	}, nil
}

// fencedPosts is a Binder.
type fencedPosts struct {
	land  *land
	fence *Fence
}

func (b fencedPosts) Bind(ctx context.Context, bindings []objects.Binding, done func(int, error)) {
	var all sync.WaitGroup
	for i := range bindings {
		all.Go(func() { done(i, b.land.bind(ctx, b.fence.Check, bindings[i])) })
	}
	all.Wait()
}

// process is one coordinator process.
type process struct {
	land   *land
	id     string
	fence  *Fence
	api    *api.Server
	source *picturer
	way    *leaseserver.Client
	terms  chan *coordinator.Scheduler
	cancel context.CancelFunc
	ended  chan error
	sink   chan string
}

// start runs a process; change may change its configuration.
func (l *land) start(id string, change ...func(*Config)) *process {
	l.t.Helper()
	record := &pb.LeaderRecord{Id: id, Address: id + ".example:7000"}
	p := &process{
		land: l, id: id, fence: NewFence("kube-scheduler", nil), api: api.New(api.Config{Self: record}),
		way: l.lease.Client(id), terms: make(chan *coordinator.Scheduler, 10), ended: make(chan error, 1), sink: make(chan string, 10),
	}
	p.source = &picturer{land: l, fence: p.fence, started: make(chan struct{})}
	cfg := Config{
		Etcd: l.client(), Record: record, LeaseTTL: lease.TTLWithin(10500 * time.Millisecond), Fence: p.fence, API: p.api,
		Mode: Kubernetes{Source: p.source},
		Lease: &kube.LeaseConfig{
			Client: p.way, Namespace: "kube-system", Name: "kube-scheduler",
			Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		},
		Scheduler: coordinator.SchedulerConfig{Cluster: "test", Shards: 2, BatchSize: 64, Binder: fencedPosts{l, p.fence}},
		Sinks:     []func(context.Context) error{p.report},
		Leading:   func(s *coordinator.Scheduler) { p.terms <- s },
	}
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithCancel(l.ctx)
	p.cancel = cancel
	go func() { p.ended <- Run(ctx, cfg) }()
	l.t.Cleanup(func() {
		cancel()
		<-p.ended
	})
	return p
}

// report is a sink that writes what is left when it is told to end.
func (p *process) report(ctx context.Context) error {
	<-ctx.Done()
	p.sink <- fmt.Sprintf("the fence says %v", p.fence.Check())
	return ctx.Err()
}

// waitLeading waits for the process to lead.
func (p *process) waitLeading() *coordinator.Scheduler {
	p.land.t.Helper()
	select {
	case s := <-p.terms:
		return s
	case err := <-p.ended:
		p.ended <- err
		p.land.t.Fatalf("process %s: ended with %v, want it to lead", p.id, err)
	case <-p.land.ctx.Done():
		p.land.t.Fatalf("process %s does not lead", p.id)
	}
	return nil
}

// waitEnd waits for the process to end and returns why.
func (p *process) waitEnd() error {
	p.land.t.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-p.land.ctx.Done():
		p.land.t.Fatalf("process %s does not end", p.id)
		return nil
	}
}

// depose takes the key of the leader in etcd away, as if its lease had run out.
func (l *land) depose() {
	l.t.Helper()
	keys, err := l.own.Get(l.ctx, lease.Prefix("test"), clientv3.WithFirstCreate()...)
	if err != nil || len(keys.Kvs) == 0 {
		l.t.Fatalf("leader key: got %v, %v, want one", keys, err)
	}
	if _, err := l.own.Revoke(l.ctx, clientv3.LeaseID(keys.Kvs[0].Lease)); err != nil {
		l.t.Fatal(err)
	}
}

// waitContenders waits until so many stand for election in etcd.
func (l *land) waitContenders(n int64) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	for range l.own.Watch(ctx, lease.Prefix("test"), clientv3.WithPrefix(), clientv3.WithCreatedNotify()) {
		resp, err := l.own.Get(ctx, lease.Prefix("test"), clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && resp.Count == n {
			return
		}
	}
	l.t.Fatalf("%d contenders never came", n)
}
