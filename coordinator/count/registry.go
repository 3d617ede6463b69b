package count

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Registry is the counters in use.
type Registry struct {
	last     uint32
	counters map[uint32]*Counter
	bySpec   map[string]*Counter
	added    []*Counter
	dropped  []uint32
	sweeps   uint64
	// version moves where a counter goes. round is the version when Unused was asked last.
	version, round uint64

	pods    podIndex
	terms   termIndex
	carried carrying
	keyed   map[Key]*Counter
	spec    []byte // scratch
	// manyNames are the many namespaces that were asked for last, and manySum their SHA-256: the terms of a pod have the
	// same list.
	manyNames []string
	manySum   [sha256.Size]byte
}

// New makes an empty registry.
func New() *Registry {
	return &Registry{
		counters: map[uint32]*Counter{},
		bySpec:   map[string]*Counter{},
		pods:     newPodIndex(),
		terms:    newTermIndex(),
		carried:  newCarrying(),
		keyed:    map[Key]*Counter{},
	}
}

// Kinds of counters, the first byte of a spec.
const (
	specSpread   = 's'
	specPods     = 'p'
	specTerm     = 't'
	specKey      = 'k'
	specReserved = 'r'
)

// Spread is the counter of the pods of a namespace that match a selector and are not
// being deleted; 0 where the selector matches nothing. Where it is empty they count for nothing
// but in Departing: upstream skips an empty selector, but takes from what it has counted whoever
// leaves in a dry run of preemption.
func (r *Registry) Spread(namespace string, s *selector.Selector) uint32 {
	return r.selecting(specSpread, Namespaces{Names: []string{namespace}}, s)
}

// Pods is the counter of the pods of some namespaces that match a selector; 0 where
// there can be none.
func (r *Registry) Pods(within Namespaces, s *selector.Selector) uint32 {
	return r.selecting(specPods, within, s)
}

func (r *Registry) selecting(kind byte, within Namespaces, s *selector.Selector) uint32 {
	if s.MatchesNothing() || !within.All && len(within.Names) == 0 {
		return 0
	}
	r.spec = append(r.spec[:0], kind)
	if within.many() {
		r.spec = append(append(r.spec, '#'), r.sumOf(within)...)
	} else {
		r.spec = appendNamespaces(r.spec, within)
	}
	r.spec = append(r.spec, s.Text()...)
	if c := r.find(); c != nil {
		return c.id
	}
	c := r.add(&matched{among: within, selector: s, staying: kind == specSpread})
	r.file(c)
	return c.id
}

// sumOf stands for many namespaces: a spec names them by it, so that each counter does not have them all.
func (r *Registry) sumOf(n Namespaces) []byte {
	if len(r.manyNames) != len(n.Names) || &r.manyNames[0] != &n.Names[0] {
		r.manyNames, r.manySum = n.Names, sha256.Sum256(appendNamespaces(nil, n))
	}
	return r.manySum[:]
}

// appendNamespaces writes a set of namespaces; what follows can not be taken for a
// part of it.
func appendNamespaces(into []byte, n Namespaces) []byte {
	if n.All {
		return append(into, '*')
	}
	into = binary.AppendUvarint(append(into, '.'), uint64(len(n.Names)))
	for _, name := range n.Names {
		into = selector.AppendText(into, name)
	}
	return into
}

// Keyed is the counter of the pods that use what a key names.
func (r *Registry) Keyed(k Key) uint32 { return r.keyedBy(k, k) }

// KeyedIn is Keyed where so far only pods of some namespaces, sorted, use what the key names.
func (r *Registry) KeyedIn(k Key, namespaces []string) uint32 {
	return r.keyedBy(k, among{k, append([]string{}, namespaces...)})
}

func (r *Registry) keyedBy(k Key, what counted) uint32 {
	c := r.keyed[k]
	if c == nil {
		r.spec = k.append(append(r.spec[:0], specKey))
		c = r.add(what)
		r.keyed[k] = c
	}
	r.use(c)
	return c.id
}

// Reserve gives an id to a counter whose values the caller keeps himself. No pod adds to
// it, and it is never dropped.
func (r *Registry) Reserve(key string) uint32 {
	r.spec = append(append(r.spec[:0], specReserved), key...)
	if c := r.find(); c != nil {
		return c.id
	}
	c := r.add(reserved{})
	r.added = r.added[:len(r.added)-1] // nobody else is to fill it
	return c.id
}

// find looks up the counter that the spec in r.spec is of.
func (r *Registry) find() *Counter {
	c := r.bySpec[string(r.spec)]
	if c != nil {
		r.use(c)
	}
	return c
}

// add makes the counter that the spec in r.spec is of.
func (r *Registry) add(what counted) *Counter {
	r.last++
	c := &Counter{id: r.last, spec: string(r.spec), what: what, used: r.sweeps, asked: r.version}
	r.counters[c.id], r.bySpec[c.spec] = c, c
	r.added = append(r.added, c)
	return c
}

