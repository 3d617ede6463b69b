package scorer

import "testing"

// BenchmarkCopies is what copies by three keys take beside the filters: 2 of them shared by many rows, one each row's own.
func BenchmarkCopies(b *testing.B) {
	const rows = 16384
	t := loadTable(b, 0, benchRows(rows))
	c, e := newClass(b, benchQuery()), NewEvaluator(nil)
	for name, keys := range map[string][]string{
		"total": nil, "zone": {"topology.kubernetes.io/zone"}, "zone and pool": {"topology.kubernetes.io/zone", "example.com/pool"},
		"hostname": {"kubernetes.io/hostname"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				into := &Result{}
				into.Reset(1, 1)
				e.Evaluate(t, c, Options{Copies: true, CopyKeys: keys, Measure: true}, into)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
