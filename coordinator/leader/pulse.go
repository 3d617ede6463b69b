package leader

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/observe"
)

// pulseEvery is how often the log is told how far a leader is.
const pulseEvery = time.Minute

// pulse tells the log, once a minute, what the scheduler did in that minute and what waits. It is silent
// where nothing was decided and nothing waits.
type pulse struct {
	of interface {
		Pulse(context.Context) (*observe.Pulse, error)
	}
	now            func() time.Time
	decided, bound uint64 // up to the line before
}

func (p *pulse) run(ctx context.Context) error {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if x, err := p.of.Pulse(ctx); err == nil { // else the term ends, or the log has been told of a bug
			p.tell(klog.FromContext(ctx), x)
		}
	}
}

// tell writes the line of a minute.
func (p *pulse) tell(log klog.Logger, x *observe.Pulse) {
	decided, bound := x.Decided-p.decided, x.Bound-p.bound
	p.decided, p.bound = x.Decided, x.Bound
	if decided == 0 && bound == 0 && x.Pending == 0 {
		return
	}
	line := []any{"decided", decided, "bound", bound, "pending", x.Pending}
	if x.Pending > 0 {
		line = append(line, "oldest", duration.HumanDuration(max(p.now().Sub(x.Oldest), 0)))
	}
	log.Info("Last minute", line...)
}
