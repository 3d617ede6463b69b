package store_test

import (
	"fmt"
	"testing"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// BenchmarkApplyPods creates pods, 1000 a call, into an etcd in the same process with fsync.
func BenchmarkApplyPods(b *testing.B) {
	r := newRig(b)
	b.ReportAllocs()
	const batch = 1000
	n := 0
	for b.Loop() {
		b.StopTimer()
		objs := pods(fmt.Sprintf("p%d", n), batch)
		n++
		b.StartTimer()
		if _, _, err := r.Apply(b.Context(), r.fence, objs, false); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n*batch)/b.Elapsed().Seconds(), "pods/s")
}

// BenchmarkBindPods binds pods that are there, 1000 a call.
func BenchmarkBindPods(b *testing.B) {
	r := newRig(b)
	b.ReportAllocs()
	const batch = 1000
	n := 0
	for b.Loop() {
		b.StopTimer()
		objs := pods(fmt.Sprintf("p%d", n), batch)
		r.apply(b, objs...)
		bs := make([]objects.Binding, 0, batch)
		for _, p := range r.load(b).Pods {
			if p.Spec.NodeName == "" {
				bs = append(bs, objects.Binding{Pod: p, Node: "node-1"})
			}
		}
		n++
		b.StartTimer()
		for _, err := range r.Bind(b.Context(), r.fence, bs) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(n*batch)/b.Elapsed().Seconds(), "binds/s")
}
