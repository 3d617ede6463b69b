package scorer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// The observer hears of the plugins of the group part at their places, and of what they
// forbid; they measure the cluster also where no row is left.
func TestObserverOfGroups(t *testing.T) {
	spec := benchGroups()[1].spec // hard zone, anti-affinity by hostname
	spec.soft = benchGroups()[0].spec.soft
	class := benchGroupClass(t, spec)
	var got passes
	e := NewEvaluator(&got)
	evaluate(e, benchGroupTable(t, 100), class, Options{Candidates: 1})
	want := passes{
		"Filter NodeUnschedulable 100→100", "Filter NodeName 100→100", "Filter TaintToleration 100→87", "Filter NodeAffinity 87→87",
		"Filter NodePorts 87→87", "Filter NodeResourcesFit 87→87", "Filter PodTopologySpread 87→87", "Filter InterPodAffinity 87→39",
		"Score TaintToleration 39→39", "Score NodeAffinity 39→39", "Score PodTopologySpread 39→39",
		"Score NodeResourcesFit 39→39", "Score NodeResourcesBalancedAllocation 39→39", "Score ImageLocality 39→39",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = nil
	q := class.Query()
	q.NodeName = "nowhere"
	r := evaluate(e, benchGroupTable(t, 100), newClass(t, q), Options{Candidates: 1})
	want = passes{
		"Filter NodeUnschedulable 100→100", "Filter NodeName 100→0", "Filter PodTopologySpread 0→0", "Filter InterPodAffinity 0→0",
		"Score PodTopologySpread 0→0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(r.Measures) != 2 || len(r.Measures[0].Cells) != 3 || len(r.Measures[1].Cells) != 3 {
		t.Errorf("got measures %v, want two of three zones", r.Measures)
	}
}

// The hot paths of classes with a group part allocate nothing once their memory has grown.
func TestHotPathsOfGroupsDoNotAllocate(t *testing.T) {
	table := benchGroupTable(t, 1000)
	for _, x := range benchGroups() {
		class := benchGroupClass(t, x.spec)
		e, into, part, merged, o := NewEvaluator(nil), &Result{}, &Result{}, &Result{}, Options{Candidates: 20, Diagnose: true}
		var s Standing
		var v Verdict
		both := []*Result{into, into}
		message := response([]uint32{0}, evaluate(e, table, class, o))
		locate := func(_ int, row uint32) Candidate { return Candidate{Row: row, NameHash: uint64(row)} }
		for name, run := range map[string]func(){
			"Evaluate": func() {
				into.Reset(1, o.Candidates)
				e.Evaluate(table, class, o, into)
			},
			"Merge": func() {
				merged.Reset(1, o.Candidates)
				merged.Merge(into)
				merged.Merge(into)
			},
			"MergeAll": func() {
				merged.Reset(1, o.Candidates)
				merged.MergeAll(both)
			},
			"AddNext": func() {
				merged.Reset(1, o.Candidates)
				for range 2 {
					columns := message.Reader()
					merged.AddNext(part, message.Results[0], &columns, locate)
				}
			},
			"Settle": func() { class.Settle(into, &s) },
			"Row": func() {
				e.Row(table, 8, nil, class, true, &v)
				merged.Move(class, &v, 1)
				class.Settle(merged, &s)
				merged.Move(class, &v, -1)
			},
		} {
			for range 100 { // groups exchange their memory until all have enough
				run()
			}
			if n := testing.AllocsPerRun(20, run); n != 0 {
				t.Errorf("%s of %s: got %v allocations, want none", name, x.name, n)
			}
		}
	}
}

// A class tells which counters it reads, and whether it has a group part.
func TestClassCounters(t *testing.T) {
	q := benchQuery()
	if c := newClass(t, q); c.HasGroups() || len(c.Counters()) != 0 {
		t.Errorf("got groups %t, counters %v; want none", c.HasGroups(), c.Counters())
	}
	q.RowValues = []*pb.RowValue{{Counters: []*pb.CounterTerm{{Counter: 7, Weight: 2}, {Counter: 3, Weight: -1}}}}
	q.Measures = []*pb.Measure{{By: pb.Breakdown_BREAKDOWN_TOTAL, Counters: counting(9)}, {By: pb.Breakdown_BREAKDOWN_TOTAL, Counters: counting(3)}}
	q.VolumeRestrictions = &pb.VolumeRestrictionsQuery{Disks: []uint32{5, 11}}
	q.VolumeLimits = &pb.VolumeLimitsQuery{Drivers: []*pb.DriverVolumes{{Driver: "d", Volumes: 1, Attached: 4, Shared: []uint32{2}}, {Driver: "e", Volumes: 1}}}
	c := newClass(t, q)
	if want := []uint32{2, 3, 4, 5, 7, 9, 11}; !c.HasGroups() || !slices.Equal(c.Counters(), want) {
		t.Errorf("got groups %t, counters %v; want true, %v", c.HasGroups(), c.Counters(), want)
	}
}

// A class with a group part may have any number of groups, merged in any order.
func TestGroupsDoNotOverflow(t *testing.T) {
	class := benchGroupClass(t, benchGroups()[2].spec)
	const rows = 3000
	column := &pb.CounterColumn{Counter: 1}
	for i := range uint32(rows) {
		column.Rows, column.Values = append(column.Rows, i), append(column.Values, int64((i+1)%1000+1))
	}
	var parts []*Result
	for s := range uint32(3) {
		table, err := LoadTable(s, 1, benchRows(rows), []*pb.CounterColumn{column})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, evaluate(NewEvaluator(nil), table, class, Options{Candidates: 1, Normalise: true, Extrema: []int64{1, 1}}))
	}
	merged := &Result{}
	for _, i := range []int{2, 0, 1} {
		merged.addAll(response([]uint32{uint32(i)}, parts[i]), func(_ int, row uint32) Candidate {
			return Candidate{Shard: uint32(i), Row: row, NameHash: uint64(row), Name: fmt.Sprint(i)}
		})
	}
	var s Standing
	class.Settle(merged, &s)
	if merged.Overflow || merged.Normalised || len(merged.Groups) != len(parts[0].Groups) || len(merged.Groups) < 800 || s.Feasible != 3*rowsOfOne(parts[0]) {
		t.Errorf("got overflow %t, normalised %t, %d groups, %d feasible; want false, false, %d, three times as in a part",
			merged.Overflow, merged.Normalised, len(merged.Groups), s.Feasible, len(parts[0].Groups))
	}
}

