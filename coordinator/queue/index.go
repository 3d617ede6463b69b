package queue

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// bucket holds waiting pods that an event helps alike: rejected by the same plugins, of one class, matched by the same, and alike in what
// the plugins' hints read beyond that and, with Config.TellByLongest, in how long they run at the most. A pod whose class is not known has
// a bucket of its own.
type bucket struct {
	bucketKey
	heap        // its pods, in the queue's order
	slots []int // its index in each list of index.lists, for its plugins in order
	// limited says that the last event that helps makes room for a number of pods, which is room.
	limited bool
	room    int
	copies  copies // where it is of pod groups whose members are counted
	// differs holds the keys of labels in which its pods differ, or once did, where it has a
	// likeness; differAll says that these are too many, and any label may differ.
	differs   map[string]bool
	differAll bool
	// filed is where it stands under topics, and asked the last event that it was asked about.
	filed []filing
	asked uint64
}

// index finds the pods that an event may help by the plugins that rejected them, or by the
// claim that the event is about, so that an event costs nothing for the others.
type index struct {
	lists  [64][]*bucket // by plugin
	topics map[topic][]place
	shared map[bucketKey]*bucket
	before func(a, b *Pod) bool // the queue's order
	events uint64
	kept   []*bucket // those that the last event has made room for a number of pods of; scratch
}

type bucketKey struct {
	rejectors set
	classID   uint64
	matched   string
	likeness  likeness
	mates     mates
	longest   time.Duration // Pod.Longest, where pods are told apart by it
}

// add puts a pod under its rejectors and its topics.
func (x *index) add(r *rules, p *Pod, key bucketKey) {
	b, like := x.bucketOf(key), key.likeness
	if len(b.pods) == 0 {
		topics, told := r.topics(p.rejectors, p)
		if !told {
			x.drop(b)
			p.rejectors |= unknown
			b = x.bucketOf(bucketKey{rejectors: p.rejectors, mates: p.mates(0)})
		}
		for _, t := range topics {
			x.file(b, t)
		}
	}
	if len(b.pods) > 0 && like != (likeness{}) {
		x.compare(b, b.pods[0].Obj.Labels, p.Obj.Labels)
		x.compare(b, p.Obj.Labels, b.pods[0].Obj.Labels)
	}
	p.bucket = b
	b.push(p)
}

func (x *index) bucketOf(key bucketKey) *bucket {
	if b := x.shared[key]; b != nil {
		return b
	}
	b := &bucket{bucketKey: key, heap: heap{before: x.before, slots: true}}
	for s := key.rejectors; s != 0; s &= s - 1 {
		list := &x.lists[s.index()]
		b.slots = append(b.slots, len(*list))
		*list = append(*list, b)
	}
	if key.classID != 0 {
		if x.shared == nil {
			x.shared = map[bucketKey]*bucket{}
		}
		x.shared[key] = b
	}
	return b
}

// remove takes a pod out.
func (x *index) remove(p *Pod) {
	b := p.bucket
	b.heap.remove(p)
	p.bucket = nil
	if b.len() == 0 {
		x.drop(b)
	}
}

// drop takes an empty bucket out of its lists: the last of each list takes its slot.
func (x *index) drop(b *bucket) {
	if b.classID != 0 {
		delete(x.shared, b.bucketKey)
	}
	i := 0
	for s := b.rejectors; s != 0; s &= s - 1 {
		list, slot := &x.lists[s.index()], b.slots[i]
		last := (*list)[len(*list)-1]
		(*list)[slot] = last
		last.slots[last.nth(s&-s)] = slot
		(*list)[len(*list)-1] = nil
		*list = (*list)[:len(*list)-1]
		i++
	}
	x.unfile(b)
}

// nth counts the bucket's plugins before the given one.
func (b *bucket) nth(plugin set) int { return (b.rejectors & (plugin - 1)).len() }

// helped appends the pods that an event helps, judging one pod of each bucket where that is
// enough. also are buckets that are asked whatever the event's topics are.
func (x *index) helped(r *rules, e *Event, also []*bucket, into []*Pod) []*Pod {
	interested := r.interested(e)
	readers, keys := r.reads(e)
	x.events++
	x.kept = x.kept[:0]
	ask := func(b *bucket) {
		if b.asked != x.events && b.rejectors&interested != 0 {
			b.asked, b.limited = x.events, false
			each := b.rejectors&readers != 0 && b.differIn(keys)
			if b.mates.of == countedMates {
				into = b.helpedCounted(r, e, each, into)
			} else if into = b.helped(r, e, each, into); b.limited {
				x.kept = append(x.kept, b)
			}
		}
	}
	for _, at := range x.topics[topic{of: longPods}] {
		ask(at.bucket)
	}
	if c, ok := e.obj.(*v1.PersistentVolumeClaim); ok {
		for _, at := range x.topics[topic{of: namedClaims, namespace: c.Namespace, key: c.Name}] {
			ask(at.bucket)
		}
		interested &= unknown | r.asksEach
	}
	for _, b := range also {
		ask(b)
	}
	x.candidates(r, interested, e, ask)
	return into
}

// helped appends the bucket's pods that an event helps; each has to be asked where they
// differ in what is read of them.
func (b *bucket) helped(r *rules, e *Event, each bool, into []*Pod) []*Pod {
	if !each && !r.helps(b.rejectors, b.pods[0], e) {
		return into
	}
	if !each && b.mates.of == noMates {
		if b.room, b.limited = r.room(b.rejectors, b.pods[0], e); b.limited {
			return b.first(b.room, e, into)
		}
	}
	for _, p := range b.pods {
		if e.moves(p) && (!each || r.helps(b.rejectors, p, e)) {
			into = append(into, p)
		}
	}
	return into
}

// compare notes the labels of one pod that another of its bucket has not.
func (x *index) compare(b *bucket, one, other map[string]string) {
	for k, v := range one {
		if b.differAll {
			return
		}
		if w, ok := other[k]; ok && v == w || b.differs[k] {
			continue
		}
		if b.differAll = len(b.differs) == manyTopics; b.differAll {
			x.file(b, topic{of: ownLabels})
			return
		}
		if b.differs == nil {
			b.differs = map[string]bool{}
		}
		b.differs[k] = true
		x.file(b, topic{of: ownLabels, key: k})
	}
}

// differIn tells whether the bucket's pods may differ in one of these labels.
func (b *bucket) differIn(keys []string) bool {
	return b.differAll && len(keys) > 0 || slices.ContainsFunc(keys, func(k string) bool { return b.differs[k] })
}
