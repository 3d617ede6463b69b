package main

import (
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/bench/internal/machine"
)

func TestTableGivesEachRunAndTheMedian(t *testing.T) {
	r := &report{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Commit: "abc", Seed: 7, Source: "openb default", Nodes: 2, Pods: 10,
		Machine:  machine.Machine{CPU: "X", Cores: 2, MemoryGiB: 24, OS: "linux/amd64", Go: "go1", Load: 0.5, FsyncP50Seconds: 0.001, FsyncP99Seconds: 0.002},
		Simulate: []simulation{{Seconds: 3, CPUSeconds: 4, PeakMiB: 100, DecidedPerSecond: 50, Bound: 9, Pending: 1}, {Seconds: 1}, {Seconds: 2}},
		Up:       []upRun{{BoundPerSecond: 2000, Seconds: 4.5, P50Seconds: 1.25, Bound: 9, Pending: 1}},
	}
	var b strings.Builder
	if err := r.table(&b); err != nil {
		t.Fatal(err)
	}
	want := `commit   abc, 2026-01-02T03:04:05Z
machine  2 cores of X, 24 GiB, linux/amd64, go1; load 0.5; fsync p50 1.00 ms, p99 2.00 ms
trace    openb default: 2 nodes, 10 pods, seed 7

  simulate     s  CPU s  peak MiB  decided/s  bound  pending
         1  3.00   4.00       100         50      9        1
         2  1.00   0.00         0          0      0        0
         3  2.00   0.00         0          0      0        0
    median  2.00   0.00         0          0      0        0

      up     s  bound/s  p50 s  p99 s  submit s  own decided/s  own bound/s  bound  pending
       1  4.50     2000   1.25   0.00      0.00              0            0      9        1
  median  4.50     2000   1.25   0.00      0.00              0            0      9        1
`
	if got := b.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestQuantileOfSortedDurations(t *testing.T) {
	ten := make([]time.Duration, 10)
	for i := range ten {
		ten[i] = time.Duration(i)
	}
	cases := []struct {
		of   []time.Duration
		q    float64
		want time.Duration
	}{{nil, 0.5, 0}, {ten[:1], 0.99, 0}, {ten, 0, 0}, {ten, 0.5, 5}, {ten, 0.99, 9}, {ten, 1, 9}}
	for _, c := range cases {
		if got := quantile(c.of, c.q); got != c.want {
			t.Errorf("quantile %v of %v: got %d, want %d", c.q, c.of, got, c.want)
		}
	}
}
