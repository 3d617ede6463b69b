package scorer

import (
	"fmt"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// benchGroups are the classes that clusters are full of.
func benchGroups() []struct {
	name string
	spec groupSpec
} {
	const zone, hostname = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
	preferred := []affinitySpec{
		{key: zone, counters: []*pb.CounterTerm{{Counter: 1, Weight: 10}, {Counter: 2, Weight: -5}}},
		{key: hostname, counters: []*pb.CounterTerm{{Counter: 1, Weight: 100}}},
	}
	return []struct {
		name string
		spec groupSpec
	}{
		{"default-spread", groupSpec{systemDefault: true, soft: []spreadSpec{
			{key: hostname, counter: 1, maxSkew: 3, affinity: true}, {key: zone, counter: 1, maxSkew: 5, affinity: true},
		}}},
		{"hard-zone+anti-hostname", groupSpec{
			hard: []spreadSpec{{key: zone, counter: 1, maxSkew: 1, minDomains: 1, self: true, affinity: true}},
			anti: []affinitySpec{{key: hostname, counters: counting(1)}},
		}},
		{"hard-hostname", groupSpec{hard: []spreadSpec{{key: hostname, counter: 1, maxSkew: 1, minDomains: 1, self: true, affinity: true}}}},
		{"preferred-affinity", groupSpec{preferred: preferred}},
		{"required-zone", groupSpec{required: []affinitySpec{{key: zone, counters: counting(2)}}}},
	}
}

func benchGroupClass(b testing.TB, spec groupSpec) *Class {
	q := benchQuery()
	q.Filters = append(q.Filters, pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, pb.Plugin_PLUGIN_INTER_POD_AFFINITY)
	if len(spec.soft) > 0 {
		q.Scores = append(q.Scores, &pb.ScoreWeight{Plugin: pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, Weight: 2})
	}
	if len(spec.preferred) > 0 {
		q.Scores = append(q.Scores, &pb.ScoreWeight{Plugin: pb.Plugin_PLUGIN_INTER_POD_AFFINITY, Weight: 2})
	}
	compileGroups(&spec, q, func(key string) bool { return key == "kubernetes.io/hostname" }, false)
	return newClass(b, q)
}

// benchCounters are a workload with a pod on some of the rows, and one that is rare.
func benchCounters(rows int) []*pb.CounterColumn {
	dense, rare := &pb.CounterColumn{Counter: 1}, &pb.CounterColumn{Counter: 2}
	for i := range rows {
		if n := int64(i*7919%11) - 4; n > 0 {
			dense.Rows, dense.Values = append(dense.Rows, uint32(i)), append(dense.Values, n)
		}
		if i%100 == 0 {
			rare.Rows, rare.Values = append(rare.Rows, uint32(i)), append(rare.Values, 1)
		}
	}
	return []*pb.CounterColumn{dense, rare}
}

func benchGroupTable(b testing.TB, rows int) *Table {
	table, err := LoadTable(0, 1, benchRows(rows), benchCounters(rows))
	if err != nil {
		b.Fatal(err)
	}
	return table
}

// BenchmarkScanGroups is one class with a group part over one table.
func BenchmarkScanGroups(b *testing.B) {
	for _, x := range benchGroups() {
		for _, rows := range []int{5000, 50000} {
			b.Run(fmt.Sprintf("%s/rows=%d", x.name, rows), func(b *testing.B) {
				table, class := benchGroupTable(b, rows), benchGroupClass(b, x.spec)
				e, into, o := NewEvaluator(nil), &Result{}, Options{Candidates: 64}
				b.ReportAllocs()
				for b.Loop() {
					into.Reset(class.ID(), o.Candidates)
					e.Evaluate(table, class, o, into)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/node")
				b.ReportMetric(float64(len(into.Groups)), "groups")
			})
		}
	}
}

// BenchmarkMeasures is what it costs to hold what another says of such a class against an own table: the
// measures that its filters read, over all rows.
func BenchmarkMeasures(b *testing.B) {
	for _, x := range benchGroups() {
		table, class := benchGroupTable(b, 5000), benchGroupClass(b, x.spec)
		if len(class.Decisive()) == 0 {
			continue
		}
		b.Run(x.name, func(b *testing.B) {
			e, into := NewEvaluator(nil), &Result{}
			b.ReportAllocs()
			for b.Loop() {
				into.Reset(class.ID(), 0)
				e.Evaluate(table, class, Options{Measure: true}, into)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/5000, "ns/node")
		})
	}
}

// BenchmarkRowGroups is what a repair costs: one row judged, and moved out and in.
func BenchmarkRowGroups(b *testing.B) {
	for _, x := range benchGroups() {
		b.Run(x.name, func(b *testing.B) {
			table, class := benchGroupTable(b, 5000), benchGroupClass(b, x.spec)
			e, into, o := NewEvaluator(nil), &Result{}, Options{Candidates: 64}
			into.Reset(class.ID(), o.Candidates)
			e.Evaluate(table, class, o, into)
			var v Verdict
			row := uint32(0)
			b.ReportAllocs()
			for b.Loop() {
				e.Row(table, row, nil, class, false, &v)
				into.Move(class, &v, -1)
				into.Move(class, &v, 1)
				row = (row + 1) % 5000
			}
		})
	}
}

// BenchmarkSettle decides about groups of three zones and so many counts.
func BenchmarkSettle(b *testing.B) {
	for _, x := range benchGroups()[:3] {
		for _, groups := range []int{20, 2000} {
			b.Run(fmt.Sprintf("%s/groups=%d", x.name, groups), func(b *testing.B) {
				class := benchGroupClass(b, x.spec)
				r := settleResult(class, groups)
				var s Standing
				b.ReportAllocs()
				for b.Loop() {
					class.Settle(r, &s)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(r.Groups)), "ns/group")
			})
		}
	}
}

func settleResult(c *Class, groups int) *Result {
	r := &Result{}
	r.Reset(c.ID(), 0)
	for i := range groups {
		v := Verdict{Passed: true, Key: Key{Raw: [MaxKey]int64{int64(i % 2)}}}
		for range c.Query().DomainKeys {
			v.Key.Domains = append(v.Key.Domains, fmt.Sprintf("zone-%d", i%3))
		}
		for range c.Query().RowValues {
			v.Key.Values = append(v.Key.Values, int64(i/6))
		}
		for _, m := range c.Query().Measures {
			x := Measured{Included: true, Value: int64(i / 6)}
			if m.By == pb.Breakdown_BREAKDOWN_DOMAIN {
				x.Domain = v.Key.Domains[0]
			}
			v.Measured = append(v.Measured, x)
		}
		for range 10 {
			r.Move(c, &v, 1)
		}
	}
	return r
}
