package observe

import (
	"fmt"
	"slices"
	"testing"
	"time"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestLatency(t *testing.T) {
	for name, x := range map[string]struct {
		durations       []time.Duration
		count           uint64
		total, p50, p99 time.Duration
	}{
		"none":            {nil, 0, 0, 0, 0},
		"one":             {[]time.Duration{time.Second}, 1, time.Second, time.Second, time.Second},
		"below the scale": {[]time.Duration{-time.Second, 0}, 2, -time.Second, 1, 1},
		"beyond it":       {[]time.Duration{48 * time.Hour}, 1, 48 * time.Hour, time.Hour, time.Hour},
		"a tail": {slices.Concat(slices.Repeat([]time.Duration{time.Millisecond}, 98), slices.Repeat([]time.Duration{time.Second}, 2)),
			100, 2*time.Second + 98*time.Millisecond, time.Millisecond, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLatency()
			for _, d := range x.durations {
				l.record(d)
			}
			q := l.quantiles()
			if q.Count != x.count || q.Total.AsDuration() != x.total {
				t.Errorf("got %d in %v, want %d in %v", q.Count, q.Total.AsDuration(), x.count, x.total)
			}
			near := func(what string, got, want time.Duration) {
				if diff := got - want; diff < -want/100 || diff > want/100 {
					t.Errorf("%s: got %v, want %v within 1 %%", what, got, want)
				}
			}
			near("p50", q.P50.AsDuration(), x.p50)
			near("p99", q.P99.AsDuration(), x.p99)
		})
	}
}

func TestPluginLatenciesAreSorted(t *testing.T) {
	m := NewMeters(nil, 1)
	m.Ask()
	m.Request("default-scheduler", 1)
	for range 4 {
		m.Passed(0, []scan.Pass{
			{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, Point: pb.ExtensionPoint_EXTENSION_POINT_SCORE, Took: time.Second},
			{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, Point: pb.ExtensionPoint_EXTENSION_POINT_FILTER, Took: time.Second},
			{Plugin: pb.Plugin_PLUGIN_TAINT_TOLERATION, Point: pb.ExtensionPoint_EXTENSION_POINT_FILTER, Took: 2 * time.Second},
			{Plugin: pb.Plugin_PLUGIN_NODE_PORTS, Point: pb.ExtensionPoint_EXTENSION_POINT_FILTER, Took: time.Second},
		})
	}
	var got []string
	for _, l := range m.Summary(epoch, 0).Plugins {
		got = append(got, fmt.Sprintf("%s %s %d %v", l.ExtensionPoint, l.Plugin, l.Latency.Count, l.Latency.Total.AsDuration()))
	}
	want := []string{"Filter TaintToleration 4 8s", "Filter NodePorts 4 4s", "Filter NodeResourcesFit 4 4s", "Score NodeResourcesFit 4 4s"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestStopwatch(t *testing.T) {
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	var w stopwatch
	w.stop(at(1)) // does not run: nothing
	w.start(at(2))
	w.start(at(3)) // runs already
	if got := w.read(at(5)); got != 3*time.Second {
		t.Errorf("running: got %v, want 3s", got)
	}
	w.stop(at(6))
	w.stop(at(9))
	w.start(at(10))
	w.stop(at(11))
	if got := w.read(at(100)); got != 5*time.Second {
		t.Errorf("stopped: got %v, want 5s", got)
	}
}

func TestRates(t *testing.T) {
	for _, x := range []struct {
		n    uint64
		d    time.Duration
		want float64
	}{{10, 2 * time.Second, 5}, {10, 0, 0}, {10, -time.Second, 0}, {0, time.Second, 0}} {
		if got := perSecond(x.n, x.d); got != x.want {
			t.Errorf("%d in %v: got %v a second, want %v", x.n, x.d, got, x.want)
		}
	}
}
