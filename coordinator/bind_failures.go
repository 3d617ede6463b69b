package coordinator

import (
	"time"

	"k8s.io/klog/v2"
)

// bindFailureLog is how often the log tells that binds fail. What refuses one refuses many: a
// permission that is missing, a policy, a quota.
const bindFailureLog = 10 * time.Second

// bindFailures tells the log that pods are tried again because they could not be bound.
type bindFailures struct {
	told  time.Time
	since int // failures that no line has told of
}

func (b *bindFailures) note(logger klog.Logger, job *bindJob, err error, now time.Time) {
	b.since++
	if !b.told.IsZero() && now.Sub(b.told) < bindFailureLog {
		return
	}
	logger.Error(err, "Pod is not bound, and tried again", "pod", klog.KObj(job.binding.Pod), "node", job.binding.Node, "failures", b.since)
	b.told, b.since = now, 0
}
