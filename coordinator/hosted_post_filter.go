package coordinator

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/preempt"
)

// postFilters are the PostFilter plugins of an attempt, guests among them.
func (s *Scheduler) postFilters(a *attempt) []string {
	if a.hosted != nil {
		return a.hosted.profile.Plugins(framework.PostFilter)
	}
	return a.prof.PostFilters()
}

// guestPostFilter asks a guest what may help a pod that no node takes.
func (s *Scheduler) guestPostFilter(ctx context.Context, name string, a *attempt, p *pick) (preempt.Verdict, error) {
	if a.hosted == nil {
		return preempt.Verdict{}, nil
	}
	r, status, ok := a.hosted.cycle.PostFilterBy(ctx, name, s.statuses(a, p))
	if !ok {
		return preempt.Verdict{}, nil
	}
	v := preempt.Verdict{Text: status.Message()}
	switch {
	case status.IsSuccess():
		v.Code, v.Text = preempt.Success, ""
	case status.Code() == fwk.UnschedulableAndUnresolvable:
		v.Code = preempt.Unresolvable
	case !status.IsRejected():
		v.Code = preempt.Error
	}
	if r != nil && r.NominatingInfo != nil && r.Mode() == fwk.ModeOverride {
		v.Nominating = &preempt.Nominating{Node: r.NominatedNodeName}
	}
	return v, nil
}

// statuses tells what each node was turned away with. It looks at every row.
func (s *Scheduler) statuses(a *attempt, p *pick) *framework.NodeStatuses {
	out := framework.NewNodeStatuses()
	h := a.hosted
	if h.absent != nil || p == nil {
		if h.absent != nil {
			out.SetAbsent(h.absent)
		}
		return out
	}
	if h.only != nil {
		out.SetAbsent(framework.LeftOut(h.narrowedBy))
	}
	t := tables{s.cache.Cache}
	for shard := range t.NumShards() {
		for index := range t.Table(shard).All() {
			row := cache.Row{Shard: uint32(shard), Index: index}
			name := s.nameOf(row)
			if h.only != nil && !h.only.Has(name) && name != a.pod.Nomination() {
				continue
			}
			if status := h.asked[row]; !status.IsSuccess() {
				out.Set(name, status)
				continue
			}
			why := p.whyRefused(row, t, s.eval)
			if x, out := a.answer.refuses(name); out && len(why) == 0 {
				why = a.answer.why(x)
			}
			status := statusOf(why)
			if status == nil {
				status = fwk.NewStatus(fwk.Unschedulable)
			}
			out.Set(name, status)
		}
	}
	return out
}
