package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Binder commits placements to where the pods are kept.
type Binder interface {
	// Bind commits each placement by itself and calls done once for each as soon as its
	// outcome is known, from any goroutine; it returns when all are. A nil error says that it
	// is committed, objects.ErrUnknown leaves that open, and any other says that it certainly is
	// not.
	Bind(ctx context.Context, bindings []objects.Binding, done func(i int, err error))
}

const (
	// bindGroup is how many placements share a call of the binder, unless said otherwise, and
	// bindCalls how many calls are under way at once.
	bindGroup = 100
	bindCalls = 4
	// bindRetry is how long to wait before asking again after an error that leaves the
	// outcome open; it doubles up to bindRetryMax.
	bindRetry    = 250 * time.Millisecond
	bindRetryMax = 4 * time.Second
)

// bindJob is one placement under way.
type bindJob struct {
	pod     *queue.Pod
	binding objects.Binding
	// decision is what the placement comes from.
	decision *pb.Decision
	// work is what its claims need before it can be bound, and patience how long that may
	// take; nil: nothing.
	work     *volumes.Work
	patience time.Duration
	// extender binds the pod; nil: the binder does.
	extender *extender.Extender
	// popped is when its attempt began.
	popped time.Time
	// preBind and bind are how long these took; 0: not begun.
	preBind, bind time.Duration
	trace         *tracing.Attempt // nil: it has none
	// cycle is that of a hosted placement; nil: it is none.
	cycle *framework.Cycle
	// ended is told the outcome, instead of the loop; nil: the loop is.
	ended chan<- error
}

// PreBinder does what has to be done before a pod is bound.
type PreBinder interface {
	PreBind(ctx context.Context, w *volumes.Work, timeout time.Duration) error
}

// bindings takes placements from the loop, commits them in the order in which they come,
// and reports each outcome as it comes. The loop never waits for it.
type bindings struct {
	binder    Binder
	preBinder PreBinder
	report    func(job bindJob, err error)
	now       func() time.Time
	// group and calls are how many placements a call has, and how many calls there are at
	// once, at the most.
	group, calls int
	// fence is asked before an extender is to bind; nil: nobody is. commitsExtended says that
	// what an extender has bound is the binder's to commit.
	fence           func() error
	commitsExtended bool

	mu     sync.Mutex
	queued []bindJob
	// works are those queued that have work to do first, or a binding cycle of their own.
	works []bindJob
	// calls that can be called off, by pod.
	preBinds map[types.UID]context.CancelCauseFunc
	// host runs the binding cycle of a hosted placement.
	host func(ctx context.Context, job bindJob)
	// extended are those queued that extenders bind.
	extended []bindJob
	// busy counts the calls under way, working the placements whose work is being done, and
	// binding those that a call has.
	busy, working, binding int
	// ready holds a token while there may be something to begin.
	ready chan struct{}
}

func newBindings(b Binder, p PreBinder, report func(bindJob, error)) *bindings {
	return &bindings{
		binder: b, preBinder: p, report: report, now: time.Now,
		group: bindGroup, calls: bindCalls, ready: make(chan struct{}, 1),
	}
}

func (b *bindings) put(jobs []bindJob) {
	b.mu.Lock()
	for _, j := range jobs {
		if j.work.PreBindNeeded() || j.cycle != nil {
			b.works = append(b.works, j)
		} else if j.extender != nil {
			b.extended = append(b.extended, j)
		} else {
			b.queued = append(b.queued, j)
		}
	}
	b.mu.Unlock()
	b.wake()
}

func (b *bindings) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take takes the placements of one call, none where as many calls as may be are under way.
func (b *bindings) take() []bindJob {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy == b.calls || len(b.queued) == 0 {
		return nil
	}
	n := min(len(b.queued), b.group)
	jobs := b.queued[:n:n]
	b.queued = b.queued[n:]
	b.busy++
	b.binding += n
	return jobs
}

// over ends a call.
func (b *bindings) over(n int) {
	b.mu.Lock()
	b.busy--
	b.binding -= n
	b.mu.Unlock()
	b.wake()
}

// takeWorks takes the placements that have work to do first.
func (b *bindings) takeWorks() []bindJob {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs := b.works
	b.works = nil
	b.working += len(jobs)
	return jobs
}

// underWay is how many placements are being worked for or committed now.
func (b *bindings) underWay() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.working + b.binding
}

