package coordinator

import (
	"context"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/scorer"
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
			if h.only != nil && !h.only.Has(name) {
				continue
			}
			if status := h.asked[row]; !status.IsSuccess() {
				out.Set(name, status)
				continue
			}
			code, plugin := fwk.Unschedulable, ""
			var texts []string
			why := p.whyRefused(row, t, s.eval)
			if x, out := a.answer.refuses(name); out && len(why) == 0 {
				why = a.answer.why(x)
			}
			for _, r := range why {
				if r.Unresolvable {
					code = fwk.UnschedulableAndUnresolvable
				}
				texts, plugin = append(texts, r.Text), r.Plugin
			}
			out.Set(name, fwk.NewStatus(code, texts...).WithPlugin(plugin))
		}
	}
	return out
}

// filtersGone gives what the guests of an attempt have to say of a node while some of its pods, by their
// numbers, are gone; nil where none of them looks at nodes.
func (s *Scheduler) filtersGone(ctx context.Context) func(*attempt) guestVeto {
	return func(a *attempt) guestVeto {
		h := a.hosted
		if h == nil || !h.profile.filters || h.absent != nil {
			return nil
		}
		return func(node string, gone []uint64) []scorer.Reason {
			if h.only != nil && !h.only.Has(node) {
				return []scorer.Reason{{Text: framework.LeftOut(h.narrowedBy).Message(), Unresolvable: true}}
			}
			status := s.filterGone(ctx, h, node, gone)
			if status.IsSuccess() {
				return nil
			}
			var out []scorer.Reason
			for _, text := range status.Reasons() {
				out = append(out, scorer.Reason{Plugin: status.Plugin(), Text: text, Unresolvable: status.Code() == fwk.UnschedulableAndUnresolvable})
			}
			return out
		}
	}
}

// filterGone shows guests a node without some of its pods.
func (s *Scheduler) filterGone(ctx context.Context, h *hosted, node string, gone []uint64) *fwk.Status {
	view, err := s.guests.snapshot.Get(node)
	if err != nil {
		return fwk.AsStatus(err)
	}
	cycle := h.cycle
	if len(gone) > 0 {
		cycle, view = cycle.Clone(), view.Snapshot()
	}
	for _, number := range gone {
		pod, _ := s.cache.PodNumbered(number)
		if pod == nil {
			continue
		}
		info, _ := framework.NewPodInfo(pod) // terms that can not be read are left out
		if err := view.RemovePod(klog.FromContext(ctx), pod); err != nil {
			return fwk.AsStatus(err)
		}
		if status := cycle.RemovePod(ctx, info, view); !status.IsSuccess() {
			return status
		}
	}
	return cycle.Filter(ctx, view)
}
