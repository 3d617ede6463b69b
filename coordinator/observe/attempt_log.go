package observe

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

const (
	// refusalEvery is how often the log tells of one pod at the most, and refusalsASecond of how many in
	// all: whoever may create pods may create pods that fail again and again.
	refusalEvery    = time.Minute
	refusalsASecond = 20
	// refusedPods is how many pods are remembered: twice as many as the log can tell of meanwhile.
	refusedPods = 2 * refusalsASecond * int(refusalEvery/time.Second)
)

// AttemptLog tells the log of attempts that have found no node, of some of them.
//
// Differs from upstream: it tells of all of them.
type AttemptLog struct {
	errors, refusals limiter
}

// Unplaced tells of an attempt that has found no node: failed is the error that it ended in; nil: no node fits, and message
// says why.
func (l *AttemptLog) Unplaced(log klog.Logger, pod *v1.Pod, message string, failed error, now time.Time) {
	of := &l.errors
	if failed == nil {
		if log, of = log.V(2), &l.refusals; !log.Enabled() {
			return
		}
	}
	leftOut, tell := of.next(pod.UID, now)
	switch {
	case !tell:
	case failed != nil:
		log.Error(failed, "Attempt ended in an error", "pod", klog.KObj(pod), "leftOut", leftOut)
	default:
		log.Info("Unable to schedule pod; no fit; waiting", "pod", klog.KObj(pod), "err", message, "leftOut", leftOut)
	}
}

// limiter says which attempts the log tells of.
type limiter struct {
	told    map[types.UID]time.Time
	second  time.Time // when the second began of which lines are counted
	lines   int
	leftOut int
}

// next tells whether the log is to tell of a pod's attempt, and how many attempts were left out since it
// last did.
func (l *limiter) next(pod types.UID, now time.Time) (leftOut int, tell bool) {
	if now.Sub(l.second) >= time.Second {
		l.second, l.lines = now, 0
	}
	if at, known := l.told[pod]; known && now.Sub(at) < refusalEvery || l.lines >= refusalsASecond {
		l.leftOut++
		return 0, false
	}
	if len(l.told) >= refusedPods {
		maps.DeleteFunc(l.told, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= refusalEvery })
	}
	if l.told == nil {
		l.told = map[types.UID]time.Time{}
	}
	l.told[pod] = now
	l.lines++
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}
