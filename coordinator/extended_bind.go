package coordinator

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

// A pod whose extender binds is bound by that. Where the objects are an API server's, the
// extender has told it; elsewhere the placement is committed as any other after that.

// takeExtended takes the placements that extenders bind.
func (b *bindings) takeExtended() []bindJob {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs := b.extended
	b.extended = nil
	b.working += len(jobs)
	return jobs
}

// bindExtended has an extender bind a pod, or leaves it to the binder.
func (b *bindings) bindExtended(ctx context.Context, job bindJob) {
	job.trace.Begin(tracing.Bind)
	begin := b.now()
	bound, err := b.extendedFirst(ctx, &job)
	took := max(b.now().Sub(begin), 1)
	job.trace.End(tracing.Bind)
	b.mu.Lock()
	b.working--
	b.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case bound:
		job.bind = took
		b.report(job, err)
	default:
		job.extender = nil
		b.put([]bindJob{job})
	}
}

// extendedFirst has the extender of a placement bind it; false: there is none, it has failed and
// may be ignored, or the binder is to commit what it has done.
func (b *bindings) extendedFirst(ctx context.Context, job *bindJob) (bound bool, err error) {
	e := job.extender
	if e == nil {
		return false, nil
	}
	err = b.byExtender(ctx, e, job.binding)
	if err != nil && e.IsIgnorable() && !errors.Is(err, lease.ErrDeposed) {
		klog.FromContext(ctx).Info("Skipping extender in bind as it returned error and has ignorable flag set", "extender", e.Label(), "err", err)
		return false, nil
	}
	return err != nil || !b.commitsExtended, err
}

func (b *bindings) byExtender(ctx context.Context, e *extender.Extender, x objects.Binding) error {
	if b.fence != nil {
		if err := b.fence(); err != nil {
			return err
		}
	}
	return e.BindPod(ctx, x.Pod, x.Node)
}
