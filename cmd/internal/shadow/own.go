package shadow

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// OwnWorld is a second cluster beside the real one: pods of judged profiles are where ours puts them, and leave when the real ones do.
// Make it, Load it, then Run it; Deliver and Fill may be called from any goroutine meanwhile.
type OwnWorld struct {
	scheduler *coordinator.Scheduler
	thread    Thread
	their     TheirSeconds
	now       func() time.Time

	mu    sync.Mutex
	books *books
	line  timeline
	cost  cost
}

// OwnConfig is what an OwnWorld is made of.
type OwnConfig struct {
	// Scheduler has the judged profiles, and what else a scheduler decides by; nothing of it may write anywhere.
	Scheduler coordinator.SchedulerConfig
	// NotAsked names who else has a say in a pod's node and is not asked here; empty: nobody. nil: nobody ever.
	NotAsked func(*v1.Pod) string
	// Their reads the other scheduler's metrics; nil: they can't be read.
	Their TheirSeconds
}

// NewOwnWorld makes an empty one.
func NewOwnWorld(from OwnConfig) (*OwnWorld, error) {
	cfg := from.Scheduler
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	judged := []string{v1.DefaultSchedulerName}
	if cfg.Profiles != nil {
		judged = slices.Collect(maps.Keys(cfg.Profiles))
	}
	o := &OwnWorld{their: from.Their, now: cfg.Now, books: newBooks(judged, cfg.Now())}
	o.books.notAsked = from.NotAsked
	cfg.Binder, cfg.Evictor, cfg.Reporter, cfg.FreeClaims = o, o, nil, true
	cfg.Log = logr.New(errorsOnly{klog.Background().WithName("own-world").GetSink()})
	var err error
	o.scheduler, err = coordinator.NewScheduler(cfg)
	return o, err
}

// errorsOnly leaves out of a log all that is no error: nobody is really bound, or preempted.
type errorsOnly struct{ logr.LogSink }

// Enabled is part of logr.LogSink.
func (errorsOnly) Enabled(int) bool { return false }

// WithValues is part of logr.LogSink.
func (s errorsOnly) WithValues(kv ...any) logr.LogSink {
	return errorsOnly{s.LogSink.WithValues(kv...)}
}

// WithName is part of logr.LogSink.
func (s errorsOnly) WithName(name string) logr.LogSink { return errorsOnly{s.LogSink.WithName(name)} }

// Load takes in what is there at the beginning.
func (o *OwnWorld) Load(all *objects.Snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.scheduler.Load(o.books.load(all, o.now()), nil)
}

// Deliver takes in what really happens, in order. It waits for no decision.
func (o *OwnWorld) Deliver(events []objects.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	var out []objects.Event
	for i := range events {
		out = append(out, o.books.event(&events[i], now)...)
	}
	o.scheduler.Deliver(out)
}

// Bind is part of bind.Binder. The own world's scheduler is told of the pod on its node before any later event of it.
func (o *OwnWorld) Bind(_ context.Context, bindings []objects.Binding, done func(i int, err error)) {
	for i, err := range o.bind(bindings) {
		done(i, err)
	}
}

func (o *OwnWorld) bind(bindings []objects.Binding) []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	errs := make([]error, len(bindings))
	var out []objects.Event
	for i := range bindings {
		events, err := o.books.bind(bindings[i].Pod.UID, bindings[i].Node, now)
		out, errs[i] = append(out, events...), err
	}
	o.scheduler.Deliver(out)
	return errs
}

// Evict is part of coordinator.Evictor: victims are gone at once.
func (o *OwnWorld) Evict(_ context.Context, e objects.Eviction, done func(error)) {
	o.mu.Lock()
	o.scheduler.Deliver(o.books.evict(e.Victims, o.now()))
	o.mu.Unlock()
	done(nil)
}

const (
	// lookEvery is how often it is looked whether a point of the timeline is due.
	lookEvery = time.Second
	// theirsEvery is how often the other scheduler's metrics are read, and theirsPatience for how long one reading is waited for.
	theirsEvery    = 30 * time.Second
	theirsPatience = 10 * time.Second
)

// Run decides until ctx ends.
func (o *OwnWorld) Run(ctx context.Context) error {
	o.mu.Lock()
	o.cost = newCost()
	o.mu.Unlock()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.thread.Run(func() error { return o.scheduler.Run(ctx) }) })
	g.Go(func() error { return o.sample(ctx) })
	if o.their != nil {
		g.Go(func() error { return o.readTheirs(ctx) })
	}
	return g.Wait()
}

// sample keeps the timeline.
func (o *OwnWorld) sample(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		o.look()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look adds a point to the timeline where that is due.
func (o *OwnWorld) look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.now(); o.line.due(now) {
		o.line.add(o.point(now))
	}
}

func (o *OwnWorld) point(now time.Time) Point {
	b := o.books
	return Point{At: now.UTC(), Theirs: b.theirs.world(b.places, now), Ours: b.ours.world(b.places, now)}
}

// readTheirs reads the other scheduler's metrics now and then.
func (o *OwnWorld) readTheirs(ctx context.Context) error {
	tick := time.NewTicker(theirsEvery)
	defer tick.Stop()
	for {
		o.readTheirsOnce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (o *OwnWorld) readTheirsOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, theirsPatience)
	defer cancel()
	seconds, err := o.their(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cost.take(seconds, err, o.books.found)
}

// Fill fills in what the own world knows of a report: the cluster, latency, cost and packing, up to now. mirror are the threads that
// judge, which are no part of what deciding costs.
func (o *OwnWorld) Fill(r *Report, mirror ...*Thread) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.Cluster, r.Latency = o.books.cluster(), o.books.latency.report()
	r.Cost = o.cost.report(o.books.decided, &o.thread, mirror)
	r.Packing = o.books.packing()
	r.Packing.Points = append(slices.Clone(o.line.points), o.point(o.now()))
}
