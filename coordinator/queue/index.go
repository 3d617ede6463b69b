package queue

// bucket holds waiting pods that an event helps alike: rejected by the same plugins and of
// one class. A pod whose class is not known has a bucket of its own.
type bucket struct {
	rejectors set
	classID   uint64
	pods      []*Pod
	slots     []int // its index in each list of index.lists, for its plugins in order
}

// index finds the pods that an event may help by the plugins that rejected them, so that
// an event costs nothing for the others.
type index struct {
	lists  [64][]*bucket // by plugin
	shared map[bucketKey]*bucket
}

type bucketKey struct {
	rejectors set
	classID   uint64
}

// add puts a pod under its rejectors.
func (x *index) add(p *Pod) {
	b := x.bucketOf(p)
	p.bucket, p.slot = b, len(b.pods)
	b.pods = append(b.pods, p)
}

func (x *index) bucketOf(p *Pod) *bucket {
	key := bucketKey{p.rejectors, p.ClassID}
	if b := x.shared[key]; b != nil {
		return b
	}
	b := &bucket{rejectors: p.rejectors, classID: p.ClassID}
	for s := p.rejectors; s != 0; s &= s - 1 {
		list := &x.lists[s.index()]
		b.slots = append(b.slots, len(*list))
		*list = append(*list, b)
	}
	if p.ClassID != 0 {
		if x.shared == nil {
			x.shared = map[bucketKey]*bucket{}
		}
		x.shared[key] = b
	}
	return b
}

// remove takes a pod out.
func (x *index) remove(p *Pod) {
	b, last := p.bucket, len(p.bucket.pods)-1
	b.pods[p.slot] = b.pods[last]
	b.pods[p.slot].slot = p.slot
	b.pods[last] = nil
	b.pods = b.pods[:last]
	p.bucket = nil
	if last == 0 {
		x.drop(b)
	}
}

// drop takes an empty bucket out of its lists: the last of each list takes its slot.
func (x *index) drop(b *bucket) {
	if b.classID != 0 {
		delete(x.shared, bucketKey{b.rejectors, b.classID})
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
}

// nth counts the bucket's plugins before the given one.
func (b *bucket) nth(plugin set) int { return (b.rejectors & (plugin - 1)).len() }

// helped appends the pods of the buckets that an event helps, judging one pod of each.
func (x *index) helped(interested set, into []*Pod, helps func(*Pod) bool) []*Pod {
	for s := interested; s != 0; s &= s - 1 {
		for _, b := range x.lists[s.index()] {
			// A bucket stands under each of its plugins: it is judged under the first.
			if first := b.rejectors & interested; first&-first == s&-s && helps(b.pods[0]) {
				into = append(into, b.pods...)
			}
		}
	}
	return into
}
