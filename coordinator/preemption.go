package coordinator

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// A pod that no node takes may put others out:
//
//	decide ── no node ──> PostFilter plugins, in the profile's order
//	                        │  DefaultPreemption: may it? ──> candidates (preemption_candidates.go)
//	                        │                                    └─ the best one
//	                        v
//	                 recorded, and back in the queue: nominated to the node, or to none any more
//	                        │
//	                        ├─ lower nominations of the node are cleared
//	                        ├─ victims that are only promised to it: called off, no write
//	                        └─ the others: Evictor, behind the loop ──done──> Preempted
//	                           (simulate: they are gone at once)              on an error: Activate
//
// From the decision on until the Evictor is done the preemptor is gated, should anything move it.

// Evictor carries preemptions out. It is called on the loop's goroutine and must not block.
type Evictor interface {
	// Evict clears the nominations of e.Lower, then has the victims leave: each gets its
	// condition, is deleted and gets its event; all but the last together, the last one when they
	// are through. A victim that is gone is no error. done is called once, from any goroutine,
	// when all is written or something failed; what is left then is not begun. When ctx ends, so
	// does the eviction, with an error.
	Evict(ctx context.Context, e objects.Eviction, done func(error))
}

// preemption is what the PostFilter plugins make of an attempt that has found no node.
type preemption struct {
	nominating *objects.Nominating
	// victims have to leave the nominated node; none: nothing is to be carried out.
	victims []*v1.Pod
}