// Len tells how many counters there are.
func (r *Registry) Len() int { return len(r.counters) }

// TakeNew returns the counters that came since the last call and are still there: each is
// to be filled with what the pods that are known add to it.
func (r *Registry) TakeNew() []*Counter {
	list := slices.DeleteFunc(r.added, func(c *Counter) bool { return r.counters[c.id] != c })
	r.added = nil
	return list
}

// TakeDropped returns the counters that went since the last call.
func (r *Registry) TakeDropped() []uint32 {
	list := r.dropped
	r.dropped = nil
	return list
}

// Version stays for as long as no counter is looked for to go: whoever asks for counters has to tell so (Use)
// once it has moved.
func (r *Registry) Version() uint64 { return r.version }

// Use tells that counters are still asked for. It is false where one of them was dropped.
func (r *Registry) Use(ids []uint32) bool {
	for _, id := range ids {
		c := r.counters[id]
		if c == nil {
			return false
		}
		r.use(c)
	}
	return true
}

// use notes that a counter is asked for.
func (r *Registry) use(c *Counter) { c.used, c.asked = r.sweeps, r.version }

// Postpone has no pod add to a new counter, until Open: then all pods that are known are to be asked.
func (r *Registry) Postpone(id uint32) {
	if c := r.counters[id]; c != nil && !c.postponed {
		c.postponed = true
		r.unfile(c)
	}
}

// Open ends a Postpone; false where the counter is gone.
func (r *Registry) Open(id uint32) bool {
	c := r.counters[id]
	if c == nil {
		return false
	}
	if c.postponed {
		c.postponed = false
		r.file(c)
	}
	return true
}

// Forget drops a counter that was postponed and not opened: no column has to go. It is false where the counter
// was opened.
func (r *Registry) Forget(id uint32) bool {
	c := r.counters[id]
	if c == nil {
		return true
	}
	if c.postponed {
		r.drop(c)
		r.dropped = r.dropped[:len(r.dropped)-1]
	}
	return c.postponed
}

// Unused are the counters of pods that match a selector that no class has asked for since Unused was called
// before; Drop takes them out.
func (r *Registry) Unused() (ids []uint32) {
	for id, c := range r.counters {
		if _, ok := c.what.(*matched); ok && !c.postponed && c.asked < r.round {
			ids = append(ids, id)
		}
	}
	r.version++
	r.round = r.version
	slices.Sort(ids)
	return ids
}

// Drop drops counters, to be taken by TakeDropped.
func (r *Registry) Drop(ids []uint32) {
	for _, id := range ids {
		if c := r.counters[id]; c != nil {
			r.drop(c)
		}
	}
}

// patience is how many sweeps a counter is kept that nobody asks for.
const patience = 8

// Sweep drops the counters that no class has asked for, the last few sweeps long, but for terms that a
// pod carries.
func (r *Registry) Sweep() {
	r.sweeps++
	r.version++ // classes are to tell anew what they ask for
	var old []*Counter
	for _, c := range r.counters {
		if !c.stays() && c.used+patience < r.sweeps {
			old = append(old, c)
		}
	}
	slices.SortFunc(old, func(a, b *Counter) int { return int(a.id) - int(b.id) })
	for _, c := range old {
		r.drop(c)
	}
}

// stays tells that a counter is there whether anybody asks for it or not.
func (c *Counter) stays() bool {
	switch what := c.what.(type) {
	case reserved:
		return true
	case *Term:
		return what.carried > 0
	}
	return false
}

func (r *Registry) drop(c *Counter) {
	r.version++
	delete(r.counters, c.id)
	delete(r.bySpec, c.spec)
	r.dropped = append(r.dropped, c.id)
	switch what := c.what.(type) {
	case *matched:
		if !c.postponed {
			r.unfile(c)
		}
	case *Term:
		delete(r.carried.terms, what.spec)
		// Matches that name the term are kept until they are looked through.
		*what = Term{Kind: what.Kind, TopologyKey: what.TopologyKey, counter: c, gone: true}
		c.spec = ""
	case Key:
		delete(r.keyed, what)
	case among:
		delete(r.keyed, what.Key)
	}
}

// file has pods that match a selector found to add to a counter, unfile has not. What adds to a key's is found
// by the key.
func (r *Registry) file(c *Counter) {
	if m, ok := c.what.(*matched); ok {
		r.pods.add(c, m)
	}
}

func (r *Registry) unfile(c *Counter) {
	if m, ok := c.what.(*matched); ok {
		r.pods.remove(c, m)
	}
}

// Contributions is what a pod adds to counters: sorted by counter, none of the values 0.
// The list is shared: nobody writes to it. Of the pod's terms those count that somebody carries who says
// the same.
func (r *Registry) Contributions(p *v1.Pod) []*pb.CounterValue {
	return r.merge(r.pods.of(p), r.carriedBy(p), r.keysOf(p))
}
