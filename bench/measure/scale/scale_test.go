package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// small is a report of all parts that takes no time.
func small(t *testing.T) Report {
	t.Helper()
	var out bytes.Buffer
	prefix := filepath.Join(t.TempDir(), "scale")
	args := []string{
		"-nodes", "300", "-pods", "40", "-shards", "4", "-batch", "8", "-repetitions", "1", "-limit", "100ms", "-stall", "20ms", "-stall-every", "20ms",
		"-out", prefix,
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
	var r Report
	for _, x := range []struct{ others, rate float64 }{{0.9, 1}, {0.1, 10}, {0.2, 30}, {0.5, 2}, {0, 20}} {
		r.Decide = append(r.Decide, Decide{Workers: 1, Others: x.others, PerSecond: x.rate})
	}
	if got := median(r.decides(1), decidedPerSecond); got != 20 || len(r.decides(1)) != 3 {
		t.Errorf("got a median of %v of %d runs, want 20 of 3", got, len(r.decides(1)))
	}
	if got := r.decides(2); len(got) > 0 {
		t.Errorf("of what was not measured: got %v", got)
	}
}

func TestEqualSeedsMakeEqualClusters(t *testing.T) {
	one, same, other := newObjects(20, 3, 1), newObjects(20, 3, 1), newObjects(20, 3, 2)
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
		{"-stall 0s", "-stall"}, {"-parts all", "-parts"},
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
	got := others(at, at.Add(2*time.Second), 3*time.Second, time.Second, []time.Duration{time.Second, 0}, []time.Duration{1200 * time.Millisecond, 300 * time.Millisecond})
	if got != 0.75 {
		t.Errorf("got %v cores, want 0.75", got)
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
