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
		came := r.arrived[pod.UID]
		// A claim that goes once the pod is let in is told by PreFilter. A pod that was tried before is let in as its backoff
		// begins: what comes before that PreFilter may refuse it then.
		tried := came.IsZero() && len(pod.Spec.SchedulingGates) == 0
		if held := r.upstream.Gated(ctx, pod); held == "" || !tried && !strings.Contains(d.Message, held) {
			differs(&c, "", "waits for", held, "")
		}
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
