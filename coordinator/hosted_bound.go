package coordinator

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// runHosted runs a hosted placement's binding cycle.
func (b *bindings) runHosted(ctx context.Context, job bindJob) {
	defer func() {
		b.mu.Lock()
		b.working--
		b.mu.Unlock()
	}()
	b.host(ctx, job)
}

// bindOne commits one placement for a binding cycle, which goes on with the outcome.
func (b *bindings) bindOne(ctx context.Context, binding objects.Binding) error {
	ended := make(chan error, 1)
	b.mu.Lock()
	b.queued = append(b.queued, bindJob{binding: binding, ended: ended})
	b.mu.Unlock()
	b.wake()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tell gives the outcome to whom it belongs.
func (b *bindings) tell(job bindJob, err error) {
	if job.ended != nil {
		job.ended <- err
		return
	}
	b.report(job, err)
}

// preBindOff does a placement's work, unless it is called off.
func (b *bindings) preBindOff(ctx context.Context, job *bindJob) error {
	uid := job.binding.Pod.UID
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.mu.Lock()
	if b.preBinds == nil {
		b.preBinds = map[types.UID]context.CancelCauseFunc{}
	}
	b.preBinds[uid] = cancel
	b.mu.Unlock()
	err := b.preBinder.PreBind(ctx, job.work, job.patience)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.preBinds, uid)
	if ctx.Err() != nil {
		// It does not matter whether the work is done: the room is another's now.
		return context.Cause(ctx)
	}
	return err
}

// callOff ends a placement whose work is being done; false: it is not.
func (b *bindings) callOff(uid types.UID, reason string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	cancel, ok := b.preBinds[uid]
	if ok {
		cancel(errors.New(reason))
	}
	return ok
}

// releaseHosted takes back what a placement was promised. Where the pod was turned away, others are
// told of the room only when it is back in the queue, and it is not: that event is returned.
func (s *Scheduler) releaseHosted(job *bindJob, err error) *queue.Event {
	uid := job.binding.Pod.UID
	hosted := (*cycleError)(nil)
	if !errors.As(err, &hosted) || !hosted.status.IsRejected() {
		s.release(uid)
		return nil
	}
	pod, node, assumed := s.cache.Pod(uid)
	if !assumed {
		return nil
	}
	s.forget(pod, node)
	s.cfg.Recorder.Released(uid, node)
	e := queue.AssignedPodDeleted(withNode(pod, node)).Except(uid)
	return &e
}

// retry puts a pod back into the queue whose binding has failed, and gives the reason for its
// condition.
func (s *Scheduler) retry(job *bindJob, err error, text string) string {
	hosted := (*cycleError)(nil)
	if !errors.As(err, &hosted) {
		s.queue.Retry(job.pod, errors.New(text))
		return ReasonSchedulerError
	}
	if hosted.early && hosted.status.IsRejected() {
		s.queue.Refused(job.pod, []string{hosted.status.Plugin()}, text)
	} else {
		s.queue.Retry(job.pod, errors.New(text))
	}
	return hosted.reason()
}
