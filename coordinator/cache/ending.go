package cache

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// end is the minute in which a pod ends: of Unix time where it has started, else counted from its start. Pods that are being deleted end in
// minute 0, for they may be gone at any time.
type end struct {
	started bool
	minute  int64
}

// endings are the pods on nodes that say when they end.
type endings map[end]map[*pod]struct{}

// longestKept is the longest activeDeadlineSeconds that is kept, in seconds: a month. It bounds the number of minutes.
const longestKept = 31 * 24 * 60 * 60

// endOf is when a pod ends by its activeDeadlineSeconds, or because it is being deleted.
func endOf(p *v1.Pod) (e end, says bool) {
	d, start := p.Spec.ActiveDeadlineSeconds, p.Status.StartTime
	switch {
	case p.DeletionTimestamp != nil:
		return end{true, 0}, true
	case d == nil || *d > longestKept:
		return end{}, false
	case start == nil:
		return end{false, max(*d, 0) / 60}, true
	}
	return end{true, (start.Unix() + max(*d, 0)) / 60}, true
}

func (x *endings) add(p *pod) {
	e, says := endOf(p.object)
	if !says {
		return
	}
	if *x == nil {
		*x = endings{}
	}
	if (*x)[e] == nil {
		(*x)[e] = map[*pod]struct{}{}
	}
	(*x)[e][p] = struct{}{}
}

func (x endings) remove(p *pod) {
	if e, says := endOf(p.object); says {
		if delete(x[e], p); len(x[e]) == 0 {
			delete(x, e)
		}
	}
}

// Ending is a pod on a node that says when it ends: At is its deadline, rounded down to the minute. A pod without a startTime counts from
// now. One that is being deleted may end at any time: At is long ago.
type Ending struct {
	At time.Time
	Row
	Usage *pb.PodUsage
}

// FirstToEnd lists the pods that end first, in that order, up to so many; which of those that end in the last minute is arbitrary.
func (c *Cache) FirstToEnd(now time.Time, most int) (out []Ending) {
	minute := func(e end) int64 {
		if e.started {
			return e.minute
		}
		return now.Unix()/60 + e.minute
	}
	byMinute := func(a, b end) int { return cmp.Compare(minute(a), minute(b)) }
	for _, e := range slices.SortedFunc(maps.Keys(c.endings), byMinute) {
		for p := range c.endings[e] {
			if most--; most < 0 {
				return out
			}
			if p.charged != nil && p.node.object != nil {
				out = append(out, Ending{time.Unix(minute(e)*60, 0), p.node.row, p.charged})
			}
		}
	}
	return out
}
