package selector

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Selector is a label selector in canonical form. It is immutable.
type Selector struct {
	text         string
	nothing      bool
	requirements []requirement // sorted by key and text, each once
	demands      int           // how many of them want a label to be there
}

// operator is how a requirement looks at its label.
type operator byte

const (
	in           operator = '='
	notIn        operator = '~'
	exists       operator = '+'
	doesNotExist operator = '-'
)

// requirement is one condition on one label.
type requirement struct {
	text   string
	key    string
	op     operator
	values []string // sorted, each once
}

// New is upstream's reading of a label selector: nil matches nothing, an empty one
// everything. The error is apimachinery's.
func New(s *metav1.LabelSelector) (*Selector, error) {
	if list, valid := read(s); valid {
		return of(list), nil
	}
	return parse(s)
}

// parse has apimachinery read a selector: it knows what is wrong with one.
func parse(s *metav1.LabelSelector) (*Selector, error) {
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, err
	}
	list, selectable := parsed.Requirements()
	if !selectable {
		return Nothing(), nil
	}
	out := make([]requirement, 0, len(list))
	for i := range list {
		out = append(out, translate(&list[i]))
	}
	return of(out), nil
}

// Nothing matches no labels.
func Nothing() *Selector { return &Selector{text: "!", nothing: true} }

// Equal demands each label of a map with its value. An empty map matches everything.
func Equal(m map[string]string) *Selector {
	out := make([]requirement, 0, len(m))
	for k, v := range m {
		out = append(out, newRequirement(k, in, []string{v}))
	}
	return of(out)
}

// Demand is a label that a selector wants with one of some values.
type Demand struct {
	Key    string
	Values []string
}

// Demands are the labels that must be there with one of some values.
func (s *Selector) Demands() (out []Demand) {
	for i := range s.requirements {
		if r := &s.requirements[i]; r.op == in {
			out = append(out, Demand{r.key, r.values})
		}
	}
	return out
}

// And matches where both do.
func (s *Selector) And(other *Selector) *Selector {
	switch {
	case s.nothing || other.Empty():
		return s
	case other.nothing || s.Empty():
		return other
	}
	return of(slices.Concat(s.requirements, other.requirements))
}

// of makes a selector of requirements, whose order it changes.
func of(list []requirement) *Selector {
	slices.SortFunc(list, func(a, b requirement) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.text, b.text))
	})
	list = slices.CompactFunc(list, func(a, b requirement) bool { return a.text == b.text })
	demands := 0
	for i := range list {
		if list[i].demands() {
			demands++
		}
	}
	if len(list) == 1 {
		return &Selector{list[0].text, false, list, demands} // no second copy of a long text
	}
	var b strings.Builder
	for i := range list {
		b.WriteString(list[i].text)
	}
	return &Selector{b.String(), false, list, demands}
}

// demands tells whether a label has to be there.
func (r *requirement) demands() bool { return r.op == in || r.op == exists }

// translate takes over a requirement as metav1.LabelSelectorAsSelector makes them: it
// knows no operators but these.
func translate(r *labels.Requirement) requirement {
	switch r.Operator() {
	case selection.NotIn, selection.NotEquals:
		return newRequirement(r.Key(), notIn, r.ValuesUnsorted())
	case selection.Exists:
		return newRequirement(r.Key(), exists, nil)
	case selection.DoesNotExist:
		return newRequirement(r.Key(), doesNotExist, nil)
	}
	return newRequirement(r.Key(), in, r.ValuesUnsorted())
}

// longText is from how many bytes on a text is told by its SHA-256: what is found by the text keeps it.
const longText = 512

