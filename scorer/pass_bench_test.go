package scorer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// distinctRows are idle nodes of three sizes in a table each, of which one in 16 would rather not have pods.
func distinctRows(n, from int) []*pb.SnapshotRow {
	rows := make([]*pb.SnapshotRow, n)
	for i := range rows {
		node := benchNode(from + i)
		node.Taints, node.Images, node.Labels = nil, []string{"base:1"}, node.Labels[:4]
		if (from+i)%16 == 0 {
			node.Taints = []*pb.Taint{{Key: "spot", Effect: pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE}}
		}
		rows[i] = &pb.SnapshotRow{Row: uint32(i), Node: node, Totals: &pb.NodeTotals{Requested: &pb.Resources{}}}
	}
	return rows
}

// distinctQuery is a pod that requests what no other does.
func distinctQuery(i int64) *pb.Query {
	q := benchQuery()
	q.ClassId = uint64(i + 1)
	q.NodeAffinity.NodeSelector = nil
	cpu, memory := 100+i%101, 100<<20+2048*i
	q.Fit.Requests = &pb.Resources{MilliCpu: cpu, MemoryBytes: memory}
	q.Fit.Scored = []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: cpu}, {Name: "memory", Weight: 1, Request: memory}}
	q.Balanced.Scored = q.Fit.Scored
	q.Images = &pb.ImageQuery{Containers: 1, Images: []*pb.ImageTerm{{Name: "app:1", ScaledBytes: 80 << 20}}}
	return q
}

// BenchmarkDistinct is 32 classes at a time over all tables, table by table, as scan does. Then each of them has
// its best row.
func BenchmarkDistinct(b *testing.B) {
	for _, size := range []struct{ tables, rows int }{{1, 64}, {1, 1000}, {1, 5000}, {1, 16000}, {1, 50000}, {10, 1000}, {10, 5000}} {
		b.Run(fmt.Sprintf("tables=%d/rows=%d", size.tables, size.rows), func(b *testing.B) {
			benchmarkDistinct(b, size.tables, size.rows)
		})
	}
}

func benchmarkDistinct(b *testing.B, shards, rows int) {
	const batch, candidates = 32, 40
	var tables []*Table
	for s := range shards {
		tables = append(tables, loadTable(b, uint32(s), distinctRows(rows, s*rows)))
	}
	var classes [8 * batch]*Class
	for i := range classes {
		classes[i] = newClass(b, distinctQuery(int64(i)))
	}
	e, took, at, decision := NewEvaluator(nil), time.Duration(0), 0, uint64(0)
	var into [batch]Result
	var placed []func() // take the pods away again
	b.ReportAllocs()
	for b.Loop() {
		turn := classes[at : at+batch]
		began := time.Now()
		for i, c := range turn {
			into[i].Reset(c.ID(), candidates)
		}
		for _, t := range tables {
			for i, c := range turn {
				e.Evaluate(t, c, Options{Candidates: candidates}, &into[i])
			}
		}
		took += time.Since(began)
		for i, c := range turn {
			best := into[i].Groups[0].Candidates
			decision++
			placed = append(placed, givePod(tables, &best[i%len(best)], c, decision))
		}
		for ; len(placed) > shards*rows; placed = placed[1:] {
			placed[0]()
		}
		at = (at + batch) % len(classes)
	}
	each := float64(took.Nanoseconds()) / float64(b.N*batch*shards)
	b.ReportMetric(each/1000, "µs/class-table")
	b.ReportMetric(each/float64(rows), "ns/row")
}

// givePod gives a candidate's row a pod of a class.
func givePod(tables []*Table, x *Candidate, c *Class, decision uint64) (takeAway func()) {
	r, t, row := c.Query().GetFit().GetRequests(), tables[x.Shard], x.Row
	usage := &pb.PodUsage{Requests: r, NonZeroMilliCpu: r.MilliCpu, NonZeroMemoryBytes: r.MemoryBytes}
	must(t.Apply(&pb.Delta{Row: row, Decision: decision, Change: &pb.Delta_AddPod{AddPod: usage}}))
	return func() { must(t.Apply(&pb.Delta{Row: row, Change: &pb.Delta_RemovePod{RemovePod: usage}})) }
}

// BenchmarkNewClass makes the class of a plain pod: plugins that have nothing to ask are left out of its query.
func BenchmarkNewClass(b *testing.B) {
	q := distinctQuery(1)
	q.NodeAffinity = nil
	q.Filters = []pb.Plugin{
		pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE, pb.Plugin_PLUGIN_NODE_NAME, pb.Plugin_PLUGIN_TAINT_TOLERATION, pb.Plugin_PLUGIN_NODE_RESOURCES_FIT,
	}
	q.Scores = slices.DeleteFunc(q.Scores, func(s *pb.ScoreWeight) bool { return s.Plugin == pb.Plugin_PLUGIN_NODE_AFFINITY })
	b.ReportAllocs()
	for b.Loop() {
		newClass(b, q)
	}
}

// BenchmarkVary makes the class of a plain pod as a variant.
func BenchmarkVary(b *testing.B) {
	original, q := newClass(b, distinctQuery(1)), distinctQuery(2)
	b.ReportAllocs()
	for b.Loop() {
		original.Vary(q)
	}
}
