package scorer

import (
	"fmt"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// benchNode is a node as clusters have them: 15 labels, 10 images, a few taints and GPUs.
func benchNode(i int) *pb.Node {
	n := &pb.Node{
		Name:        fmt.Sprintf("ip-10-%d-%d-%d.eu-west-1.compute.internal", i>>16, i>>8&255, i&255),
		AllowedPods: 110,
		Allocatable: &pb.Resources{MilliCpu: 32000 << (i % 3), MemoryBytes: 128 << 30 << (i % 3), EphemeralStorageBytes: 1 << 40},
	}
	label := func(key, value string) { n.Labels = append(n.Labels, &pb.Label{Key: key, Value: value}) }
	label("beta.kubernetes.io/arch", "amd64")
	label("beta.kubernetes.io/os", "linux")
	label("example.com/pool", fmt.Sprintf("pool-%d", i%5))
	label("failure-domain.beta.kubernetes.io/region", "eu-west-1")
	label("failure-domain.beta.kubernetes.io/zone", fmt.Sprintf("eu-west-1%c", 'a'+i%3))
	label("kubernetes.io/arch", "amd64")
	label("kubernetes.io/hostname", n.Name)
	label("kubernetes.io/os", "linux")
	for k := range 4 {
		label(fmt.Sprintf("node.kubernetes.io/feature-%d", k), "true")
	}
	label("node.kubernetes.io/instance-type", fmt.Sprintf("m5.%dxlarge", 8<<(i%3)))
	label("topology.kubernetes.io/region", "eu-west-1")
	label("topology.kubernetes.io/zone", fmt.Sprintf("eu-west-1%c", 'a'+i%3))
	if i%8 == 0 {
		n.Allocatable.Scalars = []*pb.ScalarResource{{Name: "nvidia.com/gpu", Quantity: 8}}
		n.Taints = append(n.Taints, &pb.Taint{Key: "nvidia.com/gpu", Effect: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE})
	}
	if i%20 == 1 {
		n.Taints = append(n.Taints, &pb.Taint{Key: "spot", Effect: pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE})
	}
	for k := range 10 {
		n.Images = append(n.Images, fmt.Sprintf("registry.example.com/team-%d/service-%04d:v1.2.%d", k, (i*7+k*13)%300, k))
	}
	return n
}

func benchRows(n int) []*pb.SnapshotRow {
	rows := make([]*pb.SnapshotRow, n)
	for i := range rows {
		pods := int64(i % 17)
		rows[i] = &pb.SnapshotRow{Row: uint32(i), Node: benchNode(i), Totals: &pb.NodeTotals{
			Pods: pods, Requested: &pb.Resources{MilliCpu: pods * 750, MemoryBytes: pods * 3 << 30},
			NonZeroMilliCpu: pods * 800, NonZeroMemoryBytes: pods * 3 << 30, LastDecision: uint64(i*31) % 5000,
			Ports: []*pb.PortUse{{Port: &pb.HostPort{Ip: "0.0.0.0", Protocol: pb.Protocol_PROTOCOL_TCP, Port: 9100}, Pods: 1}},
		}}
	}
	return rows
}

// benchQuery is the default profile's query of a plain pod.
func benchQuery() *pb.Query {
	return &pb.Query{
		ClassId: 1, Filters: filterPlugins(), Scores: scorePlugins(),
		Tolerations: []*pb.Toleration{{
			Key: "node.kubernetes.io/not-ready", Operator: pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS,
			Effect: pb.TaintEffect_TAINT_EFFECT_NO_EXECUTE,
		}},
		NodeAffinity: &pb.NodeAffinityQuery{NodeSelector: []*pb.Label{{Key: "kubernetes.io/os", Value: "linux"}}},
		Fit: &pb.FitQuery{
			Requests:    &pb.Resources{MilliCpu: 500, MemoryBytes: 1 << 30},
			ScoringType: pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED,
			Scored:      []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: 500}, {Name: "memory", Weight: 1, Request: 1 << 30}},
		},
		Balanced: &pb.BalancedQuery{
			Scored: []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: 500}, {Name: "memory", Weight: 1, Request: 1 << 30}},
		},
		Images: &pb.ImageQuery{Containers: 1, Images: []*pb.ImageTerm{{Name: "registry.example.com/team-3/service-0007:v1.2.3", ScaledBytes: 80 << 20}}},
	}
}

