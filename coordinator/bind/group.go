package bind

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

const (
	// openWait is how long to wait before the binder is asked again for open binds: a connection that breaks is made anew in less.
	// It doubles up to openWaitMax, so that a server that is down or busy for longer is asked now and then only.
	openWait    = 250 * time.Millisecond
	openWaitMax = 4 * time.Second
)

// takeGroup takes the jobs of one call; none where as many calls as may be are under way.
func (c *Cycles) takeGroup() []Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == c.cfg.Calls || len(c.queued) == 0 {
		return nil
	}
	n := min(len(c.queued), c.cfg.Group)
	jobs := c.queued[:n:n]
	c.queued = c.queued[n:]
	c.calls++
	c.committing += n
	return jobs
}

// endGroup ends the call of a group.
func (c *Cycles) endGroup(jobs []Job) {
	c.mu.Lock()
	c.calls--
	c.committing -= len(jobs)
	c.mu.Unlock()
	c.wake()
}

// crew are the goroutines that commit, as many as there are calls at the most. They stay: what
// has grown a stack to bind once binds again with it.
type crew struct {
	*Cycles
	wg    *sync.WaitGroup
	count int
	idle  chan []Job
}

// give has one of them commit a group; takeGroup has seen that one is free.
func (c *crew) give(ctx context.Context, jobs []Job) {
	if c.count < c.cfg.Calls {
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
func (c *crew) work(ctx context.Context, jobs []Job) {
	for {
		c.commit(ctx, jobs)
		c.endGroup(jobs)
		select {
		case jobs = <-c.idle:
		case <-ctx.Done():
			return
		}
	}
}

// commit binds a group, and asks again for binds that are open. Every outcome is reported as it
// comes; after the end of ctx none is.
func (c *Cycles) commit(ctx context.Context, jobs []Job) {
	begin := c.cfg.Now()
	for wait := openWait; ctx.Err() == nil; wait = min(2*wait, openWaitMax) {
		jobs = c.call(ctx, jobs, begin)
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

// call calls the binder once and returns the jobs whose bind is open.
func (c *Cycles) call(ctx context.Context, jobs []Job, begin time.Time) (open []Job) {
	list := make([]objects.Binding, len(jobs))
	for i := range jobs {
		list[i] = jobs[i].Binding
		jobs[i].Trace.Begin(tracing.Bind)
	}
	var mu sync.Mutex
	left := make([]bool, len(jobs))
	c.cfg.Binder.Bind(ctx, list, func(i int, err error) {
		job := jobs[i]
		job.Trace.End(tracing.Bind)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, objects.ErrUnknown):
			klog.FromContext(ctx).Error(err, "Bind has no outcome yet, asking again", "pod", klog.KObj(job.Binding.Pod), "node",
				job.Binding.Node)
			mu.Lock()
			left[i] = true
			mu.Unlock()
		case job.ended != nil:
			job.ended <- err
		default:
			job.BindTook = max(c.cfg.Now().Sub(begin), 1)
			c.report(job, err)
		}
	})
	for i := range jobs {
		if left[i] {
			open = append(open, jobs[i])
		}
	}
	return open
}

// report reports the outcome of a bind. Where there are claims to be given back that is done first, on a goroutine of its own.
func (c *Cycles) report(job Job, err error) {
	if err == nil || job.Claims == nil {
		c.cfg.Report(job, err)
		return
	}
	job.failed = err
	c.mu.Lock()
	c.stepped = append(c.stepped, job)
	c.mu.Unlock()
	c.wake()
}

// bindOne has the binder commit one placement, for a job that goes on with the outcome.
func (c *Cycles) bindOne(ctx context.Context, b objects.Binding) error {
	ended := make(chan error, 1)
	c.Put([]Job{{Binding: b, ended: ended}})
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
