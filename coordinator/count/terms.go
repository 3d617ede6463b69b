package count

import (
	"encoding/binary"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TermKind is what a pod's affinity term is for.
type TermKind byte

// The kinds of terms.
const (
	RequiredAffinity TermKind = iota + 1
	RequiredAntiAffinity
	// Preferred terms are counted with their weights, those of anti-affinity below zero.
	Preferred
)

// Term is a counter of the pods that carry an affinity term.
type Term struct {
	Kind        TermKind
	TopologyKey string
	names       []string
	namespaces  *selector.Selector
	selector    *selector.Selector
	counter     *Counter
	spec        string
}

// Counter is the counter's id.
func (t *Term) Counter() uint32 { return t.counter.id }

// value is what a pod adds. Every pod is observed before it is put in, so nobody has to
// ask: this is for tests.
func (t *Term) value(p *v1.Pod) int64 {
	n := int64(0)
	eachTerm(ReadAffinity(p), func(kind TermKind, a *AffinityTerm, weight int64) {
		if string(appendSpec(nil, kind, a)) == t.spec {
			n += weight
		}
	})
	return n
}

func (t *Term) within() []string { return []string{} }

// isNamed tells whether the term names a namespace.
func (t *Term) isNamed(namespace string) bool {
	_, found := slices.BinarySearch(t.names, namespace)
	return found
}

// eachTerm calls f for each term with what it counts for.
func eachTerm(a *Affinity, f func(kind TermKind, t *AffinityTerm, weight int64)) {
	for i := range a.Required {
		f(RequiredAffinity, &a.Required[i], 1)
	}
	for i := range a.Anti {
		f(RequiredAntiAffinity, &a.Anti[i], 1)
	}
	for i := range a.Preferred {
		f(Preferred, &a.Preferred[i], a.Preferred[i].Weight)
	}
}

// appendSpec writes what a term says.
func appendSpec(into []byte, kind TermKind, t *AffinityTerm) []byte {
	into = selector.AppendText(append(into, specTerm, byte(kind)), t.TopologyKey)
	into = appendNamespaces(into, Namespaces{Names: t.Names})
	into = selector.AppendText(into, t.Namespaces.Text())
	return append(into, t.Selector.Text()...)
}

// termIndex knows the terms that pods carry.
type termIndex struct {
	// carried is what pods add to terms, by AppendAffinity.
	carried      map[string]*answer
	carriedBytes int
	spaces       map[string]*termSpace
	// selecting are the terms with a namespaceSelector; a namespace takes over those that
	// are behind its mark.
	selecting []*Term
	matches   map[string]*Match
	lastMatch uint64
	scratch   []byte
}

// termSpace is the terms that look at pods of one namespace.
type termSpace struct {
	index  selector.Index[*Term]
	kept   map[string]*Match
	mark   int
	labels map[string]string // of the namespace
	// version is that of the namespaces when labels were taken.
	version uint64
}

// Match is the terms of other pods that match a pod.
type Match struct {
	// ID is the same for equal lists, and never given to another; 0: an empty list.
	ID uint64
	// Terms are in the order of their counters.
	Terms []*Term
	// Keys are their topology keys: sorted, each once.
	Keys []string
	// Shape is what the nodes make of Keys.
	Shape Shape
}

// Shape is what the nodes make of some topology keys, at a version of the nodes' labels; 0: it was not
// asked yet. Whoever asks keeps it here.
type Shape struct {
	Version uint64
	Bytes   []byte
}

func newTermIndex() termIndex {
	return termIndex{carried: map[string]*answer{}, spaces: map[string]*termSpace{}, matches: map[string]*Match{}}
}

// keptAffinities and keptAffinityBytes bound the affinities whose contributions are kept.
const (
	keptAffinities    = 65536
	keptAffinityBytes = 32 << 20
)

// Observe makes counters of the terms that a pod carries, so that it is told of by
// Matching before it is placed anywhere.
func (r *Registry) Observe(p *v1.Pod) { r.carriedBy(p) }

// carriedBy is what a pod adds to terms; nil: nothing.
func (r *Registry) carriedBy(p *v1.Pod) *answer {
	if !HasAffinity(p) {
		return nil
	}
	x := &r.terms
	x.scratch = AppendAffinity(x.scratch[:0], p)
	if a, ok := x.carried[string(x.scratch)]; ok {
		return a
	}
	key := string(x.scratch)
	var list []*pb.CounterValue
	eachTerm(ReadAffinity(p), func(kind TermKind, t *AffinityTerm, weight int64) {
		if weight != 0 && t.TopologyKey != "" && !t.Selector.MatchesNothing() {
			list = append(list, &pb.CounterValue{Counter: r.term(kind, t).id, Value: weight})
		}
	})
	var a *answer
	if list = sum(list); len(list) > 0 {
		a = &answer{list}
	}
	const fixed, perTerm = 128, 48
	bytes := fixed + len(key) + perTerm*len(list)
	if len(x.carried) >= keptAffinities || x.carriedBytes+bytes > keptAffinityBytes {
		clear(x.carried)
		x.carriedBytes = 0
	}
	x.carried[key] = a
	x.carriedBytes += bytes
	return a
}

// term is the counter of a term.
func (r *Registry) term(kind TermKind, a *AffinityTerm) *Counter {
	r.spec = appendSpec(r.spec[:0], kind, a)
	if c := r.find(); c != nil {
		return c
	}
	t := &Term{Kind: kind, TopologyKey: a.TopologyKey, names: a.Names, namespaces: a.Namespaces, selector: a.Selector}
	c := r.add(t)
	t.counter, t.spec = c, c.spec
	// Whoever carries the term was observed: nobody did before.
	r.added = r.added[:len(r.added)-1]
	r.terms.add(t)
	return c
}

func (x *termIndex) add(t *Term) {
	for _, name := range t.names {
		s := x.space(name)
		s.index.Add(t.selector, t)
		clear(s.kept)
	}
	if !t.namespaces.MatchesNothing() {
		x.selecting = append(x.selecting, t)
	}
}

func (x *termIndex) space(namespace string) *termSpace {
	s := x.spaces[namespace]
	if s == nil {
		s = &termSpace{kept: map[string]*Match{}}
		x.spaces[namespace] = s
	}
	return s
}

func (x *termIndex) remove(t *Term) {
	clear(x.carried)
	x.carriedBytes = 0
	clear(x.matches)
	if t.namespaces.MatchesNothing() {
		for _, name := range t.names {
			x.leave(name, t)
		}
		return
	}
	at := slices.Index(x.selecting, t)
	x.selecting = slices.Delete(x.selecting, at, at+1)
	for name, s := range x.spaces {
		x.leave(name, t)
		if s.mark > at {
			s.mark--
		}
	}
}

// leave takes a term out of a namespace, and the namespace out where it was the last.
func (x *termIndex) leave(namespace string, t *Term) {
	s := x.spaces[namespace]
	s.index.Remove(t.selector, t)
	clear(s.kept)
	if s.index.Len() == 0 {
		delete(x.spaces, namespace)
	}
}

// Labels tells the labels of namespaces.
type Labels interface {
	// NamespaceLabels are those of one namespace, nil where it does not exist.
	NamespaceLabels(name string) map[string]string
	// NamespacesVersion moves when the labels of any namespace do.
	NamespacesVersion() uint64
}

// Matching gives the terms of observed pods that match a pod; nil: none does.
func (r *Registry) Matching(p *v1.Pod, of Labels) *Match {
	x := &r.terms
	if len(x.spaces)+len(x.selecting) == 0 {
		return nil
	}
	s := x.spaces[p.Namespace]
	if s == nil {
		if len(x.selecting) == 0 {
			return nil
		}
		s = x.space(p.Namespace)
	}
	if version := of.NamespacesVersion(); s.version != version || s.mark < len(x.selecting) {
		x.join(s, p.Namespace, of.NamespaceLabels(p.Namespace), version)
	}
	if s.index.Len() == 0 {
		return nil
	}
	x.scratch = s.index.Sight(p.Labels, x.scratch[:0])
	if m, ok := s.kept[string(x.scratch)]; ok {
		return m
	}
	if len(s.kept) >= keptAnswers {
		clear(s.kept)
	}
	key := string(x.scratch)
	m := x.match(s, p.Labels)
	s.kept[key] = m
	return m
}

// join takes over the terms whose namespaceSelector matches a namespace.
func (x *termIndex) join(s *termSpace, namespace string, labels map[string]string, version uint64) {
	if s.version != version && !maps.Equal(s.labels, labels) {
		for _, t := range x.selecting[:s.mark] {
			if !t.isNamed(namespace) {
				s.index.Remove(t.selector, t)
			}
		}
		s.mark = 0
		clear(s.kept)
	}
	s.version, s.labels = version, labels
	for _, t := range x.selecting[s.mark:] {
		if !t.isNamed(namespace) && t.namespaces.Matches(labels) {
			s.index.Add(t.selector, t)
			clear(s.kept)
		}
	}
	s.mark = len(x.selecting)
}

// match asks the index.
func (x *termIndex) match(s *termSpace, labels map[string]string) *Match {
	var list []*Term
	s.index.Matching(labels, func(t *Term) { list = append(list, t) })
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b *Term) int { return int(a.counter.id) - int(b.counter.id) })
	var key []byte
	for _, t := range list {
		key = binary.AppendUvarint(key, uint64(t.counter.id))
	}
	if m := x.matches[string(key)]; m != nil {
		return m
	}
	if len(x.matches) >= keptUnions {
		clear(x.matches)
	}
	x.lastMatch++
	m := &Match{ID: x.lastMatch, Terms: list}
	for _, t := range list {
		m.Keys = append(m.Keys, t.TopologyKey)
	}
	slices.Sort(m.Keys)
	m.Keys = slices.Clip(slices.Compact(m.Keys))
	x.matches[string(key)] = m
	return m
}
