package coordinator

import (
	"context"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/scorer"
)

// askPostFilters asks the PostFilter plugins of a hosted attempt, guests and built-in ones: ask asks one
// of these.
func (s *Scheduler) askPostFilters(ctx context.Context, a *attempt, p *answers.Answer, ask func(plugin string) preempt.Verdict) preempt.Verdict {
	return verdictOf(a.plugins.cycle.PostFilter(ctx,
		func() fwk.NodeToStatusReader { return s.statuses(a, p) },
		func(name string) (*fwk.PostFilterResult, *fwk.Status) { return toldBy(ask(name)) },
	))
}

// verdictOf is what PostFilter plugins say, as the loop has it.
func verdictOf(r *fwk.PostFilterResult, status *fwk.Status) preempt.Verdict {
	v := preempt.Verdict{Text: status.Message()}
	switch {
	case status.IsSuccess():
		v.Code = preempt.Success
	case status.Code() == fwk.UnschedulableAndUnresolvable:
		v.Code = preempt.Unresolvable
	case !status.IsRejected():
		v.Code = preempt.Error
	}
	if r != nil && r.NominatingInfo != nil && r.Mode() == fwk.ModeOverride {
		v.Nominating = &preempt.Nominating{Node: r.NominatedNodeName}
	}
	return v
}

// toldBy is what a built-in PostFilter plugin says, as plugins do.
func toldBy(v preempt.Verdict) (r *fwk.PostFilterResult, status *fwk.Status) {
	if v.Nominating != nil {
		r = &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: v.Nominating.Node}}
	}
	var reasons []string
	if v.Text != "" {
		reasons = append(reasons, v.Text)
	}
	return r, fwk.NewStatus([preempt.Codes]fwk.Code{
		preempt.Unschedulable: fwk.Unschedulable, preempt.Success: fwk.Success,
		preempt.Unresolvable: fwk.UnschedulableAndUnresolvable, preempt.Error: fwk.Error,
	}[v.Code], reasons...)
}

// statuses tells what each node was turned away with. It looks at every row.
func (s *Scheduler) statuses(a *attempt, p *answers.Answer) *framework.NodeStatuses {
	out := framework.NewNodeStatuses()
	h := a.plugins
	switch {
	case h.absent != nil:
		out.SetAbsent(h.absent)
		return out
	case p == nil:
		if r := a.class.Rejected; r != nil {
			out.SetAbsent(statusOf([]scorer.Reason{{Plugin: strings.Join(r.Plugins, " "), Text: r.Message, Unresolvable: r.Unresolvable}}))
		}
		return out
	}
	if h.only != nil {
		out.SetAbsent(framework.LeftOut(h.narrowedBy))
	}
	for shard := range s.cache.NumShards() {
		for index := range s.cache.Table(shard).All() {
			row := cache.Row{Shard: uint32(shard), Index: index}
			name := s.nameOf(row)
			if h.only != nil && !h.only.Has(name) && name != a.pod.Nomination() {
				continue
			}
			if status := h.asked[row]; !status.IsSuccess() {
				out.Set(name, status)
				continue
			}
			why := p.WhyRefused(row)
			if len(why) == 0 {
				why = a.answer.whyRefused(name)
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
