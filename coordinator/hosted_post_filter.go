package coordinator

import (
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/scorer"
)

// statuses tells what each node was turned away with. It looks at every row.
func (s *Scheduler) statuses(a *attempt, p *answers.Answer) *framework.NodeStatuses {
	out := framework.NewNodeStatuses()
	h := a.plugins
	switch {
	case h.Rejected() != nil:
		out.SetAbsent(h.Rejected())
		return out
	case p == nil:
		if r := a.class.Rejected; r != nil {
			out.SetAbsent(outoftree.StatusOf([]scorer.Reason{{Plugin: strings.Join(r.Plugins, " "), Text: r.Message, Unresolvable: r.Unresolvable}}))
		}
		return out
	}
	if left := h.LeftOut(); left != nil {
		out.SetAbsent(left)
	}
	for shard := range s.cache.NumShards() {
		for index := range s.cache.Table(shard).All() {
			row := cache.Row{Shard: uint32(shard), Index: index}
			name := s.nameOf(row)
			if h.LeavesOut(name) {
				continue
			}
			if status, _ := h.Status(row, name); !status.IsSuccess() {
				out.Set(name, status)
				continue
			}
			why := p.WhyRefused(row)
			if len(why) == 0 {
				why = a.extenders.WhyRefused(name)
			}
			status := outoftree.StatusOf(why)
			if status == nil {
				status = fwk.NewStatus(fwk.Unschedulable)
			}
			out.Set(name, status)
		}
	}
	return out
}