// postFilter asks the PostFilter plugins of a pod's profile what may help it, and completes its
// decision. p is the answer of its class, with reasons; nil: a PreFilter has rejected the pod.
func (s *Scheduler) postFilter(ctx context.Context, a *attempt, p *answers.Answer, d *pb.Decision) (preemption, error) {
	if a.plugins == nil && len(a.prof.PostFilters()) == 0 {
		return preemption{}, nil
	}
	a.trace.Begin(tracing.PostFilter)
	defer a.trace.End(tracing.PostFilter)
	var out preemption
	var failed error // ends the loop
	builtIn := func(name string) (r *fwk.PostFilterResult, status *fwk.Status) {
		begin := s.cfg.Now()
		if r, status, failed = s.builtInPostFilter(ctx, name, a, p, &out); failed != nil {
			status = fwk.AsStatus(failed)
		}
		s.metrics.framework.Plugin(name, framework.PostFilter.String(), status.Code().String(), s.cfg.Now().Sub(begin))
		return r, status
	}
	var r *fwk.PostFilterResult
	var status *fwk.Status
	if a.plugins != nil {
		r, status = a.plugins.Cycle.PostFilter(ctx, func() fwk.NodeToStatusReader { return s.statuses(a, p) }, builtIn)
	} else {
		begin := s.cfg.Now()
		r, status = framework.RunPostFilters(a.prof.PostFilters(), builtIn)
		s.metrics.framework.Point(d.Profile, framework.PostFilter.String(), status.Code().String(), s.cfg.Now().Sub(begin))
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
func (s *Scheduler) builtInPostFilter(ctx context.Context, name string, a *attempt, p *answers.Answer, out *preemption) (r *fwk.PostFilterResult, status *fwk.Status, err error) {
	switch name {
	case compile.DynamicResources:
		r := a.class.Rejected
		return nil, preempt.Claims(r == nil || a.prof.Prepares(name, r.Plugins), r != nil && slices.Contains(r.Plugins, name)), nil
	case preempt.PluginName:
		r, status, out.victims, err = s.preempt(ctx, a, p)
		return r, status, err
	}
	return nil, fwk.NewStatus(fwk.Unschedulable), nil
}

// preempt is DefaultPreemption's PostFilter.
func (s *Scheduler) preempt(ctx context.Context, a *attempt, p *answers.Answer) (*fwk.PostFilterResult, *fwk.Status, []*v1.Pod, error) {
	if a.shrunk == nil {
		s.metrics.preemptionAttempts.Inc()
	}
	pod, nominated := a.pod.Obj, a.pod.Nomination()
	p = s.answerFor(a, p)
	if why := preempt.Ineligible(pod, nominated, s.hopelessNode(a, p, nominated), s.cache.PodsOn(nominated)); why != "" {
		return nil, preempt.Unhelpful(why), nil, nil
	}
	if list := extender.Preempters(s.extenders.List(), pod); len(list) > 0 {
		return s.preemptAdvised(ctx, a, p, list)
	}
	node, victims, r, status, err := s.findVictims(ctx, a, p)
	if err != nil || node == "" {
		return r, status, nil, err
	}
	klog.FromContext(ctx).V(2).Info("The target node for the preemption is determined", "node", node, "pod", klog.KObj(pod))
	return preempt.Nominate(node), nil, victims, nil
}

// hopelessNode tells whether a pod's nominated node refuses it for a reason which no victim
// changes, or is gone.
func (s *Scheduler) hopelessNode(a *attempt, p *answers.Answer, node string) bool {
	if node == "" || p == nil {
		return true // what a PreFilter rejects is of no use to any node
	}
	row, ok := s.cache.RowOf(node)
	if !ok {
		return true
	}
	if status, asked := a.plugins.Status(row, node); asked && !status.IsSuccess() {
		return status.Code() == fwk.UnschedulableAndUnresolvable
	}
	why := p.WhyRefused(row)
	if _, instead, err := s.ownReasons(p, a); err == nil && instead != nil {
		why = instead
	}
	if len(why) == 0 {
		why = a.extenders.WhyRefused(node)
	}
	return slices.ContainsFunc(why, func(r scorer.Reason) bool { return r.Unresolvable })
}

// begin has a preemptor wait for what is about to be carried out, should anything move it.
func (s *Scheduler) begin(a *attempt, x preemption) {
	if len(x.victims) > 0 && !s.cfg.SyncPreemption {
		s.preempting[a.pod.Obj.UID] = struct{}{}
	}
}

// carryOut has the victims leave. The preemptor is back in the queue, and nominated.
func (s *Scheduler) carryOut(a *attempt, x preemption) {
	if len(x.victims) == 0 {
		return
	}
	e := objects.Eviction{Preemptor: a.pod.Obj, Node: x.nominating.Node}
	leaving := slices.Clone(x.victims)
	if s.cfg.Evictor != nil {
		leaving = slices.DeleteFunc(leaving, func(v *v1.Pod) bool { return v.DeletionTimestamp != nil })
	}
	if len(leaving) == 0 {
		delete(s.preempting, a.pod.Obj.UID)
		return
	}
	s.metrics.preemptionVictims.Observe(float64(len(x.victims)))
	e.Lower = s.clearLower(a.pod, e.Node)
	for _, v := range leaving {
		s.blame(v, a.pod.Obj, e.Node)
		_, _, assumed := s.cache.Pod(v.UID)
		if assumed && s.callOff(v.UID, preempt.PluginName) {
			s.cfg.Reporter.Preempted(v, a.pod.Obj, e.Node)
			continue
		}
		e.Victims = append(e.Victims, v)
	}
	s.tally.preempted += uint64(len(e.Victims))
	switch {
	case len(e.Victims) == 0 && len(e.Lower) == 0:
		s.evicted(a.pod.Obj.UID, nil, time.Time{})
	case s.cfg.Evictor == nil:
		s.vanish(e.Victims)
		s.evicted(a.pod.Obj.UID, nil, time.Time{})
	default:
		uid, begun := a.pod.Obj.UID, s.cfg.Now()
		s.evictions++
		s.cfg.Evictor.Evict(s.life, e, func(err error) {
			s.inbox.put(func() {
				s.evictions--
				s.evicted(uid, err, begun)
			})
		})
	}
}

// clearLower takes the nominations to a node from pods of lower priority than a preemptor, so that
// they look for another at once. It returns them.
//
// Differs from upstream: nominations are cleared in the queue at once, and in the status behind the
// loop. Without SchedulerAsyncPreemption too victims are told to leave behind the loop.
func (s *Scheduler) clearLower(p *queue.Pod, node string) []*v1.Pod {
	var told []*v1.Pod
	for _, other := range slices.Clone(s.queue.Nominated(node)) {
		if other == p || compile.Priority(other.Obj) >= compile.Priority(p.Obj) {
			continue
		}
		s.queue.Nominate(other, "")
		s.journal.put(other.Obj.UID, s.queue.Entry(other))
		// Its status may tell of the nomination by the time that it is looked at.
		told = append(told, other.Obj)
		bare := *other.Obj
		bare.Status.NominatedNodeName = node
		s.moveAll(queue.NominationEnded(&bare, nil))
	}
	return told
}

// vanish takes victims away at once, where nobody is told of it. What the batch knows of the
// tables is void then.
func (s *Scheduler) vanish(victims []*v1.Pod) {
	s.size.invalidate()
	for _, v := range victims {
		s.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: v})
	}
}

// evicted takes in that the victims of a pod are told to leave, all of them, or why not.
func (s *Scheduler) evicted(uid types.UID, err error, begun time.Time) {
	delete(s.preempting, uid)
	if !begun.IsZero() && !s.cfg.SyncPreemption {
		s.metrics.evicted(err, s.cfg.Now().Sub(begun))
	}
	if err != nil {
		klog.FromContext(s.life).Error(err, "Preemption is not carried out", "preemptor", uid)
		s.queue.Activate(uid)
		return
	}
	s.queue.Preempted(uid)
}

// blame keeps in mind why a pod has to leave its node, as long as it is there.
func (s *Scheduler) blame(victim, preemptor *v1.Pod, node string) {
	s.blamed[victim.UID] = "preempted by pod " + preemptor.Namespace + "/" + preemptor.Name + ", which has a higher priority, on node " + node
}
