package bind

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

// run is a job on its way through the steps, on a goroutine of its own.
type run struct {
	*Cycles
	Job
	// cancel ends the steps.
	cancel context.CancelCauseFunc
	// waits tells that the pod waits on Permit, and works that PreBind has work to do.
	waits, works bool
}

// step takes a job through its steps, and hands it to the binder where nobody has bound it by then. Once ctx has ended nothing
// is bound, and nothing reported.
func (c *Cycles) step(ctx context.Context, job Job) {
	defer func() {
		c.mu.Lock()
		c.stepping--
		c.mu.Unlock()
	}()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Cycles: c, Job: job, cancel: cancel}
	bound, err := false, job.failed
	if err == nil {
		bound, err = r.steps(inner)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.unreserve(ctx, err)
		r.undo(ctx, err)
		if ctx.Err() == nil {
			c.cfg.Report(r.Job, err)
		}
	case bound:
		c.cfg.Report(r.Job, nil)
		r.postBind(ctx)
	default:
		r.Extender = nil
		c.Put([]Job{r.Job}) // it is plain now
	}
}

// steps are the steps up to the bind, in upstream's order; those that a job has no need of do nothing. bound: no other is to
// bind the pod.
func (r *run) steps(ctx context.Context) (bound bool, err error) {
	for _, step := range []func(context.Context) (bool, error){
		r.preFlight,    // first: whether there is work to do is known before a wait of minutes, and told
		r.waitOnPermit, // before anything is written for the pod
		r.preBind,      // before the bind: a bound pod starts, and needs its volumes
		r.askExtender,  // before the Bind plugins: they are not asked where an extender has bound the pod
		r.bind,         // of plugins; without them the binder is left
	} {
		if bound, err = step(ctx); bound || err != nil {
			return bound, err
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

// preFlight finds out what is to be done before the bind.
func (r *run) preFlight(ctx context.Context) (bool, error) {
	r.works = r.preBindNeeded()
	if r.Cycle != nil {
		r.waits = r.Cycle.WillWait()
		status := r.Cycle.PreBindPreFlight(ctx, r.Binding.Node)
		if status.Code() == fwk.Error || status.IsRejected() {
			return false, r.refused(status, r.waits)
		}
		r.works = status.IsSuccess()
	}
	if r.works || r.waits {
		r.cfg.Progress(&r.Job, Delayed)
	}
	return false, nil
}

// waitOnPermit waits until all Permit plugins allow the pod.
func (r *run) waitOnPermit(ctx context.Context) (bool, error) {
	if !r.waits {
		return false, nil
	}
	if status := r.Cycle.WaitOnPermit(ctx); !status.IsSuccess() {
		return false, r.refused(status, true)
	}
	r.cfg.Progress(&r.Job, Permitted)
	return false, nil
}

// preBind does the work that comes before the bind, which may wait for others for minutes, unless the job is called off.
func (r *run) preBind(ctx context.Context) (bool, error) {
	if !r.works {
		return false, nil
	}
	uid := r.Binding.Pod.UID
	r.preBinding.Add(uid, r.cancel)
	defer r.preBinding.Remove(uid)
	r.Trace.Begin(tracing.PreBind)
	begin := r.cfg.Now()
	err := r.doWork(ctx)
	r.PreBindTook = max(r.cfg.Now().Sub(begin), 1)
	r.Trace.End(tracing.PreBind)
	if in := r.preBinding.Get(uid); err == nil && in != nil && !in.MarkPrebound() {
		if err = context.Cause(ctx); r.Cycle == nil {
			err = r.notWritten(ctx, r.preBindPlugin(), err)
		}
	}
	r.Binding.ClaimStatus = r.Claims.PodStatus()
	if err == nil && r.Cycle == nil {
		r.Work, r.preBound = nil, true
	}
	return false, err
}

// preBindPlugin is the first plugin with work to do.
func (r *run) preBindPlugin() string {
	if r.Work.PreBindNeeded() {
		return rules.VolumeBinding
	}
	return rules.DynamicResources
}

// doWork writes what the pod's claims need, or has the PreBind plugins do their work, VolumeBinding among them.
func (r *run) doWork(ctx context.Context) error {
	if r.Cycle != nil {
		if status := r.Cycle.PreBind(ctx, r.Binding.Node); !status.IsSuccess() {
			return r.refused(status, false)
		}
		return nil
	}
	plugin, err := r.write(ctx)
	if ctx.Err() != nil {
		// It does not matter whether the work is done: the room is another's now.
		plugin, err = r.preBindPlugin(), context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	return r.notWritten(ctx, plugin, err)
}

// write does the work of volumes and that of devices, side by side: both may have to wait for somebody else. The first
// error ends both.
func (r *run) write(ctx context.Context) (plugin string, err error) {
	if !r.Claims.PreBindNeeded() {
		return rules.VolumeBinding, r.cfg.Volumes.PreBind(ctx, r.Work, r.Patience)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	var wg sync.WaitGroup
	if r.Work.PreBindNeeded() {
		wg.Go(func() {
			if failed = r.cfg.Volumes.PreBind(ctx, r.Work, r.Patience); failed != nil {
				cancel()
			}
		})
	}
	err = r.cfg.Claims.PreBind(ctx, r.Claims, r.Binding.Pod.Spec.SchedulerName, r.DevicesPatience)
	if plugin = rules.DynamicResources; err != nil {
		cancel()
	}
	wg.Wait()
	if failed != nil && (err == nil || !errors.Is(failed, context.Canceled)) {
		plugin, err = rules.VolumeBinding, failed
	}
	return plugin, err
}

// notWritten tells that what a pod's volumes or claims need is not written.
func (r *run) notWritten(ctx context.Context, plugin string, err error) error {
	err = fmt.Errorf("running PreBind plugin %q: %w", plugin, err)
	klog.FromContext(ctx).Error(err, "Claims of a pod are not bound, it is tried again", "pod", klog.KObj(r.Binding.Pod), "node",
		r.Binding.Node)
	return err
}

// askExtender has the pod's extender bind it. Where the objects are an API server's, the extender has told the API server;
// elsewhere the placement is committed as any other after that. An extender that may be ignored and fails binds nothing.
func (r *run) askExtender(ctx context.Context) (bool, error) {
	e := r.Extender
	if e == nil {
		return false, nil
	}
	r.Trace.Begin(tracing.Bind)
	defer r.Trace.End(tracing.Bind)
	begin := r.cfg.Now()
	err := r.fence()
	if err == nil {
		err = e.BindPod(ctx, r.Binding.Pod, r.Binding.Node)
	}
	if err != nil && e.IsIgnorable() && !errors.Is(err, lease.ErrDeposed) {
		klog.FromContext(ctx).Info("Skipping extender in bind as it returned error and has ignorable flag set", "extender", e.Label(),
			"err", err)
		return false, nil
	}
	r.BindTook = max(r.cfg.Now().Sub(begin), 1)
	return err == nil && !r.cfg.CommitExtended, err
}

func (r *run) fence() error {
	if r.cfg.Fence == nil {
		return nil
	}
	return r.cfg.Fence()
}

// bind has the Bind plugins bind the pod.
func (r *run) bind(ctx context.Context) (bool, error) {
	if r.Cycle == nil {
		return false, nil
	}
	r.Trace.Begin(tracing.Bind)
	defer r.Trace.End(tracing.Bind)
	begin := r.cfg.Now()
	status := r.Cycle.Bind(ctx, r.Binding.Node)
	r.BindTook += max(r.cfg.Now().Sub(begin), 1)
	if !status.IsSuccess() {
		return false, r.refused(status, false)
	}
	return true, nil
}

// postBind tells the PostBind plugins that the pod is bound.
func (r *run) postBind(ctx context.Context) {
	if r.Cycle == nil {
		return
	}
	r.Cycle.PostBind(ctx, r.Binding.Node)
	r.cfg.Progress(&r.Job, PostBound)
}

// unreserve tells the Reserve plugins that the pod is not bound.
func (r *run) unreserve(ctx context.Context, err error) {
	if r.Cycle == nil {
		return
	}
	klog.FromContext(ctx).V(2).Info("The binding cycle has failed",
		"pod", klog.KObj(r.Binding.Pod), "node", r.Binding.Node, "status", err.Error())
	r.Cycle.Unreserve(ctx, r.Binding.Node)
}

// undo takes back what was written for the claims of a pod that is not bound. Whoever is deposed leaves that to the next
// leader.
func (r *run) undo(ctx context.Context, err error) {
	if r.Claims != nil && !errors.Is(err, lease.ErrDeposed) {
		r.cfg.Claims.Undo(ctx, r.Claims)
	}
}

// refused is the error of a step whose plugins say no.
func (r *run) refused(status *fwk.Status, inFlight bool) error {
	e := &Error{Status: status, InFlight: inFlight, text: status.Message()}
	if e.Unschedulable() {
		e.text = r.cfg.Refused(status)
	}
	return e
}
