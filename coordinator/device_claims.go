package coordinator

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/state"
)

// Claims of devices in the loop:
//
//	compile        what the pod's claims ask goes into its class: at the start of the batch, and again at the pod's turn
//	place          the own table finds the devices on the chosen row, and the next pod of the batch sees them in use
//	bind           the claims are written before the pod is bound (package bind); without a writer they are at once
//	bound          what was written counts, or the devices are free again
//	post-filter    a claim that nobody uses, and that keeps the pod off all nodes, gives its devices back

// podGroups is what claims of PodGroups ask of them; nil: they do not count.
func (s *Scheduler) podGroups() func(*v1.Pod) devices.PodGroup {
	if !s.groups.Gates().Claims {
		return nil
	}
	return func(p *v1.Pod) (out devices.PodGroup) {
		if x := s.groups.Of(p); x != nil && x.Spec() != nil {
			out.Object, out.Scheduled = x.Spec().Object, x.Scheduled()
		}
		return out
	}
}

// completeClaims has a placement's claims written at once, where nobody writes them.
func (s *Scheduler) completeClaims(got *state.Reserved) (err error) {
	claims, pod, err := s.state.CompleteDevices(got.Pod, got.Claims)
	if err != nil {
		return err
	}
	for _, c := range claims {
		s.intake.KeepClaim(c, false)
	}
	got.Pod, got.Claims = pod, nil
	s.intake.MoveClaims()
	return nil
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

// carryPlanOut does what is planned about a pod's claims. A pod that PostFilter has planned for is back in the queue: it is tried once
// the claim has changed, and at once where that fails.
func (s *Scheduler) carryPlanOut(p *v1.Pod, plan devices.Plan) {
	if plan.IsNone() {
		return
	}
	if s.cfg.ClaimWriter == nil {
		s.completePlan(p, plan)
		return
	}
	uid := p.UID
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

// freeClaims has a pod that is gone give its devices back, where there is no controller that would.
func (s *Scheduler) freeClaims(p *v1.Pod) {
	claims := s.state.Claims()
	for _, plan := range append(claims.FreedBy(p), claims.LeftBehind(p)...) {
		s.completePlan(p, plan)
	}
}

// freePodGroupClaims is freeClaims for a PodGroup.
func (s *Scheduler) freePodGroupClaims(g *v1alpha2.PodGroup) {
	for _, plan := range s.state.Claims().FreedByPodGroup(g) {
		s.completePlan(g, plan)
	}
}

// removeLeftBehind deletes the claims that were made for extended resources of a pod that is gone, and that it was not told of: for
// a leader was killed before it had bound the pod. Elsewhere Kubernetes' garbage collector does. A bind that is under way takes back
// its own.
func (s *Scheduler) removeLeftBehind(p *v1.Pod) {
	if s.cfg.ClaimWriter == nil || s.cfg.ClaimStatus != nil || s.binds.pending[p.UID] != nil {
		return
	}
	for _, plan := range s.state.Claims().LeftBehind(p) {
		s.carryPlanOut(p, plan)
	}
}

// completePlan does it at once, where nobody writes claims.
func (s *Scheduler) completePlan(user klog.KMetadata, plan devices.Plan) {
	now, gone, err := s.state.CompletePlan(plan)
	if err != nil {
		klog.FromContext(s.life).Error(err, "The tables refuse that a claim gives its devices back", "user", klog.KObj(user))
	}
	for _, c := range []*resourcev1.ResourceClaim{now, gone} {
		if c != nil {
			s.intake.KeepClaim(c, c == gone)
		}
	}
	s.intake.MoveClaims()
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
