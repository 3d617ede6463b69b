package choice

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/scorer"
)

var _ preempt.Plugins = (*outoftree.Review)(nil)

// Help is what the PostFilter plugins make of an attempt that has found no node.
type Help struct {
	// Text is what they say.
	Text       string
	Nominating *objects.Nominating
	// Victims have to leave for the nominated node's room; none: nothing is to be carried out.
	Victims []*v1.Pod
	// Claims is what is to be done about the pod's claims of devices.
	Claims devices.Plan
	// Parked: extenders have to be asked first.
	Parked bool
}

// PostFilter asks the PostFilter plugins of a pod's profile what may help it. answer is the answer of its class, with reasons;
// nil: a PreFilter has rejected the pod. An error ends the loop.
func (c *Chooser) PostFilter(ctx context.Context, t *Try, answer *answers.Answer) (Help, error) {
	if t.Plugins == nil && len(t.Profile.PostFilters()) == 0 {
		return Help{}, nil
	}
	t.Trace.Begin(tracing.PostFilter)
	defer t.Trace.End(tracing.PostFilter)
	var out Help
	var failed error // ends the loop
	builtIn := func(name string) (r *fwk.PostFilterResult, status *fwk.Status) {
		begin := c.Now()
		if r, status, failed = c.builtInPostFilter(ctx, name, t, answer, &out); failed != nil {
			status = fwk.AsStatus(failed)
		}
		c.Meter.Plugin(name, framework.PostFilter.String(), status.Code().String(), c.Now().Sub(begin))
		return r, status
	}
	var r *fwk.PostFilterResult
	var status *fwk.Status
	if t.Plugins != nil {
		statuses := func() fwk.NodeToStatusReader { return t.Plugins.Statuses(answer, t.Extenders.WhyRefused) }
		r, status = t.Plugins.Cycle.PostFilter(ctx, statuses, builtIn)
	} else {
		begin := c.Now()
		r, status = framework.RunPostFilters(t.Profile.PostFilters(), builtIn)
		profile := t.Pod.Obj.Spec.SchedulerName
		c.Meter.Point(profile, framework.PostFilter.String(), status.Code().String(), c.Now().Sub(begin))
	}
	if failed != nil {
		return Help{}, failed
	}
	out.Nominating, out.Text = preempt.Nominating(r), status.Message()
	return out, nil
}

// builtInPostFilter asks one built-in plugin, and leaves in out what is to be done. An error ends the loop; an error of the attempt
// is a status.
func (c *Chooser) builtInPostFilter(ctx context.Context, name string, t *Try, answer *answers.Answer,
	out *Help) (r *fwk.PostFilterResult, status *fwk.Status, err error) {
	switch name {
	case rules.DynamicResources:
		out.Claims = c.planClaims(t, answer)
		return nil, out.Claims.Status(), nil
	case rules.DefaultPreemption:
		found, err := c.defaultPreemption(ctx, t, answer)
		out.Victims, out.Parked = found.Victims, found.Asking != nil
		return found.Result, found.Status, err
	}
	return nil, fwk.NewStatus(fwk.Unschedulable), nil
}

// planClaims is what DynamicResources' PostFilter makes of an attempt.
func (c *Chooser) planClaims(t *Try, answer *answers.Answer) devices.Plan {
	var unavailable []int
	if r := t.Class.Rejected; r != nil {
		refused := slices.Contains(r.Plugins, rules.DynamicResources)
		if refused || !t.Profile.Prepares(rules.DynamicResources, r.Plugins) {
			return devices.NoPlan(refused)
		}
	} else if answer != nil && t.Class.Claims {
		unavailable = answer.UnavailableClaims()
	}
	return c.State.Claims().Plan(t.Pod.Obj, unavailable)
}

// defaultPreemption is DefaultPreemption's PostFilter. Where extenders have to be asked first, nobody reads its status.
func (c *Chooser) defaultPreemption(ctx context.Context, t *Try, answer *answers.Answer) (preempt.Outcome, error) {
	defer func(begun time.Time) { c.Charge(t.Pod, c.Now().Sub(begun)) }(c.Now())
	out, err := c.Preempt.PostFilter(ctx, &preempt.Preemptor{
		Pod: t.Pod, Class: t.Class, Answer: answer, Plugins: t.Plugins, Extenders: t.Extenders,
		Advice: t.Advice, Ineligible: t.Ineligible, As: t.As, Shown: t.Profile.Candidates, Trace: t.Trace,
		Fails: func(row cache.Row) error { return c.failsOn(t, row) },
	})
	if out.Asking != nil {
		t.Advice = out.Asking
	}
	return out, err
}

// failsOn is claimsFail for a node in a dry run of preemption; nil: devices can be searched for on it.
func (c *Chooser) failsOn(t *Try, row cache.Row) error {
	defer c.Aside.Unbounded()() // of the few nodes that are told, those whose search is short of its bound
	found := c.Engine.Evaluator().Allocate(c.State.Table(int(row.Shard)), row.Index, t.Class.Scorer)
	if found.Fatal == nil {
		return nil
	}
	return c.claimsFail(t.Pod.Obj, found.Fatal)
}

// claimsFail is the error of a node on which devices could not be searched for, which fails the pod whatever the other nodes
// have.
func (c *Chooser) claimsFail(p *v1.Pod, f *scorer.FatalText) error {
	return fmt.Errorf("running %q filter plugin: %s", rules.DynamicResources, c.State.FatalText(p, f))
}
