package count

import (
	"cmp"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Carried is the affinity terms that equal pods of one namespace carry. It exists as
// long as one of these pods counts for others: the pod is on a node (seen or assumed), nominated, or in the batch that
// is decided. Whoever counts pods keeps it from Carry until Release.
type Carried struct {
	key       string // by AppendAffinity
	namespace string
	pods      int
	terms     []share
	answer    *answer // what each of the pods adds to counters; nil: nothing
	// read is what the pods say, until the first Release: one that was made known is compiled next. nil: it was
	// not CarryFew that has brought it.
	read *Affinity
}

// share is what a pod adds to a term.
type share struct {
	term   *Term
	weight int64
}

// carrying is the terms that pods carry.
type carrying struct {
	byKey map[string]*Carried
	terms map[string]*Term // by what they say
	// has tells whether any node has a label key. waiting are the terms whose key none has had, by key.
	has     func(key string) bool
	waiting map[string]map[*Term]struct{}
	// resting are terms with a counter that were carried once, the oldest first; such as have come back
	// among them. They keep their counters for a while, so that a pod that is tried again and again is of
	// the same class to others, and they to it.
	resting      []resting
	restingBytes int
	scratch      []byte
}

// resting is a term that was carried once, and about what it takes.
type resting struct {
	term  *Term
	bytes int
}

// maxResting bounds the bytes of resting terms: some ten thousand of them, or fifty with thousands of
// values each.
const maxResting = 4 << 20

func newCarrying() carrying {
	return carrying{
		byKey: map[string]*Carried{}, terms: map[string]*Term{}, waiting: map[string]map[*Term]struct{}{},
		has: func(string) bool { return true },
	}
}

// UseTopologies tells which label keys nodes have. It is called before any pod is put in; without it
// nodes have all.
func (r *Registry) UseTopologies(has func(key string) bool) { r.carried.has = has }

// Carry has the terms of a pod count for others, until what it returns is released; nil: the pod has no
// terms.
func (r *Registry) Carry(p *v1.Pod) *Carried {
	c, _, _ := r.CarryFew(p, math.MaxInt)
	if c != nil {
		c.read = nil
	}
	return c
}

// CarryFew is Carry where the pod brings no more than some terms that nobody carries and some node has
// the key of; false where it may bring more. It tells how many it may have brought.
func (r *Registry) CarryFew(p *v1.Pod, most int) (c *Carried, brings int, few bool) {
	if !HasAffinity(p) {
		return nil, 0, true
	}
	x := &r.carried
	x.scratch = AppendAffinity(x.scratch[:0], p)
	if c := x.byKey[string(x.scratch)]; c != nil {
		c.pods++
		return c, 0, true
	}
	for _, list := range affinityLists(p) {
		for i := range list {
			if x.has(list[i].PodAffinityTerm.TopologyKey) {
				brings++
			}
		}
	}
	if brings > most {
		return nil, brings, false
	}
	return r.carry(p, string(x.scratch)), brings, true
}

// ReadAffinity is the package's ReadAffinity, which does not read anew what CarryFew has read.
func (r *Registry) ReadAffinity(p *v1.Pod) *Affinity {
	x := &r.carried
	x.scratch = AppendAffinity(x.scratch[:0], p)
	if c := x.byKey[string(x.scratch)]; c != nil && c.read != nil {
		return c.read
	}
	return ReadAffinity(p)
}

// carry makes what a pod carries that no other does.
func (r *Registry) carry(p *v1.Pod, key string) *Carried {
	c := &Carried{key: key, namespace: p.Namespace, pods: 1, read: ReadAffinity(p)}
	at := map[*Term]int{}
	eachTerm(c.read, func(kind TermKind, a *AffinityTerm, weight int64) {
		if weight == 0 || a.TopologyKey == "" || a.Selector.MatchesNothing() {
			return
		}
		t := r.term(kind, a)
		i, again := at[t]
		if !again {
			i = len(c.terms)
			at[t] = i
			c.terms = append(c.terms, share{term: t})
		}
		c.terms[i].weight += weight
	})
	for _, s := range c.terms {
		r.enter(s.term)
	}
	c.answer = c.add()
	r.carried.byKey[key] = c
	return c
}

// Release takes back a Carry. nil is a pod without terms.
func (r *Registry) Release(c *Carried) {
	if c == nil {
		return
	}
	c.read = nil
	if c.pods--; c.pods > 0 {
		return
	}
	delete(r.carried.byKey, c.key)
	for _, s := range c.terms {
		r.leave(s.term)
	}
}

// add is what each pod adds to counters; nil: nothing.
func (c *Carried) add() *answer {
	list := make([]*pb.CounterValue, 0, len(c.terms))
	for _, s := range c.terms {
		if s.term.counter != nil {
			list = append(list, &pb.CounterValue{Counter: s.term.counter.id, Value: s.weight})
		}
	}
	if list = sum(list); len(list) == 0 {
		return nil
	}
	return &answer{list}
}

// AddsTo tells whether each pod adds to any of some counters of terms.
func (c *Carried) AddsTo(ids []uint32) bool {
	return c.answer != nil && slices.ContainsFunc(c.answer.list, func(v *pb.CounterValue) bool { return slices.Contains(ids, v.Counter) })
}

// carriedBy is what a pod adds to terms; nil: nothing.
func (r *Registry) carriedBy(p *v1.Pod) *answer {
	if !HasAffinity(p) {
		return nil
	}
	x := &r.carried
	x.scratch = AppendAffinity(x.scratch[:0], p)
	if c := x.byKey[string(x.scratch)]; c != nil {
		return c.answer
	}
	return nil
}

// term is the term that says something.
func (r *Registry) term(kind TermKind, a *AffinityTerm) *Term {
	r.spec = appendSpec(r.spec[:0], kind, a)
	t := r.carried.terms[string(r.spec)]
	if t == nil {
		t = &Term{Kind: kind, TopologyKey: a.TopologyKey, names: a.Names, namespaces: a.Namespaces, selector: a.Selector,
			spec: string(r.spec)}
		r.carried.terms[t.spec] = t
	}
	return t
}

// enter counts one more that carries a term.
func (r *Registry) enter(t *Term) {
	if t.carried++; t.carried > 1 {
		return
	}
	if t.counter == nil && !r.carried.has(t.TopologyKey) {
		wait := r.carried.waiting[t.TopologyKey]
		if wait == nil {
			wait = map[*Term]struct{}{}
			r.carried.waiting[t.TopologyKey] = wait
		}
		wait[t] = struct{}{}
		return
	}
	if t.counter == nil {
		r.countTerm(t)
		r.added = r.added[:len(r.added)-1] // nobody has carried it before
	}
	r.terms.add(t)
}

// countTerm gives a term a counter, which is to be filled.
func (r *Registry) countTerm(t *Term) {
	r.spec = append(r.spec[:0], t.spec...)
	t.counter = r.add(t)
	t.spec = t.counter.spec // one copy
}

// leave counts one less. The last one takes the term out of all that is looked up.
func (r *Registry) leave(t *Term) {
	x := &r.carried
	if t.carried--; t.carried > 0 {
		return
	}
	if t.counter == nil {
		delete(x.terms, t.spec)
		if delete(x.waiting[t.TopologyKey], t); len(x.waiting[t.TopologyKey]) == 0 {
			delete(x.waiting, t.TopologyKey)
		}
		return
	}
	r.terms.remove(t)
	t.counter.used = r.sweeps
	bytes := 256 + len(t.spec) + t.namespaces.MemoryBytes() + t.selector.MemoryBytes()
	x.resting = append(x.resting, resting{t, bytes})
	for x.restingBytes += bytes; x.restingBytes > maxResting; {
		oldest := x.resting[0]
		x.resting = x.resting[1:]
		x.restingBytes -= oldest.bytes
		if oldest.term.carried == 0 && !oldest.term.gone {
			r.drop(oldest.term.counter)
		}
	}
}

// Appeared tells that a node has got a label key that none had: the terms that have waited for it get
// counters, to be filled with the pods that are known.
func (r *Registry) Appeared(key string) {
	wait := r.carried.waiting[key]
	if len(wait) == 0 {
		return
	}
	delete(r.carried.waiting, key)
	list := make([]*Term, 0, len(wait))
	for t := range wait {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *Term) int { return cmp.Compare(a.spec, b.spec) }) // counters in the same order in each run
	for _, t := range list {
		r.countTerm(t)
		r.terms.add(t)
	}
	for _, c := range r.carried.byKey {
		changed := false
		for _, s := range c.terms {
			if _, waited := wait[s.term]; waited {
				changed = true
				if !slices.Contains(s.term.among, c.namespace) {
					s.term.among = append(s.term.among, c.namespace)
				}
			}
		}
		if changed {
			c.answer = c.add()
		}
	}
	for _, t := range list {
		slices.Sort(t.among)
	}
}
