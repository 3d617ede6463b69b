package observe

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// victimsTold is how many victims a line of the log names.
const victimsTold = 5

// PreemptionLog tells the log of preemptions that were carried out: who had to leave, and for whom. Like an AttemptLog it
// tells of some of them, for whoever may create pods may create pods that preempt. Any goroutine may use it.
//
// Differs from upstream: it tells of the names of the pods at the default level.
type PreemptionLog struct {
	mu    sync.Mutex
	lines limiter
}

// Carried tells of an eviction whose victims are told to leave.
func (l *PreemptionLog) Carried(log klog.Logger, e *objects.Eviction, now time.Time) {
	if len(e.Victims) == 0 {
		return
	}
	l.mu.Lock()
	leftOut, tell := l.lines.next(e.Preemptor.UID, now)
	l.mu.Unlock()
	if tell {
		log.Info("Preempted", "victims", names(e.Victims), "by", klog.KObj(e.Preemptor).String(), "node", e.Node, "leftOut", leftOut)
	}
}

// names are those of the first pods, and how many more there are.
func names(pods []*v1.Pod) string {
	text := ""
	for i, p := range pods[:min(len(pods), victimsTold)] {
		if i > 0 {
			text += " "
		}
		text += klog.KObj(p).String()
	}
	if more := len(pods) - victimsTold; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
