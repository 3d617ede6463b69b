package queue

import (
	"math/bits"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// topic is something that a hint depends on: a bucket stands under those of its pods, and an event is held
// against the buckets that stand under one of its own. Whoever files a pod leaves out none that an event
// which helps it has; one too many costs a question.
type topic struct {
	of                    subject
	namespace, key, value string
	size                  int
}

// subject is what a hint looks at.
type subject uint8

const (
	// anyAffinity is every event of InterPodAffinity; wantedPods and hatedPods are labels of pods that
	// terms look at, and ownLabels those by which a pod that is gone may have kept others away;
	// wantedDomains and hatedDomains are topology keys.
	anyAffinity subject = iota + 1
	wantedPods
	hatedPods
	ownLabels
	wantedDomains
	hatedDomains
	// spreadPods are labels of pods that constraints look at, spreadDomains topology keys.
	spreadPods
	spreadDomains
	// hostPorts are ports by their numbers.
	hostPorts
	// namedClaims are claims by their names.
	namedClaims
	// resourceClaims are ResourceClaims by their names.
	resourceClaims
	// longPods is every event.
	longPods
	// largest is the resource of which most is asked, as a power of 2 that it is below.
	largest
)

const (
	// manyTopics is under how many topics of a kind a pod stands at the most: else under the one
	// for all of the kind.
	manyTopics = 64
	// anywhere is the namespace of terms that look at all of them; no namespace has its name.
	anywhere = "*"
)

// selected are the topics of the pods of a namespace that a selector can match.
func selected(of subject, namespace string, s labels.Selector) []topic {
	all := topic{of: of, namespace: namespace}
	requirements, selectable := s.Requirements()
	if !selectable {
		return nil
	}
	out := []topic{all}
	for i := range requirements {
		switch r := &requirements[i]; r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			values := r.ValuesUnsorted()
			if len(values) > manyTopics {
				out = []topic{{of: of, namespace: namespace, key: r.Key()}}
				continue
			}
			out = out[:0]
			for _, v := range values {
				out = append(out, topic{of: of, namespace: namespace, key: r.Key(), value: "=" + v})
			}
			return out
		case selection.Exists:
			out = []topic{{of: of, namespace: namespace, key: r.Key()}}
		}
	}
	return out
}

// ofPod are the topics of a pod of a namespace by its labels: all under which selected puts selectors that
// match it.
func ofPod(into []topic, of subject, namespace string, set map[string]string) []topic {
	into = append(into, topic{of: of, namespace: namespace})
	for k, v := range set {
		into = append(into, topic{of: of, namespace: namespace, key: k}, topic{of: of, namespace: namespace, key: k, value: "=" + v})
	}
	return into
}

// atMost leaves topics as they are, or gives the one that stands for all of them where they are many.
func atMost(list []topic, all topic) []topic {
	if len(list) > manyTopics {
		return []topic{all}
	}
	return list
}

// sizes are what of a resource is counted in, so that amounts of several can be compared.
var sizes = [...]struct {
	key  string
	get  amount
	unit int64
}{
	{"cpu", (*pb.Resources).GetMilliCpu, 1},
	{"memory", (*pb.Resources).GetMemoryBytes, 1 << 22},
	{"ephemeral-storage", (*pb.Resources).GetEphemeralStorageBytes, 1 << 24},
}

// asksMost is the topic of the largest amount that a pod asks for: a node that has less of it is none for it.
func asksMost(p *Pod) []topic {
	want, most, at := p.uses().GetRequests(), int64(-1), 0
	for i, s := range sizes {
		if n := s.get(want) / s.unit; n > most {
			most, at = n, i
		}
	}
	return []topic{{of: largest, key: sizes[at].key, size: bits.Len64(uint64(max(sizes[at].get(want), 0)))}}
}

// upTo appends the topics of pods that ask for no more than there is.
func upTo(there *pb.Resources, out []topic) []topic {
	for _, s := range sizes {
		for n := range bits.Len64(uint64(max(s.get(there), 0))) + 1 {
			out = append(out, topic{of: largest, key: s.key, size: n})
		}
	}
	return out
}

