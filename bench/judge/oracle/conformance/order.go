package conformance

import (
	"context"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// arrivals are the times at which pods came: rounds are hours, events seconds. Zero stands
// for a pod that has been tried since.
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
	var lastCame time.Time
	for _, d := range decisions {
		pod := r.upstream.Pending(types.UID(d.UID))
		if pod == nil {
			continue // hold tells
		}
		c.decision = d
		// A claim may go once the pod is let in, in upstream's queue as its backoff begins. PreFilter tells it then, or what comes
		// before it: the messages are compared as the decision is.
		if held := r.upstream.Gated(ctx, pod); d.Node != "" || strings.HasPrefix(held, "waiting for scheduling gates") {
			differs(&c, "", "waits for", held, "")
		}
		if d.PodGroup != "" {
			continue // who comes with it, came at any time
		}
		came := r.arrived[pod.UID]
		if came.IsZero() {
			continue
		}
		r.arrived[pod.UID] = time.Time{}
		if last != nil && r.upstream.Before(pod, came, last, lastCame) {
			differs(&c, "", "order", name(last)+" before "+d.Pod, d.Pod+" before "+name(last))
		}
		last, lastCame = pod, came
	}
	return c.found
}
