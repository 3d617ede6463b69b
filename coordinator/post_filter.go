package coordinator

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
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
	if a.plugins == nil && len(a.prof.PostFilters()) == 0 {
		return preemption{}, nil
	}
	a.trace.Begin(tracing.PostFilter)
	defer a.trace.End(tracing.PostFilter)
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
	if a.plugins != nil {
		statuses := func() fwk.NodeToStatusReader { return a.plugins.Statuses(answer, a.extenders.WhyRefused) }
		r, status = a.plugins.Cycle.PostFilter(ctx, statuses, builtIn)
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
		return nil, s.claimsPostFilter(a, answer, &out.claims), nil
	case rules.DefaultPreemption:
		r, status, out.victims, err = s.defaultPreemption(ctx, a, answer)
		return r, status, err
	}
	return nil, fwk.NewStatus(fwk.Unschedulable), nil
}

// defaultPreemption is DefaultPreemption's PostFilter.
func (s *Scheduler) defaultPreemption(ctx context.Context, a *attempt,
	answer *answers.Answer) (*fwk.PostFilterResult, *fwk.Status, []*v1.Pod, error) {
	if a.advice == nil {
		s.metrics.PreemptionTried()
	}
	pod, nominated := a.pod.Obj, a.pod.Nomination()
	answer = s.answerFor(a, answer)
	if why := preempt.Ineligible(pod, nominated, s.uselessNode(a, answer, nominated), s.state.PodsOn(nominated)); why != "" {
		return nil, preempt.Refusal(why), nil, nil
	}
	x := s.preemptorOf(a, answer)
	if list := extender.Preempters(s.extenders.List(), pod); len(list) > 0 {
		return s.preemptAdvised(ctx, a, x, list)
	}
	found, err := s.findCandidates(ctx, a, x, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(found.Best) == 0 {
		r, status := s.preempt.NoCandidate(found)
		return r, status, nil, nil
	}
	best := found.Best[0]
	victims, err := s.preempt.Victims(pod, best)
	if err != nil {
		return nil, nil, nil, err
	}
	klog.FromContext(ctx).V(2).Info("The target node for the preemption is determined", "node", best.Name, "pod", klog.KObj(pod))
	return preempt.Nominate(best.Name), nil, victims, nil
}

// answerFor is the answer that a dry run uses: answer, or where a plugin's PreFilter has rejected the pod in
// a way that victims may change, on all nodes, the answer of the class; nil: nothing helps.
func (s *Scheduler) answerFor(a *attempt, answer *answers.Answer) *answers.Answer {
	switch rejected := a.plugins.Rejected(); {
	case rejected == nil:
		return answer
	case rejected.Code() != fwk.Unschedulable:
		return nil
	}
	return s.answers.Repaired(a.class)
}

// preemptAdvised is defaultPreemption for a pod whose preemption extenders have a say in. Where they have to be asked first,
// the attempt is parked, and nobody reads its status.
func (s *Scheduler) preemptAdvised(ctx context.Context, a *attempt, p *preempt.Preemptor,
	list []*extender.Extender) (*fwk.PostFilterResult, *fwk.Status, []*v1.Pod, error) {
	if a.advice == nil {
		a.advice = &preempt.Advice{}
	}
	r, status, victims, wait, err := s.preempt.Advised(ctx, p, &preempt.Advisers{
		List: list, Lanes: s.extenders, Pod: a.pod, Advice: a.advice, Shown: a.prof.Candidates,
		Find: func(ctx context.Context, n int) (preempt.Found, error) { return s.findCandidates(ctx, a, p, n) },
	})
	if wait {
		s.park(a)
		status = fwk.NewStatus(fwk.Error)
	}
	return r, status, victims, err
}

// preemptorOf is an attempt's pod as its candidates are found. answer is the answer that the dry run uses.
func (s *Scheduler) preemptorOf(a *attempt, answer *answers.Answer) *preempt.Preemptor {
	x := &preempt.Preemptor{Pod: a.pod.Obj, Answer: answer, Trace: a.trace}
	if answer == nil {
		return x
	}
	x.Nominees = s.nominees.Of(a.pod.Obj, a.class)
	if a.plugins.Judges() {
		x.Plugins = a.plugins
		return x
	}
	if row, class := s.ownLeftOut(a); class != nil {
		x.LeftOut = &preempt.LeftOut{Row: row, Class: class}
	}
	return x
}

// findCandidates finds the best candidates of a pod, n of them at the most, and charges what that took.
func (s *Scheduler) findCandidates(ctx context.Context, a *attempt, x *preempt.Preemptor, n int) (preempt.Found, error) {
	defer s.chargeDryRun(a, s.cfg.Now())
	return s.preempt.Find(ctx, x, n)
}

// uselessNode tells whether a pod's nominated node is gone, or refuses the pod for a reason which no victim changes.
func (s *Scheduler) uselessNode(a *attempt, answer *answers.Answer, node string) bool {
	if node == "" || answer == nil {
		return true // a PreFilter has rejected the pod, whatever the node
	}
	row, ok := s.state.RowOf(node)
	if !ok {
		return true
	}
	if status, asked := a.plugins.Status(row, node); asked && !status.IsSuccess() {
		return status.Code() == fwk.UnschedulableAndUnresolvable
	}
	why := answer.WhyRefused(row)
	if _, instead := s.ownReasons(answer, a); instead != nil {
		why = instead
	}
	if len(why) == 0 {
		why = a.extenders.WhyRefused(node)
	}
	return slices.ContainsFunc(why, func(r scorer.Reason) bool { return r.Unresolvable })
}