// nodeTouches are the pods that a node would have room for if it were empty.
func nodeTouches(e *Event) ([]topic, bool) { return upTo(e.nodeRow().GetAllocatable(), nil), true }

// roomTouches are the pods that may have room on the node that a pod has left. One that asks for more than
// the node has is not helped, whoever leaves.
//
// Differs from upstream: it tries that one again too, as it looks at what a node has only where nodes change.
func roomTouches(profiles Profiles) func(*Event) ([]topic, bool) {
	var scratch []topic // of the event that came last: each pod that is gone is one
	return func(e *Event) ([]topic, bool) {
		node := e.nodeName()
		if node == "" || profiles == nil {
			return nil, false
		}
		there, known := profiles.Allocatable(node)
		scratch = upTo(there, scratch[:0])
		return scratch, known
	}
}

// portTopics are the host ports that a pod wants.
func portTopics(p *Pod) (out []topic) {
	for _, want := range p.uses().GetHostPorts() {
		out = append(out, topic{of: hostPorts, size: int(want.GetPort())})
	}
	return atMost(out, topic{of: hostPorts})
}

// portTouches are those that the pod that is gone held.
func portTouches(e *Event) ([]topic, bool) {
	out := []topic{{of: hostPorts}}
	for _, held := range e.oldPodUsage().GetHostPorts() {
		out = append(out, topic{of: hostPorts, size: int(held.GetPort())})
	}
	return out, true
}

// filing is a place of a bucket under a topic: its index in the list of index.topics.
type filing struct {
	topic topic
	slot  int
}

// place is a bucket in the list of a topic, with the index of its filing.
type place struct {
	bucket *bucket
	at     int
}

// file puts a bucket under a topic, once.
func (x *index) file(b *bucket, t topic) {
	list := x.topics[t]
	if n := len(list); n > 0 && list[n-1].bucket == b {
		return
	}
	if x.topics == nil {
		x.topics = map[topic][]place{}
	}
	x.topics[t] = append(list, place{b, len(b.filed)})
	b.filed = append(b.filed, filing{t, len(list)})
}

// unfile takes a bucket from under all topics: the last of each list takes its slot.
func (x *index) unfile(b *bucket) {
	for _, f := range b.filed {
		list := x.topics[f.topic]
		n := len(list) - 1
		last := list[n]
		list[f.slot], list[n] = last, place{}
		last.bucket.filed[last.at].slot = f.slot
		if n == 0 {
			delete(x.topics, f.topic)
		} else {
			x.topics[f.topic] = list[:n]
		}
	}
	b.filed = nil
}

// candidates calls f for each bucket that an event may help, as far as topics tell; for some more than once.
func (x *index) candidates(r *rules, plugins set, e *Event, f func(*bucket)) {
	for s := plugins; s != 0; s &= s - 1 {
		if len(x.lists[s.index()]) == 0 {
			continue // nobody asks, and each pod that is placed is an event
		}
		if list, told := r.touched(s&-s, e); told {
			for _, t := range list {
				for _, at := range x.topics[t] {
					f(at.bucket)
				}
			}
			continue
		}
		for _, b := range x.lists[s.index()] {
			f(b)
		}
	}
}

// touched are the topics that an event has for a plugin; false: all of its buckets are to be asked.
func (r *rules) touched(plugin set, e *Event) ([]topic, bool) {
	for _, h := range r.hooks[e.resource][e.action.index()] {
		if h.plugin == plugin && h.Touches != nil {
			return r.asksTouches(&h, e)
		}
	}
	return nil, false
}

// topics are those of a pod that plugins rejected, with its claims where one of these waits for claims; false: they
// can not be told.
func (r *rules) topics(rejectors set, p *Pod) (out []topic, told bool) {
	if p.isLong() {
		return []topic{{of: longPods}}, true
	}
	if rejectors&r.claims != 0 {
		out = claimTopics(p)
	}
	for s := rejectors &^ unknown; s != 0; s &= s - 1 {
		for i := range r.plugins[s.index()].Events {
			plugin := &r.plugins[s.index()]
			if plugin.Events[i].Topics == nil {
				continue
			}
			list, told := r.asksTopics(plugin, &plugin.Events[i], p)
			if !told {
				return nil, false
			}
			out = append(out, list...)
		}
	}
	return out, true
}
