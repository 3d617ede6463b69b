package coordinator

import (
	"context"
	"time"

	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/tune"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// tuning chooses how the classes of batches are asked about (package tune): of full batches, and of pods that come when few wait.
type tuning struct {
	full, few tuned
	// way is that of the batch at hand, which by, one of the two, has chosen. lacked is for how many classes the batch had to have answers.
	// counts tells that the batch is measured.
	way    tune.Way
	by     *tuned
	lacked int
	counts bool
	// fixed is the way of all batches; nil: it is chosen.
	fixed *tune.Way
	// apart is how many batches the own tables have answered for since workers were told of changes.
	apart int
}

// tuned is the tuner of some batches, full ones or those of few pods, with its metrics.
type tuned struct {
	*tune.Tuner
	meter *observe.WayMeter
}

// firstWay is how classes are asked about until another way is known to be cheaper. With 16 classes, pods that are all distinct
// took 0.83 times the CPU on 5,000 nodes, and 0.93 times on 50,000, that they took with 32, and less than with 8.
func firstWay() tune.Way { return tune.Way{Ahead: 1, Classes: 16} }

func newTuning(fixed *tune.Way, meters *observe.Meters) tuning {
	classes := firstWay().Classes
	return tuning{
		full:  tuned{tune.New(firstWay(), tune.Limits{MinAhead: 1, MaxAhead: 2, MinClasses: 8, MaxClasses: 128}), meters.Ways("full")},
		few:   tuned{tune.New(tune.Way{Classes: classes}, tune.Limits{MinClasses: classes, MaxClasses: classes}), meters.Ways("few")},
		fixed: fixed,
	}
}

// begin chooses the way of a batch; full tells that it has as many pods as it may have.
func (t *tuning) begin(full bool, workers, nodes int) {
	if t.by = &t.few; full {
		t.by = &t.full
	}
	t.by.See(tune.Cluster{Workers: workers, Nodes: nodes})
	t.way, t.lacked, t.counts = t.by.Way(), 0, false
	if t.fixed != nil {
		t.way = *t.fixed
	}
}

// asked takes in for how many classes a batch of so many pods had to have answers. Where most pods find an answer that is held, it
// matters little how the others are asked about.
func (t *tuning) asked(pods, classes int) { t.lacked, t.counts = classes, classes*aheadShare > pods }

// classes is how many classes without an answer a full batch is to have.
func (t *tuning) classes() int {
	if t.fixed != nil {
		return t.fixed.Classes
	}
	return t.full.Way().Classes
}

// end takes in what the batch took.
func (t *tuning) end(took time.Duration) {
	if !t.counts {
		return
	}
	t.by.Took(t.lacked, took)
	inUse, cost := t.by.InUse()
	t.by.meter.Batch(t.way, inUse, cost.Seconds())
}

// keepUpEvery is after how many batches on the own tables workers are told what has changed: a shard's log of deltas has an end.
const keepUpEvery = 64

// keepUp has workers that are not asked told of changes, so that they can be asked at any time.
func (s *Scheduler) keepUp(ctx context.Context) error {
	t := &s.tuning
	if !t.way.Own {
		return nil
	}
	if t.apart++; t.apart < keepUpEvery {
		return nil
	}
	t.apart = 0
	return s.fanout.KeepUp(ctx)
}

// tell tells people how batches are asked about.
func (t *tuning) tell() []*pb.Tuning {
	return []*pb.Tuning{observe.Tuning("full batches", t.full.Choices()), observe.Tuning("few pods", t.few.Choices())}
}
