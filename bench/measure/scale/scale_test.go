package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// TestMain lets a measurement start this program as one that has workers take turns.
func TestMain(m *testing.M) {
	if asked, err := process.RunTurns(os.Args[1:]); asked {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// small is a report of all parts that takes no time.
func small(t *testing.T) Report {
	t.Helper()
	var out bytes.Buffer
	prefix := filepath.Join(t.TempDir(), "scale")
	args := []string{
		"-nodes", "300", "-pods", "40", "-shards", "4", "-batch", "8", "-repetitions", "1", "-limit", "100ms", "-stall", "20ms", "-stall-every", "20ms",
		"-million-nodes", "500", "-small-nodes", "200,300", "-small-workers", "1,3", "-slow-limit", "100ms", "-out", prefix,
	}
	if err := command(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(prefix + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(text) {
		t.Errorf("printed:\n%s\nwritten:\n%s", &out, text)
	}
	return read(t, prefix)
}

// read reads a report.
func read(t *testing.T, prefix string) (r Report) {
	t.Helper()
	raw, err := os.ReadFile(prefix + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCommandMeasures(t *testing.T) {
	r := small(t)
	t.Run("each number of workers", func(t *testing.T) { wantWorkers(t, r) })
	t.Run("many nodes", func(t *testing.T) { wantMillion(t, r) })
	t.Run("small workers", func(t *testing.T) { wantSmall(t, r) })
	t.Run("the model", func(t *testing.T) { wantFit(t, r) })
	t.Run("workers that stall", func(t *testing.T) { wantStalls(t, r) })
}

func wantWorkers(t *testing.T, r Report) {
	if len(r.Decide) != 2 || len(r.Fan) != 2 {
		t.Fatalf("got %d and %d runs, want 2 of each", len(r.Decide), len(r.Fan))
	}
	for i, d := range r.Decide {
		if d.Workers != i+1 || len(d.WorkerMicros) != i+1 || d.Pods < 1 || d.Pods > 40 {
			t.Errorf("deciding: got %+v, want %d workers and 1 to 40 pods", d, i+1)
		}
		if d.PerSecond <= 0 || d.CoordinatorMicros <= 0 || sum(d.WorkerMicros) <= 0 || d.FanMicros <= 0 || d.ToWorkers <= 0 || d.FromWorkers <= 0 || d.Rounds < 1 || d.Batches < 1 {
			t.Errorf("deciding: got %+v, want all measured", d)
		}
		if whole := d.Rows == 300; d.Rows > 300 || d.Rows < 1 || whole != (i == 0) {
			t.Errorf("%d workers: the largest has %d rows of 300", i+1, d.Rows)
		}
	}
	for i, f := range r.Fan {
		if f.Workers != i+1 || f.Rounds < 1 || f.Rows != r.Decide[i].Rows || f.ClassesPerSecond != 8*f.RoundsPerSecond {
			t.Errorf("workers alone: got %+v, want rounds of 8 classes for %d workers and the rows of %+v", f, i+1, r.Decide[i])
		}
		if f.RoundsPerSecond <= 0 || f.P50Micros <= 0 || f.P99Micros < f.P50Micros || f.CoordinatorMicros <= 0 || sum(f.WorkerMicros) <= 0 || f.ToWorkers <= 0 || f.FromWorkers <= 0 {
			t.Errorf("workers alone: got %+v, want all measured", f)
		}
	}
}

func wantMillion(t *testing.T, r Report) {
	if len(r.Million) != 2 {
		t.Fatalf("got %d runs, want 2", len(r.Million))
	}
	for i, d := range r.Million {
		if d.Workers != i+1 || d.Nodes != 500 || d.Pods < 1 || d.PerSecond <= 0 || d.Share != 1 || len(d.UsedShares) != i+1 || d.Turns != 0 {
			t.Errorf("run %d: got %+v, want workers with a core each and 500 nodes", i, d)
		}
	}
}

func wantSmall(t *testing.T, r Report) {
	if len(r.Small) != 4 {
		t.Fatalf("got %d runs, want 2 of each size", len(r.Small))
	}
	for i, d := range r.Small {
		nodes, workers := []int{200, 300}[i/2], []int{1, 3}[i%2]
		if d.Nodes != nodes || d.Workers != workers || d.Pods < 1 || d.PerSecond <= 0 || d.Share != 0.125 || len(d.UsedShares) != workers || d.Turns <= 0 {
			t.Errorf("run %d: got %+v, want %d workers with an eighth of a core each and %d nodes", i, d, workers, nodes)
		}
	}
}

func wantFit(t *testing.T, r Report) {
	if r.Fit == nil || len(r.Fit.Measured) != 6 || len(r.Fit.Predictions) != 6 {
		t.Fatalf("got %+v, want 6 measured points and 6 predictions", r.Fit)
	}
	for _, p := range append(r.Fit.Measured, r.Fit.Predictions...) {
		if p.Model <= 0 || p.Bound == "" {
			t.Errorf("got %+v, want what the model says", p)
		}
	}
}

func wantStalls(t *testing.T, r Report) {
	if len(r.Hedge) != 4 {
		t.Fatalf("got %d situations, want calm and stalled with one and two replicas", len(r.Hedge))
	}
	for i, h := range r.Hedge {
		if h.Stalled != (i%2 == 1) || h.Replicas != i/2+1 || h.Batches < 1 || h.Pods != 8 {
			t.Errorf("situation %d: got %+v", i, h)
		}
		if h.Stalled != (h.Stalls > 0) || h.Replicas == 1 && h.Hedges > 0 {
			t.Errorf("situation %d: got %+v, want stalls where they are made, and hedges where there is another owner", i, h)
		}
		if h.P50Micros <= 0 || h.P90Micros < h.P50Micros || h.P99Micros < h.P90Micros || h.MaxMicros < h.P99Micros {
			t.Errorf("situation %d: got %+v, want quantiles", i, h)
		}
	}
}

func TestABatchIsHitWhereAStallBeginsInIt(t *testing.T) {
	at := time.Unix(100, 0)
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	took := []time.Duration{9 * time.Millisecond, 5 * time.Millisecond, 6 * time.Millisecond}
	got := hit([]time.Time{ms(0), ms(10), ms(20)}, took, []time.Time{ms(9), ms(10), ms(12), ms(25)})
	if want := took[1:]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOnlyTheQuietHalfCounts(t *testing.T) {
	var runs []Decide
	for _, x := range []struct{ others, rate float64 }{{0.9, 1}, {0.1, 10}, {0.2, 30}, {0.5, 2}, {0, 20}} {
		runs = append(runs, Decide{Nodes: 5, Workers: 2, Others: x.others, PerSecond: x.rate})
	}
	runs = append(runs, Decide{Nodes: 5, Workers: 1, PerSecond: 7}, Decide{Nodes: 4, Workers: 3, PerSecond: 8})
	got := situations(runs)
	if len(got) != 3 || got[0][0].PerSecond != 8 || got[1][0].PerSecond != 7 {
		t.Fatalf("got %+v, want those of 4 nodes, and those of 5 with 1 worker and with 2", got)
	}
	if m := median(got[2], decidedPerSecond); m != 20 || len(got[2]) != 3 {
		t.Errorf("got a median of %v of %d runs, want 20 of 3", m, len(got[2]))
	}
	if got := situations(nil); len(got) > 0 {
		t.Errorf("of what was not measured: got %v", got)
	}
}

func TestRunsThatDecideOtherwiseAreRefused(t *testing.T) {
	x := decisions{}
	for _, lines := range []string{"a b", "a b c", "a"} {
		if err := x.hold(5, strings.Fields(lines)); err != nil {
			t.Errorf("%s: got %v, want no error where one goes on as the other", lines, err)
		}
	}
	if err := x.hold(6, []string{"d"}); err != nil {
		t.Errorf("another number of nodes: got %v", err)
	}
	err := x.hold(5, strings.Fields("a b d e"))
	if err == nil || !strings.Contains(err.Error(), "decision 3 is d, and was c") {
		t.Errorf("got %v, want the third decision told", err)
	}
}

func TestEqualSeedsMakeEqualClusters(t *testing.T) {
	var made [3]objects
	for i, seed := range []uint64{1, 1, 2} {
		var err error
		if made[i], err = newObjects(20, 3, seed); err != nil {
			t.Fatal(err)
		}
	}
	one, same, other := made[0], made[1], made[2]
	if !reflect.DeepEqual(one, same) {
		t.Error("two of one seed differ")
	}
	if reflect.DeepEqual(one, other) {
		t.Error("two seeds make the same")
	}
}

func TestFlagsThatMakeNoSenseAreNamed(t *testing.T) {
	cases := []struct{ args, want string }{
		{"-nodes 0", "-nodes"}, {"-pods 0", "-pods"}, {"-workers 0", "-workers"}, {"-workers 1,x", "-workers"}, {"-shards 0", "-shards"},
		{"-batch 0", "-batch"}, {"-limit 0s", "-limit"}, {"-repetitions 0", "-repetitions"}, {"all", `argument "all"`},
		{"-stall 0s", "-stall"}, {"-parts all", "-parts"}, {"-million-nodes 0", "-million-nodes"}, {"-small-nodes 5,", "-small-nodes"},
		{"-small-workers 0", "-small-workers"}, {"-small-workers 9", "-small-workers"}, {"-slow-limit 0s", "-slow-limit"},
	}
	for _, c := range cases {
		if _, err := parse(strings.Fields(c.args), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %s", c.args, err, c.want)
		}
	}
	p, err := parse([]string{"-workers", "2,1,2"}, io.Discard)
	if err != nil || !reflect.DeepEqual(p.Workers, []int{1, 2}) {
		t.Errorf("workers: got %v, %v; want 1 and 2", p, err)
	}
}

func TestOthersAreWhatNoneOfOursUsed(t *testing.T) {
	stat := "cpu  100 10 40 5000 300 1 2 3 7 0\ncpu0 50 5 20 2500 150 0 1 1 7 0\n"
	if got := busyCores(stat); got != 1560*time.Millisecond {
		t.Errorf("busy: got %v, want 1.56 s", got)
	}
	at := time.Unix(100, 0)
	before := reading{at: at, workers: []time.Duration{time.Second, 0}}
	after := reading{
		at: at.Add(2 * time.Second), busy: 3 * time.Second, self: time.Second, turns: 100 * time.Millisecond,
		workers: []time.Duration{1200 * time.Millisecond, 300 * time.Millisecond},
	}
	if got := others(&before, &after); got != 0.7 {
		t.Errorf("got %v cores, want 0.7", got)
	}
}

func TestQuantilesAreOfWhatWasMeasured(t *testing.T) {
	var took []time.Duration
	for i := range 101 {
		took = append(took, time.Duration(100-i)*time.Millisecond)
	}
	for q, want := range map[float64]float64{0.5: 50000, 0.99: 99000, 1: 100000} {
		if got := quantile(took, q); got != want {
			t.Errorf("quantile %v: got %v µs, want %v", q, got, want)
		}
	}
	if got := quantile(nil, 0.99); got != 0 {
		t.Errorf("of none: got %v, want 0", got)
	}
}