// run commits until ctx ends. What is queued then is dropped: its pods are still
// pending where they are kept, and the next leader decides them again.
func (b *bindings) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	crew := crew{bindings: b, wg: &wg, idle: make(chan []bindJob)}
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.ready:
		}
		for _, job := range b.takeWorks() {
			if job.cycle != nil {
				wg.Go(func() { b.runHosted(ctx, job) })
				continue
			}
			wg.Go(func() { b.preBind(ctx, job) })
		}
		for _, job := range b.takeExtended() {
			wg.Go(func() { b.bindExtended(ctx, job) })
		}
		for ctx.Err() == nil {
			jobs := b.take()
			if len(jobs) == 0 {
				break
			}
			crew.give(ctx, jobs)
		}
	}
}

// crew are the goroutines that commit, as many as there are calls at the most. They stay: what
// has grown a stack to bind once binds again with it.
type crew struct {
	*bindings
	wg    *sync.WaitGroup
	count int
	idle  chan []bindJob
}

// give has one of them commit a group, which take has seen that there is one for.
func (c *crew) give(ctx context.Context, jobs []bindJob) {
	if c.count < c.calls {
		select {
		case c.idle <- jobs:
		default:
			c.count++
			c.wg.Go(func() { c.work(ctx, jobs) })
		}
		return
	}
	select {
	case c.idle <- jobs:
	case <-ctx.Done():
	}
}

// work commits one group after the other.
func (c *crew) work(ctx context.Context, jobs []bindJob) {
	for {
		c.commit(ctx, jobs)
		c.over(len(jobs))
		select {
		case jobs = <-c.idle:
		case <-ctx.Done():
			return
		}
	}
}

// preBind does a placement's work, which may wait for others for minutes, and queues it.
func (b *bindings) preBind(ctx context.Context, job bindJob) {
	job.trace.Begin(tracing.PreBind)
	begin := b.now()
	err := b.preBindOff(ctx, &job)
	job.preBind = max(b.now().Sub(begin), 1)
	job.trace.End(tracing.PreBind)
	b.mu.Lock()
	b.working--
	b.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		err = fmt.Errorf("running PreBind plugin %q: %w", rules.VolumeBinding, err)
		klog.FromContext(ctx).Error(err, "Volumes are not bound, the pod is tried again", "pod", klog.KObj(job.binding.Pod), "node", job.binding.Node)
		b.report(job, err)
	default:
		job.work = nil
		b.put([]bindJob{job})
	}
}

// commit binds a group, and asks again for those whose outcome an error left open: a
// placement that may have been committed is never given up. Every outcome is reported as it
// comes; after the end of ctx none is.
func (b *bindings) commit(ctx context.Context, jobs []bindJob) {
	begin := b.now()
	for wait := bindRetry; ctx.Err() == nil; wait = min(2*wait, bindRetryMax) {
		jobs = b.ask(ctx, jobs, begin)
		if len(jobs) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// ask calls the binder once and returns the placements whose outcome is open.
func (b *bindings) ask(ctx context.Context, jobs []bindJob, begin time.Time) (open []bindJob) {
	list := make([]objects.Binding, len(jobs))
	for i := range jobs {
		list[i] = jobs[i].binding
		jobs[i].trace.Begin(tracing.Bind)
	}
	var mu sync.Mutex
	left := make([]bool, len(jobs))
	b.binder.Bind(ctx, list, func(i int, err error) {
		job := jobs[i]
		job.trace.End(tracing.Bind)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, objects.ErrUnknown):
			klog.FromContext(ctx).Error(err, "Bind has no outcome yet, asking again", "pod", klog.KObj(job.binding.Pod), "node", job.binding.Node)
			mu.Lock()
			left[i] = true
			mu.Unlock()
		default:
			job.bind = max(b.now().Sub(begin), 1)
			b.tell(job, err)
		}
	})
	for i := range jobs {
		if left[i] {
			open = append(open, jobs[i])
		}
	}
	return open
}

// outcomes gathers what becomes of binds until the loop takes it in.
type outcomes struct {
	mu   sync.Mutex
	jobs []bindJob
	errs []error
}

// add notes an outcome; it tells whether it is the first since take.
func (o *outcomes) add(job bindJob, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.jobs, o.errs = append(o.jobs, job), append(o.errs, err)
	return len(o.jobs) == 1
}

func (o *outcomes) take() ([]bindJob, []error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	jobs, errs := o.jobs, o.errs
	o.jobs, o.errs = nil, nil
	return jobs, errs
}
