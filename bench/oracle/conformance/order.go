package conformance

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// arrivals are the times at which pods came that have not been tried yet: rounds are
// hours, events seconds.
type arrivals map[types.UID]time.Time

func (a arrivals) note(pod *v1.Pod, round, event int) {
	if _, known := a[pod.UID]; !known {
		a[pod.UID] = time.Unix(int64(round)*3600+int64(event), 0)
	}
}

// order compares the order in which pods were tried for the first time: upstream's queue
// sort goes before that in which they came. Pods that were tried before stand between
// them anywhere.
func (r *replay) order(ctx context.Context, round int, decisions []Decision) []*Difference {
	c := comparison{round: round}
	var last *v1.Pod
	for _, d := range decisions {
		pod := r.upstream.Pending(types.UID(d.UID))
		if pod == nil {
			continue // decided twice in this round, or not known: hold tells
		}
		c.decision = d
		differs(&c, "", "waits for", r.upstream.Gated(ctx, pod), "")
		if _, first := r.arrived[pod.UID]; !first {
			continue
		}
		if last != nil && r.upstream.Before(pod, r.arrived[pod.UID], last, r.arrived[last.UID]) {
			differs(&c, "", "order", name(last)+" before "+d.Pod, d.Pod+" before "+name(last))
		}
		last = pod
	}
	for _, d := range decisions {
		delete(r.arrived, types.UID(d.UID))
	}
	return c.found
}
