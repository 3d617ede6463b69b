package shadow

import (
	"math"
	"time"
)

const (
	// shortest is the upper bound of a sketch's first bin, and each has bins of growth more than the one before: quantiles are up to 5 %
	// too high. The last bin begins at some 12 days.
	shortest = 10 * time.Microsecond
	growth   = 1.05
	bins     = 520
)

// sketch counts times, so that quantiles can be told of any number of them.
type sketch struct {
	n    int
	bins [bins]int32
}

func (s *sketch) add(d time.Duration) {
	i := 0
	if d > shortest {
		i = min(int(math.Ceil(math.Log(float64(d)/float64(shortest))/math.Log(growth))), bins-1)
	}
	s.n++
	s.bins[i]++
}

// quantile is the upper bound of the bin that the quantile is in.
func (s *sketch) quantile(q float64) time.Duration {
	rank := int(math.Ceil(q * float64(s.n)))
	for i, n := range s.bins {
		if rank -= int(n); rank <= 0 {
			return time.Duration(float64(shortest) * math.Pow(growth, float64(i)))
		}
	}
	return 0
}

func (s *sketch) quantiles() Quantiles {
	if s.n == 0 {
		return Quantiles{}
	}
	return Quantiles{Pods: s.n, P50: s.quantile(0.5).Seconds(), P99: s.quantile(0.99).Seconds()}
}

// queueBins are the lower bounds of the bins by the length of the queue.
var queueBins = [...]int{0, 10, 100, 1_000, 10_000}

// latencies are of pods that both have found a node for.
type latencies struct {
	theirs, byStatus, ours sketch
	byQueue                [len(queueBins)]struct{ theirs, ours sketch }
}

// add takes in a pod that came while so many others waited.
func (l *latencies) add(waiting int, theirs, ours time.Duration) {
	l.theirs.add(theirs)
	l.ours.add(ours)
	i := len(queueBins) - 1
	for waiting < queueBins[i] {
		i--
	}
	l.byQueue[i].theirs.add(theirs)
	l.byQueue[i].ours.add(ours)
}

func (l *latencies) report() Latency {
	out := Latency{Theirs: l.theirs.quantiles(), TheirsByStatus: l.byStatus.quantiles(), Ours: l.ours.quantiles()}
	for i := range l.byQueue {
		b := &l.byQueue[i]
		if b.theirs.n == 0 {
			continue
		}
		bin := QueueLatency{From: queueBins[i], Theirs: b.theirs.quantiles(), Ours: b.ours.quantiles()}
		if i+1 < len(queueBins) {
			bin.To = queueBins[i+1] - 1
		}
		out.ByQueue = append(out.ByQueue, bin)
	}
	return out
}
