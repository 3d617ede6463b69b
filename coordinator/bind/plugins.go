package bind

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

// Plugin makes the part of a built-in plugin that binding cycles run beside plugins that are compiled in; nil: the plugin has no
// such part. c may be nil as long as the plugin does not run.
func (c *Cycles) Plugin(name string) framework.PluginFactory {
	var p fwk.Plugin
	switch name {
	case rules.VolumeBinding:
		p = volumeBinder{c}
	case rules.DynamicResources:
		p = claimBinder{c}
	case rules.DefaultBinder:
		p = podBinder{c}
	default:
		return nil
	}
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }
}

// Reservation is what a placement holds besides its room. It stands in the cycle's state, for VolumeBinding and
// DynamicResources.
type Reservation struct {
	// Work is what the pod's volumes need before it can be bound; nil: nothing. Failed is why they can't have it.
	Work     *volumes.Work
	Failed   error
	Patience time.Duration
	// Claims is the same for claims of devices.
	Claims          *devices.Work
	ClaimsFailed    error
	DevicesPatience time.Duration
}

const reservationKey fwk.StateKey = "shardsched.io/reservation"

// Clone is part of fwk.StateData: there is one for all copies.
func (r *Reservation) Clone() fwk.StateData { return r }

// KeepIn puts a reservation into a cycle's state.
func (r *Reservation) KeepIn(state fwk.CycleState) { state.Write(reservationKey, r) }

func reservationOf(state fwk.CycleState) (*Reservation, error) {
	data, err := state.Read(reservationKey)
	if err != nil {
		return nil, err
	}
	r, ok := data.(*Reservation)
	if !ok {
		return nil, errors.New("the reservation was replaced in the cycle's state")
	}
	return r, nil
}

// volumeBinder is VolumeBinding from Reserve on. The volumes themselves are reserved, and given
// back, by the loop.
type volumeBinder struct{ *Cycles }

var (
	_ fwk.ReservePlugin = volumeBinder{}
	_ fwk.PreBindPlugin = volumeBinder{}
)

// Name is part of fwk.Plugin.
func (volumeBinder) Name() string { return rules.VolumeBinding }

// Reserve is part of fwk.ReservePlugin.
func (volumeBinder) Reserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	r, err := reservationOf(state)
	if err == nil {
		err = r.Failed
	}
	return fwk.AsStatus(err)
}

// Unreserve is part of fwk.ReservePlugin.
func (volumeBinder) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

// PreBindPreFlight is part of fwk.PreBindPlugin.
func (volumeBinder) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod,
	_ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	r, err := reservationOf(state)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if !r.Work.PreBindNeeded() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind is part of fwk.PreBindPlugin.
func (b volumeBinder) PreBind(ctx context.Context, state fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	r, err := reservationOf(state)
	if err == nil && r.Work.PreBindNeeded() {
		err = b.cfg.Volumes.PreBind(ctx, r.Work, r.Patience)
	}
	return fwk.AsStatus(err)
}

// claimBinder is DynamicResources from Reserve on. The devices themselves are reserved, and given back, by the loop; what
// was written is taken back once all Unreserve plugins have run.
type claimBinder struct{ *Cycles }

var (
	_ fwk.ReservePlugin = claimBinder{}
	_ fwk.PreBindPlugin = claimBinder{}
)

// Name is part of fwk.Plugin.
func (claimBinder) Name() string { return rules.DynamicResources }

// Reserve is part of fwk.ReservePlugin.
func (claimBinder) Reserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	r, err := reservationOf(state)
	if err == nil {
		err = r.ClaimsFailed
	}
	return fwk.AsStatus(err)
}

// Unreserve is part of fwk.ReservePlugin.
func (claimBinder) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

// PreBindPreFlight is part of fwk.PreBindPlugin.
func (claimBinder) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod,
	_ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	r, err := reservationOf(state)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if !r.Claims.PreBindNeeded() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind is part of fwk.PreBindPlugin.
func (b claimBinder) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	r, err := reservationOf(state)
	if err == nil && r.Claims.PreBindNeeded() {
		err = b.cfg.Claims.PreBind(ctx, r.Claims, pod.Spec.SchedulerName, r.DevicesPatience)
	}
	return fwk.AsStatus(err)
}

// podBinder is DefaultBinder.
type podBinder struct{ *Cycles }

var _ fwk.BindPlugin = podBinder{}

// Name is part of fwk.Plugin.
func (podBinder) Name() string { return rules.DefaultBinder }

// Bind is part of fwk.BindPlugin: through the binder that all pods are bound by.
func (b podBinder) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if b.cfg.Binder == nil {
		return nil // there is nowhere to write to
	}
	r, err := reservationOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	unbound := *pod
	unbound.Spec.NodeName = ""
	return fwk.AsStatus(b.bindOne(ctx, objects.Binding{Pod: &unbound, Node: node, ClaimStatus: r.Claims.PodStatus()}))
}
