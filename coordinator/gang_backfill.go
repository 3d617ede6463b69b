package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/scorer"
)

// Room that is held for a pod group (gang_reserve.go) is idle until the group starts. A pod that ends before then may use it:
//
//	node n-0  ├── a pod that runs for 10 minutes at the most ──┤
//	node n-1  ├── held ────────────────────────────────────────┼── the gang may start
//	              ├── one of 5 minutes ──┤
//	              ├── one of 20 minutes waits
//
// The start is forecast from pods on nodes that say when they end: by activeDeadlineSeconds, or because they are being deleted. The group
// may start once enough of them have ended for the requests of its members to fit. If they end sooner than they say, the group may have to
// wait for a pod that uses its room, until that pod's deadline at the latest. Where they do not make enough room, or no kubelet ends pods
// (SchedulerConfig.Kubelets), the start is unknown, and no pod uses the room.

// forecastEvery is for how long a forecast is used before a new one is made. One takes the loop 20 to 25 ms with 50,000 nodes, and
// 500,000 pods that say when they end (BenchmarkForecast).
const forecastEvery = 5 * time.Second

// mostEnding is how many pods a forecast looks at, those first that end first: more would take it longer than all nodes do.
const mostEnding = 1 << 14

// forecast is when the pod group may start that room is held for.
type forecast struct {
	of     *vacated  // as of its last attempt; nil: none is made
	starts time.Time // zero: unknown
	at     time.Time // when it was made
}

// forecastFor begins to make forecasts for the holder of the room. It is called after a failed attempt, when the members are nominated.
func (s *Scheduler) forecastFor(o *gangOutcome) {
	f := &s.reservation.forecast
	switch first := f.of == nil; {
	case o.group.Name() != s.reservation.holder || !s.cfg.Kubelets:
	case !o.holds:
		*f = forecast{}
	default:
		if f.of = s.newVacated(o); first {
			s.renewForecast(s.cfg.QueueNow())
		}
	}
}

// renewForecast makes a new forecast.
func (s *Scheduler) renewForecast(now time.Time) {
	f := &s.reservation.forecast
	was, of := f.starts, *f.of
	f.starts, f.at = s.startOf(&of, now), now
	if !f.starts.After(was) {
		return
	}
	nodes := map[string]*queue.Pod{} // pods that were denied their room may use it now
	for _, p := range s.queue.GroupOf(s.reservation.holder).Pods() {
		if p.NominatedNode != "" {
			nodes[p.NominatedNode] = p
		}
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		s.tellFree(nodes[node], node)
	}
}

// backfills is the pod group whose held room the pod may use, because the pod ends before the group may start; nil: none. Members of pod
// groups never do: they start together, and so their ends are not known before.
func (s *Scheduler) backfills(p *queue.Pod) *queue.Group {
	starts := s.reservation.forecast.starts
	if starts.IsZero() {
		return nil
	}
	longest := p.Longest()
	if _, member := groups.NameOf(p.Obj); member || longest == 0 || s.cfg.QueueNow().Add(longest).After(starts) {
		return nil
	}
	return s.queue.GroupOf(s.reservation.holder)
}

// startOf is the earliest time at which the requests of a pod group's members fit, by the ends that pods tell; zero: unknown, or the group
// lacks something else than room.
func (s *Scheduler) startOf(x *vacated, now time.Time) time.Time {
	list := s.state.FirstToEnd(now, mostEnding)
	if len(list) == 0 || len(x.classes) == 0 {
		return time.Time{}
	}
	if x.addAll(nil); x.best() >= x.out.need {
		return time.Time{}
	}
	for i := range list {
		if x.frees(&list[i]) >= x.out.need {
			return list[i].At
		}
	}
	return time.Time{}
}

// frees takes a pod off its row, and tells how many members the row's domain takes then at the most.
func (x *vacated) frees(e *cache.Ending) int64 {
	t, v, totals := x.s.state.Table(int(e.Shard)), x.tables[e.Shard], x.totals[e.Row]
	if totals == nil {
		totals = &scorer.RowTotals{}
		t.Totals(e.Index, totals)
		x.totals[e.Row] = totals
	}
	copies, pods, ok := v.Of(e.Index, totals)
	before := slices.Clone(copies)
	totals.RemoveRequests(e.Usage)
	d, slice := x.domainOf(t, e.Index)
	if !ok || d == nil {
		return 0
	}
	more, all, _ := v.Of(e.Index, totals)
	for i := range more {
		more[i] -= before[i]
	}
	x.add(d, slice, more, all-pods)
	return x.most(d)
}
