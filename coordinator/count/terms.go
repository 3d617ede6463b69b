package count

import (
	"encoding/binary"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/selector"
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

// Term is an affinity term that pods carry. While one of them counts for others, it is looked up by
// those that it may match; its counter tells which nodes hold pods that carry it. A term of a key that no
// node has has no counter, and is looked up by nobody.
type Term struct {
	Kind        TermKind
	TopologyKey string
	names       []string
	namespaces  *selector.Selector
	selector    *selector.Selector
	counter     *Counter // nil: no node has had the key
	spec        string
	// carried is how many Carried name the term; 0: it rests. gone: its counter was dropped, and never comes back.
	carried int
	gone    bool
	// among are the namespaces of pods that were placed before the counter came.
	among []string
}

// Counter is the counter's id.
func (t *Term) Counter() uint32 { return t.counter.id }

// value is what a pod adds.
func (t *Term) value(p *v1.Pod) int64 {
	n := int64(0)
	eachTerm(ReadAffinity(p), func(kind TermKind, a *AffinityTerm, weight int64) {
		if string(appendSpec(nil, kind, a)) == t.spec {
			n += weight
		}
	})
	return n
}

// within is empty where no pod was placed before the counter came: what counts for it brings it along.
func (t *Term) within() []string { return append([]string{}, t.among...) }

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

// termIndex finds the terms that match a pod.
type termIndex struct {
	named map[string]*termSpace
	// selecting are the terms with a namespaceSelector. It is held against a namespace's labels once the
	// rest of the term matches, so that no namespace has to be told of a term that comes or goes.
	selecting selector.Index[*Term]
	// changes counts those of selecting.
	changes   uint64
	live      int // terms that are looked up
	keptBytes int // of what all spaces keep
	matches   map[string]*Match
	matched   int // terms of matches
	lookAt    int // how many terms matches have when they are looked through for terms that are gone
	lastMatch uint64
	scratch   []byte
}

// termSpace is the terms that name a namespace, and what is known of its pods.
type termSpace struct {
	index selector.Index[*Term]
	kept  sights[*Match]
	// changes is that of selecting, labels are the namespace's, and version is that of all namespaces'
	// labels, for which kept holds.
	changes uint64
	labels  map[string]string
	version uint64
}

// keptMatched bounds the terms of the matches that are kept, of 8 bytes each in two lists.
const keptMatched = 1 << 20

// lookedAtMatched is how many terms matches may have in any case before they are looked through.
const lookedAtMatched = 1 << 12

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
	return termIndex{named: map[string]*termSpace{}, matches: map[string]*Match{}}
}

// add has a term looked up.
func (x *termIndex) add(t *Term) {
	x.live++
	for _, name := range t.names {
		s := x.space(name)
		s.index.Add(t.selector, t)
		s.kept.forget(&x.keptBytes)
	}
	if !t.namespaces.MatchesNothing() {
		x.selecting.Add(t.selector, t)
		x.changes++
	}
}

// remove has a term looked up no more.
func (x *termIndex) remove(t *Term) {
	x.live--
	for _, name := range t.names {
		s := x.named[name]
		s.index.Remove(t.selector, t)
		s.kept.forget(&x.keptBytes)
		if s.index.Len() == 0 {
			delete(x.named, name)
		}
	}
	if !t.namespaces.MatchesNothing() {
		x.selecting.Remove(t.selector, t)
		x.changes++
	}
	if x.live == 0 {
		clear(x.named) // spaces of namespaces that no term names
		x.keptBytes = 0
	}
}

func (x *termIndex) space(namespace string) *termSpace {
	s := x.named[namespace]
	if s == nil {
		s = &termSpace{}
		x.named[namespace] = s
	}
	return s
}

// Labels tells the labels of namespaces.
type Labels interface {
	// NamespaceLabels are those of one namespace, nil where it does not exist.
	NamespaceLabels(name string) map[string]string
	// NamespacesVersion moves when the labels of any namespace do.
	NamespacesVersion() uint64
}

// Matching gives the terms that match a pod, of the pods that count for others; nil: none does.
func (r *Registry) Matching(p *v1.Pod, of Labels) *Match {
	x := &r.terms
	s := x.named[p.Namespace]
	if s == nil {
		if x.selecting.Len() == 0 {
			return nil
		}
		s = x.space(p.Namespace)
	}
	x.renew(s, p.Namespace, of)
	x.scratch = s.index.Sight(p.Labels, x.scratch[:0])
	if x.selecting.Len() > 0 {
		x.scratch = x.selecting.Sight(p.Labels, x.scratch)
	}
	if m, ok := s.kept.bySight[string(x.scratch)]; ok {
		return m
	}
	key := string(x.scratch)
	m := x.match(s, p)
	x.keep(s, key, m)
	return m
}

// renew drops what is kept of a namespace's pods where the terms that select namespaces, or the
// namespace's labels are others.
func (x *termIndex) renew(s *termSpace, namespace string, of Labels) {
	if version := of.NamespacesVersion(); s.version != version {
		s.version = version
		if labels := of.NamespaceLabels(namespace); !maps.Equal(s.labels, labels) {
			s.labels = labels
			s.kept.forget(&x.keptBytes)
		}
	}
	if s.changes != x.changes {
		s.changes = x.changes
		s.kept.forget(&x.keptBytes)
	}
}

func (x *termIndex) keep(s *termSpace, sight string, m *Match) {
	if s.kept.keep(sight, m, 0, &x.keptBytes) {
		return
	}
	for name, other := range x.named {
		if other.kept.forget(&x.keptBytes); other != s && other.index.Len() == 0 {
			delete(x.named, name)
		}
	}
	s.kept.keep(sight, m, 0, &x.keptBytes)
}

// match asks the indexes.
func (x *termIndex) match(s *termSpace, p *v1.Pod) *Match {
	var list []*Term
	s.index.Matching(p.Labels, func(t *Term) { list = append(list, t) })
	x.selecting.Matching(p.Labels, func(t *Term) {
		if !t.isNamed(p.Namespace) && t.namespaces.Matches(s.labels) {
			list = append(list, t)
		}
	})
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
	if x.matched+len(list) > x.lookAt {
		x.dropGone()
	}
	if x.matched += len(list); x.matched > keptMatched {
		clear(x.matches)
		x.matched = len(list)
	}
	x.lastMatch++
	m := &Match{ID: x.lastMatch, Terms: list, Keys: keysOfTerms(list)}
	x.matches[string(key)] = m
	return m
}

// dropGone drops the matches that name a term that is gone: no pod matches such a list again. The next look is due once
// the terms of matches are twice as many, so that a look costs no more than the matches since the last one did.
func (x *termIndex) dropGone() {
	for key, m := range x.matches {
		if slices.ContainsFunc(m.Terms, func(t *Term) bool { return t.gone }) {
			x.matched -= len(m.Terms)
			delete(x.matches, key)
		}
	}
	x.lookAt = 2*x.matched + lookedAtMatched
}

// keysOfTerms are the topology keys of terms: sorted, each once.
func keysOfTerms(list []*Term) []string {
	var out []string
	for _, t := range list {
		out = append(out, t.TopologyKey)
	}
	slices.Sort(out)
	return slices.Clip(slices.Compact(out))
}
