package scan

import (
	"time"

	"k8s.io/utils/clock"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Pass is what a plugin did for one class at one extension point.
type Pass struct {
	Plugin  pb.Plugin
	Point   pb.ExtensionPoint
	Took    time.Duration
	RowsIn  uint32
	RowsOut uint32
}

// AddPass adds p to the pass of the same plugin and extension point, or appends
// it. A pipeline that stops early ran a prefix of the whole one, so the order of
// the longest is the order of all.
func AddPass(passes *[]Pass, p Pass) {
	for i := range *passes {
		have := &(*passes)[i]
		if have.Plugin == p.Plugin && have.Point == p.Point {
			have.Took += p.Took
			have.RowsIn += p.RowsIn
			have.RowsOut += p.RowsOut
			return
		}
	}
	*passes = append(*passes, p)
}

// stopwatch is the scorer.Observer of a hand: a pass took the time since the
// pass before it ended.
type stopwatch struct {
	clock  clock.PassiveClock
	origin time.Time     // at any time: to read how long ago it is takes half the time of reading the time
	last   time.Duration // since origin, when the last pass ended
	passes *[]Pass
}

// start begins the passes of one evaluation.
func (w *stopwatch) start(passes *[]Pass) {
	w.last, w.passes = w.clock.Since(w.origin), passes
}

// Pass implements scorer.Observer.
func (w *stopwatch) Pass(p pb.Plugin, x pb.ExtensionPoint, rowsIn, rowsOut int) {
	now := w.clock.Since(w.origin)
	AddPass(w.passes, Pass{Plugin: p, Point: x, Took: now - w.last, RowsIn: uint32(rowsIn), RowsOut: uint32(rowsOut)})
	w.last = now
}

// Lay gives passes, which are sums over tables and cores, their places in the time that they
// took together: one behind the other, drawn in where they are longer than that.
func Lay(passes []Pass, from, to time.Time, each func(p *Pass, from, to time.Time)) {
	var sum time.Duration
	for i := range passes {
		sum += passes[i].Took
	}
	scale := 1.0
	if room := to.Sub(from); sum > room {
		scale = float64(max(room, 0)) / float64(sum)
	}
	at := time.Duration(0)
	for i := range passes {
		end := at + passes[i].Took
		each(&passes[i], from.Add(time.Duration(float64(at)*scale)), from.Add(time.Duration(float64(end)*scale)))
		at = end
	}
}
