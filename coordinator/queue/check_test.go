package queue

import (
	"slices"
	"testing"
)

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ failer = (*testing.T)(nil)

// check holds a queue's invariants: each pod is in exactly the structures of its place, and
// each structure knows where.
func check(t failer, q *Queue) {
	t.Helper()
	var counts [places]int
	for uid, p := range q.pods {
		counts[p.place]++
		if p.Obj.UID != uid || p.place == Gone {
			t.Fatalf("pod %s: known as %s, in %q", p.Obj.UID, uid, p.place)
		}
		if got := q.names[p.name()]; got != p && !p.deleted {
			t.Fatalf("pod %s: its name leads elsewhere", uid)
		}
		checkPlace(t, q, p)
	}
	if counts != q.counts {
		t.Fatalf("counts: got %v, want %v", q.counts, counts)
	}
	if len(q.names) > len(q.pods) {
		t.Fatalf("names: got %d, want at most %d", len(q.names), len(q.pods))
	}
	checkHeap(t, "active", &q.active, counts[Active])
	checkHeap(t, "backoff", &q.backoff, counts[Backoff])
	checkHeap(t, "errors", &q.errors, counts[ErrorBackoff])
	checkHeap(t, "waiting", &q.waiting, counts[Unschedulable])
	checkIndex(t, q, counts[Unschedulable]+counts[Gated])
	checkNominations(t, q)
	if q.flights.live != counts[InFlight] {
		t.Fatalf("in flight: got %d, want %d", q.flights.live, counts[InFlight])
	}
	if q.flights.live == 0 && q.flights.pods.len()+q.flights.events.len() != 0 {
		t.Fatalf("nothing is in flight: got %d flights and %d events, want none", q.flights.pods.len(), q.flights.events.len())
	}
}

func checkPlace(t failer, q *Queue, p *Pod) {
	t.Helper()
	heaps := map[Place]*heap{Active: &q.active, Backoff: &q.backoff, ErrorBackoff: &q.errors, Unschedulable: &q.waiting}
	if h := heaps[p.place]; h != nil && (p.at >= h.len() || h.pods[p.at] != p) {
		t.Fatalf("pod %s: not at its index %d in %q", p.Obj.UID, p.at, p.place)
	}
	indexed := p.place == Unschedulable || p.place == Gated
	if indexed != (p.bucket != nil) {
		t.Fatalf("pod %s in %q: got a bucket %t, want %t", p.Obj.UID, p.place, p.bucket != nil, indexed)
	}
	if p.place == InFlight && q.flights.pods.at(p.flight).pod != p {
		t.Fatalf("pod %s: its flight is another's", p.Obj.UID)
	}
	if (p.Gated != "") != (p.place == Gated) {
		t.Fatalf("pod %s in %q: got gated by %q", p.Obj.UID, p.place, p.Gated)
	}
}

func checkHeap(t failer, name string, h *heap, want int) {
	t.Helper()
	if h.len() != want {
		t.Fatalf("%s: got %d pods, want %d", name, h.len(), want)
	}
	for i := 1; i < h.len(); i++ {
		if h.before(h.pods[i], h.pods[(i-1)/2]) {
			t.Fatalf("%s: index %d stands behind its parent and goes before it", name, i)
		}
	}
}

func checkIndex(t failer, q *Queue, want int) {
	t.Helper()
	x := &q.index
	seen := map[*bucket]bool{}
	pods := 0
	for plugin, list := range x.lists {
		for slot, b := range list {
			bit := set(1) << plugin
			if b.rejectors&bit == 0 || b.slots[b.nth(bit)] != slot {
				t.Fatalf("index of plugin %d: bucket %d does not know its slot", plugin, slot)
			}
			if !seen[b] {
				seen[b] = true
				pods += len(b.pods)
				checkFiled(t, q, b)
			}
			if len(b.pods) == 0 {
				t.Fatalf("index of plugin %d: bucket %d is empty", plugin, slot)
			}
			for i, p := range b.pods {
				key := bucketKey{rejectors: p.rejectors, mates: p.mates(p.ClassID)}
				if p.ClassID != 0 {
					key.classID, key.matched, key.likeness = p.ClassID, p.Matched, alikeOf(q, p)
				}
				if p.bucket != b || p.slot != i || b.bucketKey != key {
					t.Fatalf("pod %s: in a bucket that is not its own", p.Obj.UID)
				}
			}
		}
	}
	if pods != want {
		t.Fatalf("index: got %d pods, want %d", pods, want)
	}
}

// checkFiled: a bucket knows its places under topics, and stands under each claim of its pods, if it is to stand there.
func checkFiled(t failer, q *Queue, b *bucket) {
	t.Helper()
	filed := map[topic]bool{}
	for i, f := range b.filed {
		if filed[f.topic] = true; q.index.topics[f.topic][f.slot] != (place{b, i}) {
			t.Fatalf("bucket of pod %s: not at its slot %d of topic %v", b.pods[0].Obj.UID, f.slot, f.topic)
		}
	}
	if b.rejectors&q.rules.claims == 0 || b.rejectors&unknown != 0 {
		return
	}
	for _, c := range claimTopics(b.pods[0]) {
		if !filed[c] {
			t.Fatalf("bucket of pod %s: not under its claim %s", b.pods[0].Obj.UID, c.key)
		}
	}
}

// checkNominations: who is nominated stands under its node, once, and is known.
func checkNominations(t failer, q *Queue) {
	t.Helper()
	listed := 0
	for _, node := range q.NominatedNodes() {
		for _, p := range q.Nominated(node) {
			if q.pods[p.Obj.UID] != p || p.NominatedNode != node || p.deleted {
				t.Fatalf("pod %s: listed for node %s, nominated to %q in %q", p.Obj.UID, node, p.NominatedNode, p.place)
			}
			listed++
		}
	}
	want := 0
	for _, p := range q.pods {
		if p.NominatedNode != "" {
			want++
		}
	}
	if listed != want || len(q.nominations.nodes) != len(q.nominations.pods) || !slices.IsSorted(q.nominations.nodes) {
		t.Fatalf("nominated: got %d pods on nodes %v, want %d on %d nodes, sorted", listed, q.nominations.nodes, want, len(q.nominations.pods))
	}
}

func alikeOf(q *Queue, p *Pod) likeness {
	if p.isLong() {
		return likenessOfLong
	}
	like, _ := q.rules.likeness(p.rejectors, p)
	return like
}
