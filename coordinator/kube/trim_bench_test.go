package kube

import (
	"runtime"
	"testing"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// BenchmarkRetained reports what an object takes in memory, as it came and trimmed, among
// many of its kind.
func BenchmarkRetained(b *testing.B) {
	retained(b, "pod", 20_000, func(i int) objects.Object { return runningPod(i) })
	retained(b, "node", 5_000, func(i int) objects.Object { return runningNode(i) })
}

func retained(b *testing.B, name string, count int, object func(i int) objects.Object) {
	for _, how := range []string{"whole", "trimmed"} {
		b.Run(name+"/"+how, func(b *testing.B) {
			for b.Loop() {
				by := newTrimmer(Whole{})
				kept := make([]any, count)
				before := heap()
				for i := range kept {
					kept[i] = decoded(b, object(i))
					if how == "trimmed" {
						kept[i], _ = by.transform(kept[i])
					}
				}
				b.ReportMetric(float64(heap()-before)/float64(count), "B/object")
				runtime.KeepAlive(kept)
				runtime.KeepAlive(by)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkTrim is what each change of a pod or node costs.
func BenchmarkTrim(b *testing.B) {
	b.Run("pod", func(b *testing.B) { trimming(b, decoded(b, runningPod(1))) })
	b.Run("node", func(b *testing.B) { trimming(b, decoded(b, runningNode(1))) })
}

func trimming[T objects.Object](b *testing.B, obj T) {
	by := newTrimmer(Whole{})
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		one := decoded(b, obj)
		b.StartTimer()
		if _, err := by.transform(one); err != nil {
			b.Fatal(err)
		}
	}
}