// rowsOfOne counts the rows with the smallest count, 1: with a skew of 1 and the pod itself
// counted, only those are feasible.
func rowsOfOne(r *Result) int {
	n := 0
	for i := range r.Groups {
		if r.Groups[i].Key.Values[0] == 1 {
			n += r.Groups[i].Rows
		}
	}
	return n
}

// Groups that Move opened stay where they are until the result is merged again.
func TestMoveKeepsPlaces(t *testing.T) {
	class := benchGroupClass(t, benchGroups()[2].spec)
	r := &Result{}
	r.Reset(1, 0)
	for _, x := range []struct {
		count int64
		want  int
	}{{5, 0}, {3, 1}, {9, 2}, {3, 1}} {
		v := &Verdict{Passed: true, Key: Key{Values: []int64{x.count}}, Measured: []Measured{{Included: true, Value: x.count}}}
		if got := r.Move(class, v, 1); got != x.want {
			t.Errorf("count %d: got group %d, want %d", x.count, got, x.want)
		}
	}
	other := &Result{Groups: []Group{{Key: Key{Values: []int64{4}}, Rows: 1}}, grouped: true}
	r.Merge(other)
	var got []int64
	for i := range r.Groups {
		got = append(got, r.Groups[i].Key.Values[0])
	}
	if want := []int64{3, 4, 5, 9}; !slices.Equal(got, want) {
		t.Errorf("got groups %v, want %v", got, want)
	}
}

// Any number of goroutines may evaluate classes with a group part on a table.
func TestReadersShareATableForGroups(t *testing.T) {
	table := benchGroupTable(t, 300)
	for _, x := range benchGroups() {
		class := benchGroupClass(t, x.spec)
		want := tell(evaluate(NewEvaluator(nil), table, class, Options{Candidates: 5, Diagnose: true}))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				r := evaluate(NewEvaluator(nil), table, class, Options{Candidates: 5, Diagnose: true})
				var s Standing
				class.Settle(r, &s)
				if d := diff(tell(r), want); d != "" {
					t.Error(d)
				}
			})
		}
		wg.Wait()
	}
}
