package queue

import (
	"fmt"
	"testing"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// manyHints is how many pods an event is held against in the benchmarks of hints.
const manyHints = 100_000

// BenchmarkHint is an event that helps none of 100,000 pods that one plugin rejected. Apart,
// no pod has a class and each is asked; together, they are of one class. The selectors
// are read before.
func BenchmarkHint(b *testing.B) {
	other := build.Pod("other").Label("app", "x").Node("n").Obj()
	hostile := pod("hostile", []string{"label=app=x", "far=zone:app=none"})
	hostile.Spec.NodeName = "n"
	user := pod("user", []string{"claim=other", "gce=other"})
	user.Spec.NodeName = "n"
	relabelled := other.DeepCopy()
	relabelled.Labels["app"] = "y"
	zone := func(z string) []Event {
		return NodeUpdated(node("n", []string{"label=x=y", "label=zone=a"}), node("n", []string{"label=x=" + z, "label=zone=a"}))
	}
	for _, c := range []struct {
		name, plugin string
		words        []string
		event        Event
	}{
		{"a pod comes", "InterPodAffinity", []string{"near=zone:app=web", "far=host:app=web"}, AssignedPodAdded(other)},
		{"a pod goes", "InterPodAffinity", []string{"far=host:app=web"}, AssignedPodDeleted(other)},
		{"a pod with anti-affinity goes", "InterPodAffinity", []string{"far=host:app=web"}, AssignedPodDeleted(hostile)},
		{"a pod changes", "InterPodAffinity", []string{"near=zone:app=web"}, AssignedPodUpdated(other, relabelled)[0]},
		{"a node changes", "InterPodAffinity", []string{"near=zone:app=web"}, zone("z")[0]},
		{"a pod comes", "PodTopologySpread", []string{"spread=zone:app=web", "spread=host:app=web"}, AssignedPodAdded(other)},
		{"a node changes", "PodTopologySpread", []string{"spread=zone:app=web"}, zone("z")[0]},
		{"a node comes", "NodeAffinity", []string{"select=zone=b"}, NodeAdded(node("n", []string{"label=zone=a"}))},
		{"a pod goes", "VolumeRestrictions", []string{"claim=data", "gce=pd"}, AssignedPodDeleted(user)},
		{"a claim changes", "VolumeBinding", []string{"ephemeral=data"}, ClaimUpdated(pvc("other", nil), pvc("other", nil))},
		{"a capacity falls", "VolumeBinding", []string{"ephemeral=data"}, CSIStorageCapacityUpdated(capacity("c", []string{"free=2Gi"}), capacity("c", []string{"free=1Gi"}))},
	} {
		for _, class := range []uint64{0, 1} {
			b.Run(fmt.Sprintf("%s/%s/%s", c.plugin, c.name, [2]string{"apart", "together"}[class]), func(b *testing.B) {
				q := rejected(b, c.plugin, c.words, class)
				q.Move(c.event)
				b.ReportAllocs()
				for b.Loop() {
					if n := q.Move(c.event); n != 0 {
						b.Fatalf("moved %d pods, want none", n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/manyHints, "ns/pod")
			})
		}
	}
}

// rejected gives a queue of pods that differ in their names and a label, as those of a
// StatefulSet do.
func rejected(b *testing.B, plugin string, words []string, class uint64) *Queue {
	b.Helper()
	now := start
	q := newQueue(&now)
	for i := range manyHints {
		q.Add(pod(fmt.Sprintf("pod-%06d", i), append(words[:len(words):len(words)], fmt.Sprintf("label=pod=%d", i))))
	}
	for _, p := range q.PopBatch(manyHints, nil) {
		p.ClassID = class
		q.Unschedulable(p, []string{plugin}, "no")
	}
	return q
}
