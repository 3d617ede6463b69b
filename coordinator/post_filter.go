package coordinator

import (
	"context"

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
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

var _ preempt.Plugins = (*outoftree.Review)(nil)

// preemption is what the PostFilter plugins make of an attempt that has found no node.
type preemption struct {
	nominating *objects.Nominating
	// victims have to leave the nominated node; none: nothing is to be carried out.
	victims []*v1.Pod
	// claims is what is to be done about the pod's claims of devices.
	claims devices.Plan
}

// postFilter asks the PostFilter plugins of a pod's profile what may help it, and completes its
// decision. answer is the answer of its class, with reasons; nil: a PreFilter has rejected the pod.
func (s *Scheduler) postFilter(ctx context.Context, a *attempt, answer *answers.Answer, d *pb.Decision) (preemption, error) {
	if a.Plugins == nil && len(a.prof.PostFilters()) == 0 {
		return preemption{}, nil
	}
	a.Trace.Begin(tracing.PostFilter)
	defer a.Trace.End(tracing.PostFilter)
	var out preemption
	var failed error // ends the loop
	builtIn := func(name string) (r *fwk.PostFilterResult, status *fwk.Status) {
		begin := s.cfg.Now()
		if r, status, failed = s.builtInPostFilter(ctx, name, a, answer, &out); failed != nil {
			status = fwk.AsStatus(failed)
		}
		s.metrics.Framework().Plugin(name, framework.PostFilter.String(), status.Code().String(), s.cfg.Now().Sub(begin))
		return r, status
	}
	var r *fwk.PostFilterResult
	var status *fwk.Status
	if a.Plugins != nil {
		statuses := func() fwk.NodeToStatusReader { return a.Plugins.Statuses(answer, a.Extenders.WhyRefused) }
		r, status = a.Plugins.Cycle.PostFilter(ctx, statuses, builtIn)
	} else {
		begin := s.cfg.Now()
		r, status = framework.RunPostFilters(a.prof.PostFilters(), builtIn)
		s.metrics.Framework().Point(d.Profile, framework.PostFilter.String(), status.Code().String(), s.cfg.Now().Sub(begin))
	}
	if failed != nil {
		return preemption{}, failed
	}
	out.nominating = preempt.Nominating(r)
	if text := status.Message(); text != "" {
		d.Message += " " + text
	}
	if out.nominating != nil {
		d.Nominated = out.nominating.Node
	}
	for _, victim := range out.victims {
		d.Victims = append(d.Victims, victim.Namespace+"/"+victim.Name)
	}
	return out, nil
}

// builtInPostFilter asks one built-in plugin, and leaves victims in out. An error ends the loop; an error of the attempt
// is a status.
func (s *Scheduler) builtInPostFilter(ctx context.Context, name string, a *attempt, answer *answers.Answer,
	out *preemption) (r *fwk.PostFilterResult, status *fwk.Status, err error) {
	switch name {
	case rules.DynamicResources:
		out.claims = s.planClaims(a, answer)
		return nil, out.claims.Status(), nil
	case rules.DefaultPreemption:
		found, err := s.defaultPreemption(ctx, a, answer)
		out.victims = found.Victims
		return found.Result, found.Status, err
	}
	return nil, fwk.NewStatus(fwk.Unschedulable), nil
}

// defaultPreemption is DefaultPreemption's PostFilter. Where extenders have to be asked first, the attempt is parked, and nobody
// reads its status.
func (s *Scheduler) defaultPreemption(ctx context.Context, a *attempt, answer *answers.Answer) (preempt.Outcome, error) {
	defer s.chargeDryRun(a, s.cfg.Now())
	out, err := s.preempt.PostFilter(ctx, &preempt.Preemptor{
		Pod: a.Pod, Class: a.Class, Answer: answer, Plugins: a.Plugins, Extenders: a.Extenders,
		Advice: a.advice, Shown: a.prof.Candidates, Trace: a.Trace,
		Fails: func(row cache.Row) error { return s.failsOn(a, row) },
	})
	if out.Asking != nil {
		a.advice = out.Asking
		s.park(a)
	}
	return out, err
}
