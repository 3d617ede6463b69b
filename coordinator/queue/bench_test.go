package queue

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// manyPods is the size that the queue has to stay fast at.
const manyPods = 500_000

// fill gives a queue of n pods that NodeResourcesFit rejected, of the given number of
// classes; 0: none of them has one.
func fill(b *testing.B, n, classes int) *Queue {
	b.Helper()
	now := start
	q := newQueue(&now)
	for i := range n {
		q.Add(benchPod(i))
	}
	for _, p := range q.PopBatch(n, nil) {
		if classes > 0 {
			p.ClassID = p.Seq%uint64(classes) + 1
		}
		q.Unschedulable(p, []string{"NodeResourcesFit"}, "no")
	}
	if got := q.Len(Unschedulable); got != n {
		b.Fatalf("got %d unschedulable pods, want %d", got, n)
	}
	return q
}

func benchPod(i int) *v1.Pod {
	return build.Pod(fmt.Sprintf("pod-%07d", i)).CPU("64").Memory("1Gi").Priority(int32(i % 3)).Obj()
}

// BenchmarkMoveHelpsNone is an event that is looked at and helps none of 500,000 pods.
func BenchmarkMoveHelpsNone(b *testing.B) {
	small := NodeAdded(build.Node("n").CPU("32").Memory("1Ti").Obj())
	for _, c := range []struct {
		name    string
		classes int
		event   Event
	}{
		{"of no interest", 200, AssignedPodAdded(build.Pod("x").Node("n").Obj())},
		{"another plugin's", 200, NodeUpdated(build.Node("n").Obj(), build.Node("n").Label("a", "b").Obj())[0]},
		{"a node too small, 200 classes", 200, small},
		{"a node too small, 10000 classes", 10000, small},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := fill(b, manyPods, c.classes)
			b.ReportAllocs()
			for b.Loop() {
				if n := q.Move(c.event); n != 0 {
					b.Fatalf("moved %d pods, want none", n)
				}
			}
		})
	}
}

// BenchmarkMoveHelpsAll is an event that helps all of 500,000 pods: each goes to backoff.
func BenchmarkMoveHelpsAll(b *testing.B) {
	gone := AssignedPodDeleted(build.Pod("x").Node("n").Obj())
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		q := fill(b, manyPods, 200)
		b.StartTimer()
		if n := q.Move(gone); n != manyPods {
			b.Fatalf("moved %d pods, want %d", n, manyPods)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/manyPods, "ns/pod")
}

// BenchmarkAttempt takes the first of 500,000 pods and ends its attempt, in each of the
// ways that leave the queue as large as it was.
func BenchmarkAttempt(b *testing.B) {
	for _, c := range []struct {
		name string
		end  func(*Queue, *Pod)
	}{
		{"done and added", func(q *Queue, p *Pod) { q.Done(p.Obj.UID); q.Add(p.Obj) }},
		{"given back", func(q *Queue, p *Pod) { q.GiveBack(p) }},
		{"rejected and activated", func(q *Queue, p *Pod) {
			q.Unschedulable(p, []string{"NodeResourcesFit"}, "no")
			q.Activate(p.Obj.UID)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			now := start
			q := newQueue(&now)
			for i := range manyPods {
				q.Add(benchPod(i))
			}
			var batch []*Pod
			b.ReportAllocs()
			for b.Loop() {
				batch = q.PopBatch(1, batch[:0])
				c.end(q, batch[0])
				now = now.Add(time.Microsecond)
			}
		})
	}
}

// BenchmarkPopBatch empties a queue of 500,000 pods in batches of 1,000.
func BenchmarkPopBatch(b *testing.B) {
	now := start
	q := newQueue(&now)
	for i := range manyPods {
		q.Add(benchPod(i))
	}
	batch := make([]*Pod, 0, 1000)
	b.ReportAllocs()
	for b.Loop() {
		batch = q.PopBatch(1000, batch[:0])
		for _, p := range batch {
			q.GiveBack(p)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/pod")
}

// BenchmarkAdd is the arrival of a pod at a queue that has 500,000 already.
func BenchmarkAdd(b *testing.B) {
	now := start
	objs := make([]*v1.Pod, manyPods)
	for i := range objs {
		objs[i] = benchPod(i)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	q := newQueue(&now)
	for _, obj := range objs {
		q.Add(obj)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportAllocs()
	for b.Loop() {
		q.Delete(objs[0].UID)
		q.Add(objs[0])
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/manyPods, "B/pod")
}

// BenchmarkWaiting is what the memory of a pod comes to that plugins have rejected, beside its
// object, with pods of a few classes, of many and of none that is known.
func BenchmarkWaiting(b *testing.B) {
	for _, classes := range []int{200, 10_000, 0} {
		b.Run(fmt.Sprint(classes, " classes"), func(b *testing.B) {
			now := start
			objs := make([]*v1.Pod, manyPods)
			for i := range objs {
				objs[i] = benchPod(i)
			}
			by := []string{"NodeResourcesFit", "TaintToleration"}
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				q := newQueue(&now)
				for _, obj := range objs {
					q.Add(obj)
				}
				for _, p := range q.PopBatch(manyPods, nil) {
					if classes > 0 {
						p.ClassID = p.Seq%uint64(classes) + 1
					}
					q.Unschedulable(p, by, "0/5000 nodes are available")
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/manyPods, "B/pod")
				runtime.KeepAlive(q)
			}
		})
	}
}

// BenchmarkFlush is one call after all of 500,000 pods have waited for too long: what holds up
// the loop at once.
func BenchmarkFlush(b *testing.B) {
	var q *Queue
	now := start
	b.ReportAllocs()
	for b.Loop() {
		if q == nil || q.Len(Unschedulable) < flushSlice {
			b.StopTimer()
			q = fill(b, manyPods, 200)
			q.now = func() time.Time { return now.Add(time.Hour) }
			b.StartTimer()
		}
		q.Flush()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/flushSlice, "ns/pod")
}

// BenchmarkMoveAsksEach is the end of a pod whose anti-affinity selects a label in which all of
// 500,000 pods differ, and none of them: each has to be asked.
func BenchmarkMoveAsksEach(b *testing.B) {
	now := start
	q := newQueue(&now)
	for i := range manyPods {
		q.Add(build.Pod(fmt.Sprintf("pod-%07d", i)).Label("index", strconv.Itoa(i)).Obj())
	}
	for _, p := range q.PopBatch(manyPods, nil) {
		p.ClassID = p.Seq%200 + 1
		q.Unschedulable(p, []string{"InterPodAffinity"}, "no")
	}
	gone := pod("x", []string{"far=zone:index=none"})
	gone.Spec.NodeName = "n"
	b.ReportAllocs()
	for b.Loop() {
		if n := q.Move(AssignedPodDeleted(gone)); n != 0 {
			b.Fatalf("moved %d pods, want none", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/manyPods, "ns/pod")
}

// BenchmarkPass is a whole pass over 500,000 pods that nothing helps: a tick flushes all, each is
// popped and refused again.
func BenchmarkPass(b *testing.B) {
	now := start
	q := fill(b, manyPods, 200)
	q.now = func() time.Time { return now }
	by := []string{"NodeResourcesFit"}
	batch := make([]*Pod, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Hour)
		for {
			if batch = q.PopBatch(512, batch[:0]); len(batch) == 0 {
				break
			}
			for _, p := range batch {
				p.ClassID = p.Seq%200 + 1
				q.Unschedulable(p, by, "no")
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/manyPods, "ns/pod")
}
