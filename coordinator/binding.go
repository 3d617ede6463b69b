package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/store"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

// Binder commits placements to where the pods are kept.
type Binder interface {
	// Bind commits each placement by itself and returns one error for each. nil says
	// that it is committed, store.ErrUnknown leaves that open, and any other error
	// says that it certainly is not.
	Bind(ctx context.Context, bindings []store.Binding) []error
}

const (
	// bindGroup is how many placements share a commit at the most.
	bindGroup = 100
	// bindWorkers is how many commits are under way at once at the most.
	bindWorkers = 4
	// bindRetry is how long to wait before asking again after an error that
	// leaves the outcome open.
	bindRetry = 250 * time.Millisecond
)

// bindJob is one placement under way.
type bindJob struct {
	pod     *queue.Pod
	binding store.Binding
	// work is what its claims need before it can be bound, and patience how long that may
	// take; nil: nothing.
	work     *volumes.Work
	patience time.Duration
}

// PreBinder does what has to be done before a pod is bound.
type PreBinder interface {
	PreBind(ctx context.Context, w *volumes.Work, timeout time.Duration) error
}

// bindings takes placements from the loop, commits them in groups and reports each
// outcome. The loop never waits for it.
type bindings struct {
	binder    Binder
	preBinder PreBinder
	report    func(jobs []bindJob, errs []error)

	mu     sync.Mutex
	queued []bindJob
	// works are those queued that have work to do first.
	works []bindJob
	ready chan struct{}
}

func newBindings(b Binder, p PreBinder, report func([]bindJob, []error)) *bindings {
	return &bindings{binder: b, preBinder: p, report: report, ready: make(chan struct{}, bindWorkers)}
}

func (b *bindings) put(jobs []bindJob) {
	b.mu.Lock()
	for _, j := range jobs {
		if j.work.PreBindNeeded() {
			b.works = append(b.works, j)
		} else {
			b.queued = append(b.queued, j)
		}
	}
	wake := min((len(b.queued)+bindGroup-1)/bindGroup+min(len(b.works), 1), bindWorkers)
	b.mu.Unlock()
	for range wake {
		select {
		case b.ready <- struct{}{}:
		default:
		}
	}
}

func (b *bindings) take() []bindJob {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.queued), bindGroup)
	jobs := b.queued[:n:n]
	b.queued = b.queued[n:]
	return jobs
}

// takeWorks takes the placements that have work to do first.
func (b *bindings) takeWorks() []bindJob {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs := b.works
	b.works = nil
	return jobs
}

// preBind does a placement's work, which may wait for others for minutes, and queues it.
func (b *bindings) preBind(ctx context.Context, job bindJob) {
	err := b.preBinder.PreBind(ctx, job.work, job.patience)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		err = fmt.Errorf("running PreBind plugin %q: %w", "VolumeBinding", err)
		klog.FromContext(ctx).Error(err, "Volumes are not bound, the pod is tried again", "pod", klog.KObj(job.binding.Pod), "node", job.binding.Node)
		b.report([]bindJob{job}, []error{err})
	default:
		job.work = nil
		b.put([]bindJob{job})
	}
}

// run commits until ctx ends. What is queued then is dropped: its pods are still
// pending where they are kept, and the next leader decides them again.
func (b *bindings) run(ctx context.Context) {
	var wg sync.WaitGroup
	for range bindWorkers {
		wg.Go(func() { b.work(ctx, &wg) })
	}
	wg.Wait()
}

func (b *bindings) work(ctx context.Context, wg *sync.WaitGroup) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.ready:
		}
		for _, job := range b.takeWorks() {
			wg.Go(func() { b.preBind(ctx, job) })
		}
		for ctx.Err() == nil {
			jobs := b.take()
			if len(jobs) == 0 {
				break
			}
			b.commit(ctx, jobs)
		}
	}
}

// commit binds a group, and asks again for those whose outcome an error left open:
// a placement that may have been committed is never given up.
func (b *bindings) commit(ctx context.Context, jobs []bindJob) {
	for {
		list := make([]store.Binding, len(jobs))
		for i := range jobs {
			list[i] = jobs[i].binding
		}
		errs := b.binder.Bind(ctx, list)
		if ctx.Err() != nil {
			return
		}
		var done, open []bindJob
		var outcomes []error
		for i, err := range errs {
			if errors.Is(err, store.ErrUnknown) {
				klog.FromContext(ctx).Error(err, "Bind has no outcome yet, asking again", "pod", klog.KObj(jobs[i].binding.Pod), "node", jobs[i].binding.Node)
				open = append(open, jobs[i])
				continue
			}
			done, outcomes = append(done, jobs[i]), append(outcomes, err)
		}
		if len(done) > 0 {
			b.report(done, outcomes)
		}
		if len(open) == 0 {
			return
		}
		jobs = open
		select {
		case <-ctx.Done():
			return
		case <-time.After(bindRetry):
		}
	}
}
