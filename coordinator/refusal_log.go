package coordinator

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// refusalEvery is how often the log tells of one pod at the most, and refusalsASecond of how many in
	// all: pods that fail again and again are others' to make.
	refusalEvery    = time.Minute
	refusalsASecond = 20
	// refusedPods is how many pods are remembered: twice as many as the log can tell of meanwhile.
	refusedPods = 2 * refusalsASecond * int(refusalEvery/time.Second)
)

// refusalLog says which attempts without a node the log tells of.
type refusalLog struct {
	told    map[types.UID]time.Time
	second  time.Time // when the second began of which lines are counted
	lines   int
	leftOut int
}

// next tells whether the log is to tell of a pod's attempt, and how many attempts were left out since it
// last did.
func (l *refusalLog) next(pod types.UID, now time.Time) (leftOut int, tell bool) {
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