// BenchmarkScan is one class over one table: all rules, no cache.
func BenchmarkScan(b *testing.B) {
	gpu := benchQuery()
	gpu.Tolerations = append(gpu.Tolerations, &pb.Toleration{Key: "nvidia.com/gpu", Operator: pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS})
	gpu.Fit.Requests.Scalars = []*pb.ScalarResource{{Name: "nvidia.com/gpu", Quantity: 1}}
	zone := benchQuery()
	zone.NodeAffinity.Required = &pb.NodeSelector{Terms: []*pb.SelectorTerm{
		{Labels: []*pb.LabelRequirement{{Key: "topology.kubernetes.io/zone", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_IN, Values: []string{"eu-west-1a", "eu-west-1b"}}}},
		{Labels: []*pb.LabelRequirement{{Key: "example.com/pool", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_NOT_IN, Values: []string{"pool-1"}}}},
	}}
	zone.NodeAffinity.Preferred = []*pb.PreferredTerm{{Weight: 10, Term: zone.NodeAffinity.Required.Terms[1]}}
	zone.HostPorts = []*pb.HostPort{{Ip: "0.0.0.0", Protocol: pb.Protocol_PROTOCOL_TCP, Port: 8080}}
	for _, c := range []struct {
		name     string
		query    *pb.Query
		diagnose bool
	}{
		{"plain", benchQuery(), false},
		{"gpu", gpu, false},
		{"affinity+ports", zone, false},
		{"gpu+reasons", gpu, true},
	} {
		for _, rows := range []int{5000, 50000} {
			b.Run(fmt.Sprintf("%s/rows=%d", c.name, rows), func(b *testing.B) {
				table := loadTable(b, 0, benchRows(rows))
				class, e, into := newClass(b, c.query), NewEvaluator(nil), &Result{}
				o := Options{Candidates: 64, Diagnose: c.diagnose}
				b.ReportAllocs()
				for b.Loop() {
					into.Reset(class.ID(), o.Candidates)
					e.Evaluate(table, class, o, into)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/node")
				b.ReportMetric(float64(into.Feasible), "feasible")
			})
		}
	}
}

// BenchmarkScanClasses is 64 classes in turn that differ in what they request, over one table.
func BenchmarkScanClasses(b *testing.B) {
	const rows = 25000
	table, e, into := loadTable(b, 0, benchRows(rows)), NewEvaluator(nil), &Result{}
	var classes []*Class
	for i := range int64(64) {
		q := benchQuery()
		q.ClassId = uint64(i + 1)
		cpu, memory := 100+7*i, (100+3*i)<<20
		q.Fit.Requests = &pb.Resources{MilliCpu: cpu, MemoryBytes: memory}
		q.Fit.Scored = []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: cpu}, {Name: "memory", Weight: 1, Request: memory}}
		q.Balanced.Scored = q.Fit.Scored
		classes = append(classes, newClass(b, q))
	}
	for _, candidates := range []int{2, 65, 513, 16385} {
		b.Run(fmt.Sprintf("candidates=%d", candidates), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c := classes[i%len(classes)]
				into.Reset(c.ID(), candidates)
				e.Evaluate(table, c, Options{Candidates: candidates}, into)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/node")
		})
	}
}

// BenchmarkRow is what a repair costs.
func BenchmarkRow(b *testing.B) {
	table := loadTable(b, 0, benchRows(5000))
	class, e := newClass(b, benchQuery()), NewEvaluator(nil)
	var totals RowTotals
	var verdict Verdict
	row := uint32(0)
	b.ReportAllocs()
	for b.Loop() {
		table.Totals(row, &totals)
		e.Row(table, row, &totals, class, false, &verdict)
		row = (row + 1) % 5000
	}
}

// BenchmarkApply is a placement and its undoing.
func BenchmarkApply(b *testing.B) {
	usage := &pb.PodUsage{
		Requests:        &pb.Resources{MilliCpu: 500, MemoryBytes: 1 << 30, Scalars: []*pb.ScalarResource{{Name: "nvidia.com/gpu", Quantity: 1}}},
		NonZeroMilliCpu: 500, NonZeroMemoryBytes: 1 << 30,
	}
	for _, c := range []struct {
		name  string
		usage *pb.PodUsage
	}{
		{"cpu+memory", &pb.PodUsage{Requests: &pb.Resources{MilliCpu: 500, MemoryBytes: 1 << 30}, NonZeroMilliCpu: 500, NonZeroMemoryBytes: 1 << 30}},
		{"gpu", usage},
	} {
		b.Run(c.name, func(b *testing.B) {
			table := loadTable(b, 0, benchRows(5000))
			add := &pb.Delta{Change: &pb.Delta_AddPod{AddPod: c.usage}, Decision: 1}
			remove := &pb.Delta{Change: &pb.Delta_RemovePod{RemovePod: c.usage}}
			b.ReportAllocs()
			for b.Loop() {
				add.Row = (add.Row + 8) % 5000
				remove.Row = add.Row
				must(table.Apply(add))
				must(table.Apply(remove))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/delta")
		})
	}
}

// BenchmarkSetNode is a node that changes one label.
func BenchmarkSetNode(b *testing.B) {
	table := loadTable(b, 0, benchRows(5000))
	one, two := benchNode(17), benchNode(17)
	two.Labels[2].Value = "pool-other"
	deltas := []*pb.Delta{
		{Row: 17, Change: &pb.Delta_SetNode{SetNode: one}},
		{Row: 17, Change: &pb.Delta_SetNode{SetNode: two}},
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		must(table.Apply(deltas[i%2]))
	}
}

// BenchmarkMerge adds the answers of 8 tables, of 2 groups with 64 candidates each.
func BenchmarkMerge(b *testing.B) {
	class, e := newClass(b, benchQuery()), NewEvaluator(nil)
	rows := benchRows(8000)
	var parts []*Result
	for s := range 8 {
		part := rows[s*1000 : (s+1)*1000]
		for i, x := range part {
			x.Row = uint32(i)
		}
		parts = append(parts, evaluate(e, loadTable(b, uint32(s), part), class, Options{Candidates: 64}))
	}
	into := &Result{}
	b.ReportAllocs()
	for b.Loop() {
		into.Reset(class.ID(), 64)
		for _, p := range parts {
			into.Merge(p)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8, "ns/table")
}

// BenchmarkLoad is what a worker does with a snapshot; it also tells the table's size.
func BenchmarkLoad(b *testing.B) {
	rows := benchRows(5000)
	b.ReportAllocs()
	var table *Table
	for b.Loop() {
		table = loadTable(b, 0, rows)
	}
	b.ReportMetric(float64(table.MemoryBytes())/5000, "B/node")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/5000, "ns/node")
}
