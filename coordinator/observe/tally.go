package observe

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// tally is what a summary tells of the term so far. Metrics count most of it, too, but can not be read back.
type tally struct {
	present, bound, bindFailures, preempted, requeries uint64

	submitToBound *latency
	// deciding runs while pods wait for a decision, working also while binds are under way.
	deciding, working stopwatch
}

// latency is a set of durations from a nanosecond to an hour, to two digits.
type latency struct {
	histogram *hdrhistogram.Histogram
	total     time.Duration
}

func newLatency() *latency {
	return &latency{histogram: hdrhistogram.New(1, int64(time.Hour), 2)}
}

func (l *latency) record(d time.Duration) {
	l.total += d
	d = min(max(d, 1), time.Hour)
	// Within the bounds above it can not be refused.
	_ = l.histogram.RecordValue(int64(d))
}

func (l *latency) quantiles() *pb.Quantiles {
	at := func(q float64) *durationpb.Duration {
		return durationpb.New(time.Duration(l.histogram.ValueAtQuantile(q)))
	}
	return &pb.Quantiles{
		Count: uint64(l.histogram.TotalCount()),
		Total: durationpb.New(l.total),
		P50:   at(50),
		P99:   at(99),
	}
}

// stopwatch adds up the time between starts and stops.
type stopwatch struct {
	since   time.Time
	running bool
	total   time.Duration
}

func (s *stopwatch) start(now time.Time) {
	if !s.running {
		s.since, s.running = now, true
	}
}

func (s *stopwatch) stop(now time.Time) {
	if s.running {
		s.total += now.Sub(s.since)
		s.running = false
	}
}

func (s *stopwatch) read(now time.Time) time.Duration {
	if s.running {
		return s.total + now.Sub(s.since)
	}
	return s.total
}

// perSecond is a rate; 0 where no time has passed.
func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
