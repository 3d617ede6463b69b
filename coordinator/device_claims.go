package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Claims of devices in the loop:
//
//	compile        what the pod's claims ask goes into its class: at the start of the batch, and again at the pod's turn
//	place          the own table finds the devices on the chosen row, and the next pod of the batch sees them in use
//	bind           the claims are written before the pod is bound (package bind); without a writer they are at once
//	bound          what was written counts, or the devices are free again
//	post-filter    a claim that nobody uses, and that keeps the pod off all nodes, gives its devices back

// reserveDevices gives the devices of a row to a pod's claims.
func (s *Scheduler) reserveDevices(a *attempt, row cache.Row, node string) (work *devices.Work, err error) {
	defer func() {
		if err != nil {
			s.answers.Recovered() // it may have come by a panic
		}
	}()
	defer s.state.RecoverInto(&err)
	found := s.answers.Evaluator().Allocate(s.state.Table(int(row.Shard)), row.Index, a.Class.Scorer)
	if found.Fatal != nil {
		return nil, errors.New(s.claimText(a.Pod.Obj, found.Fatal))
	}
	return s.state.ReserveDevices(a.Pod.Obj, node, a.Class.Query.GetResourceClaims(), &found)
}

// claimText is the text of a row that fails a pod, with the names of the pod's claims.
func (s *Scheduler) claimText(p *v1.Pod, f *scorer.FatalText) string {
	names := s.state.Claims().ClaimNames(p)
	return f.In(func(i int32) (string, string) {
		if int(i) >= len(names) {
			return p.Namespace, ""
		}
		return names[i].Namespace, names[i].Name
	})
}

// claimsFail is the error of a node on which devices could not be searched for, which fails the pod whatever the other nodes
// have.
func (s *Scheduler) claimsFail(p *v1.Pod, f *scorer.FatalText) error {
	return fmt.Errorf("running %q filter plugin: %s", rules.DynamicResources, s.claimText(p, f))
}

// failsOn is claimsFail for a node in a dry run of preemption; nil: devices can be searched for on it.
func (s *Scheduler) failsOn(a *attempt, row cache.Row) error {
	defer s.withoutBound()() // of the few nodes that are told, those whose search is short of its bound
	found := s.answers.Evaluator().Allocate(s.state.Table(int(row.Shard)), row.Index, a.Class.Scorer)
	if found.Fatal == nil {
		return nil
	}
	return s.claimsFail(a.Pod.Obj, found.Fatal)
}

// decided says in a decision what its claims get.
func decided(w *devices.Work) (out []*pb.ClaimDevices) {
	for _, x := range w.Allocated() {
		c := &pb.ClaimDevices{Claim: x.Claim}
		for i := range x.Results {
			r := &x.Results[i]
			c.Devices = append(c.Devices, r.Request+"/"+r.Driver+"/"+r.Pool+"/"+r.Device)
		}
		out = append(out, c)
	}
	return out
}

// completeClaims has a placement's claims written at once, where nobody writes them. It returns the pod with what its status
// says of them.
func (s *Scheduler) completeClaims(p *v1.Pod, work *devices.Work) (*v1.Pod, error) {
	claims, status, err := s.state.CompleteDevices(work)
	if err != nil {
		return p, err
	}
	for _, c := range claims {
		s.intake.KeepClaim(c, false)
	}
	if status != nil {
		told := *p
		told.Status.ExtendedResourceClaimStatus = status
		p = &told
	}
	s.intake.MoveClaims()
	return p, nil
}

// claimsEnd ends what a bind has done about a pod's claims.
func (s *Scheduler) claimsEnd(end func(*devices.Work) error, w *devices.Work) {
	if w == nil {
		return
	}
	if err := end(w); err != nil {
		klog.FromContext(s.life).Error(err, "The tables refuse what a bind has made of devices")
	}
	s.intake.MoveClaims()
}

// claimsPostFilter is DynamicResources' PostFilter. It leaves what is to be done in plan.
func (s *Scheduler) claimsPostFilter(a *attempt, answer *answers.Answer, plan *devices.Plan) *fwk.Status {
	var unavailable []int
	if r := a.Class.Rejected; r != nil {
		refused := slices.Contains(r.Plugins, rules.DynamicResources)
		if refused || !a.prof.Prepares(rules.DynamicResources, r.Plugins) {
			return preempt.Claims(refused)
		}
	} else if answer != nil && a.Class.Claims {
		unavailable = answer.UnavailableClaims()
	}
	p := s.state.Claims().Plan(a.Pod.Obj, unavailable)
	if !p.IsNone() {
		*plan = p
	}
	return fwk.NewStatus(fwk.Unschedulable, p.Text)
}

// carryPlanOut does what PostFilter has planned about a pod's claims. The pod is back in the queue: it is tried once the claim has
// changed, and at once where that fails.
func (s *Scheduler) carryPlanOut(a *attempt, plan devices.Plan) {
	if plan.IsNone() {
		return
	}
	if s.cfg.ClaimWriter == nil {
		now, gone, err := s.state.CompletePlan(plan)
		if err != nil {
			klog.FromContext(s.life).Error(err, "The tables refuse that a claim gives its devices back", "pod", klog.KObj(a.Pod.Obj))
		}
		for _, c := range []*resourcev1.ResourceClaim{now, gone} {
			if c != nil {
				s.intake.KeepClaim(c, c == gone)
			}
		}
		s.intake.MoveClaims()
		return
	}
	uid := a.Pod.Obj.UID
	s.preemptions.underWay++
	s.cycles.Do(func(ctx context.Context) {
		err := s.claims.CarryOut(ctx, plan)
		s.inbox.put(func() {
			s.preemptions.underWay--
			if err != nil {
				klog.FromContext(s.life).Error(err, "What was planned about a pod's claims is not done, it is tried again", "pod", uid)
				s.queue.Activate(uid)
			}
		})
	})
}

// claimMeter measures PreBind of claims. Any goroutine calls it.
type claimMeter struct{ *Scheduler }

// ClaimCreated is part of devices.Meter.
func (m claimMeter) ClaimCreated(ok bool) {
	m.inbox.put(func() { m.metrics.ClaimCreated(ok) })
}

// Waited is part of devices.Meter.
func (m claimMeter) Waited(profile, driver, outcome string, conditioned bool, took time.Duration) {
	m.inbox.put(func() { m.metrics.DevicesWaited(profile, driver, outcome, conditioned, took) })
}

var _ devices.Meter = claimMeter{}