// newRequirement sorts the values in place. The text is unambiguous: each part has its
// length before it, and a digest follows a mark that no length begins with.
func newRequirement(key string, op operator, values []string) requirement {
	slices.Sort(values)
	values = slices.Compact(values)
	text := strconv.AppendInt(nil, int64(len(key)), 10)
	text = append(append(append(text, ':'), key...), byte(op))
	for _, v := range values {
		text = strconv.AppendInt(text, int64(len(v)), 10)
		text = append(append(text, ':'), v...)
	}
	if len(text) >= longText {
		sum := sha256.Sum256(text)
		text = append(append(text[:0], '#'), sum[:]...)
	}
	return requirement{text: string(append(text, ';')), key: key, op: op, values: values}
}

// Text names the selector: equal texts, equal selectors. It is empty where everything
// matches.
func (s *Selector) Text() string { return s.text }

// MemoryBytes is about what the selector takes, with its values.
func (s *Selector) MemoryBytes() int {
	n := len(s.text)
	for i := range s.requirements {
		r := &s.requirements[i]
		n += 128 + len(r.key)
		for _, v := range r.values {
			n += 16 + len(v)
		}
	}
	return n
}

// Empty tells whether everything matches.
func (s *Selector) Empty() bool { return !s.nothing && len(s.requirements) == 0 }

// MatchesNothing tells whether the selector is Nothing.
func (s *Selector) MatchesNothing() bool { return s.nothing }

// Matches tells whether labels match.
func (s *Selector) Matches(labels map[string]string) bool {
	matches, _ := s.look(labels)
	return matches
}

// look is Matches, and tells at how many requirements it has looked.
func (s *Selector) look(labels map[string]string) (matches bool, looks int) {
	if s.nothing {
		return false, 1
	}
	if !s.long(labels) {
		for i := range s.requirements {
			if !s.requirements[i].matches(labels) {
				return false, i + 1
			}
		}
		return true, len(s.requirements)
	}
	met := 0
	for k := range labels {
		list := s.on(k)
		looks += 1 + len(list)
		for i := range list {
			if !list[i].matches(labels) {
				return false, looks
			}
			if list[i].demands() {
				met++
			}
		}
	}
	return met == s.demands, looks
}

// longPerLabel is from how many requirements for each label on it is faster to search for those on the labels' keys
// than to look at all.
const longPerLabel = 16

func (s *Selector) long(labels map[string]string) bool {
	return len(s.requirements) > longPerLabel*len(labels)
}

// on are the requirements on a key.
func (s *Selector) on(key string) []requirement {
	from, _ := slices.BinarySearchFunc(s.requirements, key, func(r requirement, key string) int { return strings.Compare(r.key, key) })
	to := from
	for to < len(s.requirements) && s.requirements[to].key == key {
		to++
	}
	return s.requirements[from:to]
}

func (r *requirement) matches(labels map[string]string) bool {
	v, ok := labels[r.key]
	switch r.op {
	case in:
		return ok && r.lists(v)
	case notIn:
		return !ok || !r.lists(v)
	case exists:
		return ok
	}
	return !ok
}

// fewValues is up to how many values a search from the first to the last is the fastest.
const fewValues = 8

// lists tells whether a value is among the requirement's.
func (r *requirement) lists(v string) bool {
	if len(r.values) <= fewValues {
		return slices.Contains(r.values, v)
	}
	_, found := slices.BinarySearch(r.values, v)
	return found
}

// wide is from how many values on a requirement is not filed or named by each of them: an index is to
// take memory by the number of selectors, whatever their length.
const wide = 65

func (r *requirement) wide() bool { return len(r.values) >= wide }

// String is the selector as Kubernetes writes it.
func (s *Selector) String() string {
	if s.nothing {
		return "<none>"
	}
	words := make([]string, len(s.requirements))
	for i := range s.requirements {
		words[i] = s.requirements[i].String()
	}
	return strings.Join(words, ",")
}

func (r *requirement) String() string {
	values := strings.Join(r.values, ",")
	switch {
	case r.op == exists:
		return r.key
	case r.op == doesNotExist:
		return "!" + r.key
	case r.op == in && len(r.values) == 1:
		return r.key + "=" + values
	case r.op == in:
		return r.key + " in (" + values + ")"
	}
	return r.key + " notin (" + values + ")"
}
