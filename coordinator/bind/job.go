package bind

import (
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

// Job is one placement on its way to its bind.
type Job struct {
	Binding objects.Binding
	// Work is what the pod's volumes need before it can be bound, and Patience how long that may take; nil: nothing, or no longer
	// anything.
	Work     *volumes.Work
	Patience time.Duration
	// Claims is what the pod's claims of devices need before it can be bound, and DevicesPatience how long the devices may
	// take to become ready; nil: nothing.
	Claims          *devices.Work
	DevicesPatience time.Duration
	// Extender binds the pod; nil: the binder does.
	Extender *extender.Extender
	// Cycle runs the plugins of a profile that has plugins compiled in; nil: it has none.
	Cycle *framework.Cycle
	// Trace gets the times of PreBind and Bind; nil: it is not traced.
	Trace *tracing.Attempt
	// PreBindTook and BindTook are filled in; 0: not begun.
	PreBindTook, BindTook time.Duration
	// ended is told the outcome instead of Report, as a step of another job waits for it; nil: Report is.
	ended chan<- error
	// preBound tells that PreBind has done its work.
	preBound bool
	// failed is why the binder has not bound a job whose claims are to be given back; nil: it was not asked yet.
	failed error
}

// isPlain tells whether nothing is to be done but the bind by the binder.
func (j *Job) isPlain() bool {
	return j.Cycle == nil && j.Extender == nil && (j.preBound || !j.preBindNeeded())
}

// preBindNeeded tells whether anything is to be written before the bind.
func (j *Job) preBindNeeded() bool { return j.Work.PreBindNeeded() || j.Claims.PreBindNeeded() }

// Progress is how far a job has come.
type Progress int

const (
	// Delayed: the pod will be bound later, after its permit or its PreBind.
	Delayed Progress = iota + 1
	// Permitted: the pod waits on Permit no longer, and nothing holds it in flight.
	Permitted
	// PostBound: the PostBind plugins have run.
	PostBound
)

// Error is why plugins have kept a pod from being bound.
type Error struct {
	Status *fwk.Status
	// InFlight says that the pod is still in flight: it can be unschedulable, and is not only to be tried again.
	InFlight bool
	// text is what the pod's owner is told.
	text string
}

func (e *Error) Error() string { return e.text }

// Unwrap is the plugin's error, or the binder's.
func (e *Error) Unwrap() error { return e.Status.AsError() }

// Unschedulable tells whether plugins have turned the pod away while it can be unschedulable.
func (e *Error) Unschedulable() bool { return e.InFlight && e.Status.IsRejected() }
