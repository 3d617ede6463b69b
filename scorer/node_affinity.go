package scorer

import (
	"math"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// nodeAffinity is the plugin NodeAffinity: what the profile adds, the pod's
// nodeSelector and required terms refuse nodes, preferred terms score them.
type nodeAffinity struct {
	added     *selector // nil: none
	equal     []requirement
	required  *selector // nil: none
	preferred []preferredTerm
	why       []Reason
}

// selector matches where one of its terms does.
type selector struct{ terms []term }

// term matches where all of its requirements do.
type term struct {
	labels []requirement
	names  []*pb.NameRequirement
}

type preferredTerm struct {
	term
	weight int64
}

// requirement is a predicate over one label.
type requirement struct {
	key      string
	operator pb.SelectorOperator
	values   []string
	bound    int64
}

// The reasons of nodeAffinity.
const (
	addedDoesNotMatch = iota
	podDoesNotMatch
)

func newNodeAffinity(q *pb.Query) *nodeAffinity {
	a := q.GetNodeAffinity()
	r := &nodeAffinity{added: newSelector(a.GetAdded()), required: newSelector(a.GetRequired())}
	for _, l := range a.GetNodeSelector() {
		r.equal = append(r.equal, requirement{
			key: l.GetKey(), operator: pb.SelectorOperator_SELECTOR_OPERATOR_IN, values: []string{l.GetValue()},
		})
	}
	for _, p := range a.GetPreferred() {
		r.preferred = append(r.preferred, preferredTerm{newTerm(p.GetTerm()), int64(p.GetWeight())})
	}
	plugin := PluginName(r.plugin())
	r.why = []Reason{
		addedDoesNotMatch: {plugin, "node(s) didn't match scheduler-enforced node affinity", true},
		podDoesNotMatch:   {plugin, "node(s) didn't match Pod's node affinity/selector", true},
	}
	return r
}

func newSelector(s *pb.NodeSelector) *selector {
	if s == nil {
		return nil
	}
	out := &selector{}
	for _, t := range s.GetTerms() {
		out.terms = append(out.terms, newTerm(t))
	}
	return out
}

func newTerm(t *pb.SelectorTerm) term {
	out := term{names: t.GetNames()}
	for _, l := range t.GetLabels() {
		out.labels = append(out.labels, requirement{l.GetKey(), l.GetOperator(), l.GetValues(), l.GetBound()})
	}
	return out
}

func (r *nodeAffinity) plugin() pb.Plugin { return pb.Plugin_PLUGIN_NODE_AFFINITY }
func (r *nodeAffinity) reasons() []Reason { return r.why }

func (r *nodeAffinity) narrow(e *Evaluator, t *Table, rows bitmap) {
	r.added.narrow(e, t, rows)
	for i := range r.equal {
		r.equal[i].narrow(e, t, rows)
	}
	r.required.narrow(e, t, rows)
}

func (r *nodeAffinity) passes(v view) bool { return r.added.matches(v) && r.matchesPod(v) }

// matchesPod is what the pod itself asks.
func (r *nodeAffinity) matchesPod(v view) bool {
	for i := range r.equal {
		if !r.equal[i].matches(v.t.labels.lookup(v.row, r.equal[i].key)) {
			return false
		}
	}
	return r.required.matches(v)
}

func (r *nodeAffinity) refusals(v view, into []int) []int {
	if !r.added.matches(v) {
		return append(into, addedDoesNotMatch)
	}
	return append(into, podDoesNotMatch)
}

func (r *nodeAffinity) column(e *Evaluator, t *Table, rows bitmap, into []int64) (some bitmap) {
	if len(r.preferred) == 0 {
		return nil
	}
	e.any = scratch(e.any, len(rows))
	clear(e.any)
	for i := range r.preferred {
		p := &r.preferred[i]
		e.term = rows.copyOf(e.term)
		p.narrow(e, t, e.term)
		for row := range e.term.all {
			if !e.any.has(row) {
				into[row] = 0
			}
			into[row] += p.weight
		}
		e.any.union(e.term)
	}
	return e.any
}

// level is for one preferred term, or none.
func (r *nodeAffinity) level(e *Evaluator, t *Table, rows bitmap) (some bitmap, score int64, ok bool) {
	if len(r.preferred) == 0 {
		return nil, 0, true
	}
	p := &r.preferred[0]
	if len(r.preferred) > 1 || p.weight == 0 {
		return nil, 0, false
	}
	e.term = rows.copyOf(e.term)
	p.narrow(e, t, e.term)
	return e.term, p.weight, true
}

func (r *nodeAffinity) score(_ *Evaluator, v view) int64 {
	sum := int64(0)
	for i := range r.preferred {
		if r.preferred[i].matches(v) {
			sum += r.preferred[i].weight
		}
	}
	return sum
}

// narrow keeps the rows that one of the terms matches. A nil selector matches all.
func (s *selector) narrow(e *Evaluator, t *Table, rows bitmap) {
	if s == nil {
		return
	}
	if len(s.terms) == 1 {
		s.terms[0].narrow(e, t, rows)
		return
	}
	e.any = scratch(e.any, len(rows))
	clear(e.any)
	for i := range s.terms {
		e.term = rows.copyOf(e.term)
		s.terms[i].narrow(e, t, e.term)
		e.any.union(e.term)
	}
	copy(rows, e.any)
}

func (s *selector) matches(v view) bool {
	if s == nil {
		return true
	}
	for i := range s.terms {
		if s.terms[i].matches(v) {
			return true
		}
	}
	return false
}

func (x *term) narrow(e *Evaluator, t *Table, rows bitmap) {
	for _, n := range x.names {
		if n.GetOperator() == pb.SelectorOperator_SELECTOR_OPERATOR_IN {
			rows.onlyNamed(t, n.GetName())
		} else if row, ok := t.byName[n.GetName()]; ok {
			rows.remove(row)
		}
	}
	for i := range x.labels {
		x.labels[i].narrow(e, t, rows)
	}
}

func (x *term) matches(v view) bool {
	for _, n := range x.names {
		in := n.GetOperator() == pb.SelectorOperator_SELECTOR_OPERATOR_IN
		if in != (n.GetName() == v.t.names[v.row]) {
			return false
		}
	}
	for i := range x.labels {
		if !x.labels[i].matches(v.t.labels.lookup(v.row, x.labels[i].key)) {
			return false
		}
	}
	return true
}

// matches decides for one value of the label.
func (q *requirement) matches(value string, present bool) bool {
	switch q.operator {
	case pb.SelectorOperator_SELECTOR_OPERATOR_IN:
		return present && q.lists(value)
	case pb.SelectorOperator_SELECTOR_OPERATOR_NOT_IN:
		return !present || !q.lists(value)
	case pb.SelectorOperator_SELECTOR_OPERATOR_EXISTS:
		return present
	case pb.SelectorOperator_SELECTOR_OPERATOR_DOES_NOT_EXIST:
		return !present
	}
	if !present {
		return false
	}
	n, ok := parseInteger(value)
	if q.operator == pb.SelectorOperator_SELECTOR_OPERATOR_GT {
		return ok && n > q.bound
	}
	return ok && n < q.bound
}

func (q *requirement) lists(value string) bool {
	for _, v := range q.values {
		if v == value {
			return true
		}
	}
	return false
}

// narrow keeps the rows whose label the requirement matches: it decides once for
// each distinct value, and then looks only at the rows' value numbers.
func (q *requirement) narrow(e *Evaluator, t *Table, rows bitmap) {
	c := t.labels.column(q.key)
	if c == nil {
		if !q.matches("", false) {
			clear(rows)
		}
		return
	}
	c.rows.narrow(q.decide(e, c), rows)
}

// decide gives 1 for each value of the column that matches. The listed values are
// looked up rather than compared with all that the column has.
func (q *requirement) decide(e *Evaluator, c *labelColumn) []uint8 {
	listed := uint8(0)
	switch q.operator {
	case pb.SelectorOperator_SELECTOR_OPERATOR_IN:
		listed = 1
	case pb.SelectorOperator_SELECTOR_OPERATOR_NOT_IN:
	default:
		keep := e.allKeep(len(c.values), 0)
		for id, value := range c.values {
			keep[id] = uint8(asBit(q.matches(value, id != 0)))
		}
		return keep
	}
	keep := e.allKeep(len(c.values), 1-listed)
	for _, value := range q.values {
		if id, ok := c.byValue[value]; ok {
			keep[id] = listed
		}
	}
	return keep
}

// parseInteger reads a decimal integer as strconv.ParseInt does, but allocates
// nothing where there is none.
func parseInteger(s string) (int64, bool) {
	digits := s
	if s != "" && (s[0] == '-' || s[0] == '+') {
		digits = s[1:]
	}
	if digits == "" {
		return 0, false
	}
	n := uint64(0)
	for i := range len(digits) {
		d := uint64(digits[i] - '0')
		if digits[i] < '0' || d > 9 || n > (math.MaxInt64+1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	if s[0] == '-' {
		return -int64(n), n <= math.MaxInt64+1
	}
	return int64(n), n <= math.MaxInt64
}
