package cluster

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Budgets are the PodDisruptionBudgets, numbered from 1, and which pods each of them counts. Pods
// are followed in the namespaces that have a budget, and in no others.
//
//	namespace ──> budgets, filed by what their selectors demand
//	          ──> pods, by their labels: those alike are counted by the same budgets
//
// So a budget that comes, goes or selects others is held against each set of labels once, and
// concerns only the pods with those that it begins or ceases to match. One whose status alone
// changes concerns no pod. Labels keep a few of their budgets, so that many budgets of many pods take no more
// than what their author has made.
type Budgets struct {
	spaces map[string]*budgetSpace
	// present lists the pods of a namespace that gets its first budget.
	present func(namespace string, f func(p *v1.Pod, placed bool))
	// counted says that nobody keeps the budgets' status: it is worked out here.
	counted bool
	most    int // how many budgets of a pod are told apart
	last    uint32
	free    []uint32        // numbers up to last of budgets that are gone
	allowed []scorer.Budget // nil: to be worked out
	scratch []byte
}

// budgetSpace is a namespace that has budgets.
type budgetSpace struct {
	budgets map[string]*budget
	index   selector.Index[*budget]
	alike   map[string]*alike // by their labels' text
	pods    map[types.UID]*followed
	most    int // of Budgets
}

type budget struct {
	number   uint32
	object   *policyv1.PodDisruptionBudget
	selector *selector.Selector
	// expected are the pods that it selects, healthy how many of them are.
	expected, healthy int
}

const (
	// maxBudgets is how many budgets of a pod are told apart. The eviction API takes one.
	//
	// Differs from upstream: a pod with more is one whose eviction violates a budget, whatever they allow.
	maxBudgets = 64
	// noEviction is the number that stands for more of them than that. It allows nothing.
	noEviction = pb.MaxBudget
)

// alike are the pods of a namespace with equal labels.
type alike struct {
	text    string
	labels  map[string]string
	pods    map[types.UID]*followed
	matches int       // how many budgets select them
	budgets []*budget // those, by number; nil: none, or too many to be told apart
	numbers []uint32
	healthy int
}

// followed is a pod of a namespace that has budgets.
type followed struct {
	object  *v1.Pod
	alike   *alike
	healthy bool
}

// NewBudgets makes it without budgets. present calls f for each pod of a namespace and says
// whether it has a node. counted says that there is no disruption controller: the status of
// budgets is worked out from their specs and the pods, and what it says is not looked at.
func NewBudgets(counted bool, present func(namespace string, f func(p *v1.Pod, placed bool))) *Budgets {
	return &Budgets{spaces: map[string]*budgetSpace{}, counted: counted, present: present, most: maxBudgets}
}

// Set takes in that a budget is new or has changed; nil: it is gone. It returns the pods for
// which Of may have changed.
func (b *Budgets) Set(namespace, name string, now *policyv1.PodDisruptionBudget) []types.UID {
	s := b.spaces[namespace]
	if s == nil {
		if now == nil {
			return nil
		}
		s = b.open(namespace)
	}
	b.allowed = nil
	old := s.budgets[name]
	if now == nil {
		if old == nil {
			return nil
		}
		delete(s.budgets, name)
		changed := s.reselect(old, selector.Nothing())
		b.free = append(b.free, old.number)
		if len(s.budgets) == 0 {
			delete(b.spaces, namespace)
		}
		return changed
	}
	if old == nil {
		old = &budget{number: b.number(), selector: selector.Nothing()}
		s.budgets[name] = old
	}
	before := old.object
	old.object = now
	var changed []types.UID
	if selects := selectorOf(now); selects.Text() != old.selector.Text() {
		changed = s.reselect(old, selects)
	}
	if !b.counted && before != nil {
		changed = append(changed, s.redisrupted(old, before.Status.DisruptedPods)...)
	}
	return changed
}

// number is one that no budget has.
func (b *Budgets) number() (n uint32) {
	if last := len(b.free) - 1; last >= 0 {
		n, b.free = b.free[last], b.free[:last]
		return n
	}
	b.last++
	return b.last
}

// selectorOf is what a budget selects. An empty selector, none, and one that can not be read
// select nothing: so has upstream's scheduler it.
func selectorOf(b *policyv1.PodDisruptionBudget) *selector.Selector {
	s, err := selector.New(b.Spec.Selector)
	if err != nil || s.Empty() {
		return selector.Nothing()
	}
	return s
}

// open begins to follow the pods of a namespace.
func (b *Budgets) open(namespace string) *budgetSpace {
	s := &budgetSpace{budgets: map[string]*budget{}, alike: map[string]*alike{}, pods: map[types.UID]*followed{}, most: b.most}
	b.spaces[namespace] = s
	b.present(namespace, b.SetPod)
	return s
}

// reselect has a budget select other pods, and returns those for which that makes a difference.
func (s *budgetSpace) reselect(x *budget, selects *selector.Selector) (changed []types.UID) {
	before := x.selector
	s.index.Remove(before, x)
	s.index.Add(selects, x)
	x.selector, x.expected, x.healthy = selects, 0, 0
	for _, a := range s.alike {
		is := a.selectedBy(selects)
		if is {
			x.expected += len(a.pods)
			x.healthy += a.healthy
		}
		if a.selectedBy(before) != is && s.rematch(a, x, is) {
			changed = slices.AppendSeq(changed, maps.Keys(a.pods))
		}
	}
	return changed
}

func (a *alike) selectedBy(selects *selector.Selector) bool {
	return len(a.labels) > 0 && selects.Matches(a.labels)
}

// rematch takes in that a budget begins or ceases to select pods, and tells whether that makes a difference.
func (s *budgetSpace) rematch(a *alike, x *budget, is bool) bool {
	a.matches += delta(is)
	switch {
	case a.matches > s.most+1 || a.matches == s.most+1 && !is:
		return false // they are too many, as before
	case a.matches > s.most:
		a.budgets = nil
	case a.matches == s.most && !is:
		s.find(a)
	case is:
		a.budgets = append(a.budgets, x)
	default:
		a.budgets = slices.DeleteFunc(a.budgets, func(y *budget) bool { return y == x })
	}
	a.number(s.most)
	return true
}

// find looks the budgets of pods up.
func (s *budgetSpace) find(a *alike) {
	a.matches, a.budgets = 0, nil
	if len(a.labels) > 0 { // a pod without labels is not counted, whatever the selector
		s.index.Matching(a.labels, func(x *budget) {
			if a.matches++; a.matches <= s.most {
				a.budgets = append(a.budgets, x)
			}
		})
	}
	if a.matches > s.most {
		a.budgets = nil
	}
	a.number(s.most)
}

// each calls f for all budgets that select pods.
func (s *budgetSpace) each(a *alike, f func(*budget)) {
	if a.matches > s.most {
		s.index.Matching(a.labels, f)
		return
	}
	for _, x := range a.budgets {
		f(x)
	}
}

// number puts the budgets in order.
func (a *alike) number(most int) {
	slices.SortFunc(a.budgets, func(x, y *budget) int { return cmp.Compare(x.number, y.number) })
	a.numbers = nil // lists that were handed out stay as they are
	if a.matches > most {
		a.numbers = []uint32{noEviction}
	}
	for _, x := range a.budgets {
		a.numbers = append(a.numbers, x.number)
	}
}

// redisrupted are the pods that are, or were before, about to be evicted by somebody: they are
// not counted any more.
func (s *budgetSpace) redisrupted(x *budget, before map[string]metav1.Time) (changed []types.UID) {
	now := x.object.Status.DisruptedPods
	if len(before) == 0 && len(now) == 0 {
		return nil
	}
	for _, a := range s.alike {
		if !a.selectedBy(x.selector) {
			continue
		}
		for uid, p := range a.pods {
			_, was := before[p.object.Name]
			if _, is := now[p.object.Name]; was != is {
				changed = append(changed, uid)
			}
		}
	}
	return changed
}

// SetPod takes in that a pod is new, has changed, or has got or lost its node.
func (b *Budgets) SetPod(p *v1.Pod, placed bool) {
	s := b.spaces[p.Namespace]
	if s == nil {
		return
	}
	f := s.pods[p.UID]
	if f != nil && !maps.Equal(f.alike.labels, p.Labels) {
		b.drop(s, f)
		f = nil
	}
	if f == nil {
		f = &followed{alike: b.alikeOf(s, p.Labels)}
		s.pods[p.UID] = f
		f.alike.pods[p.UID] = f
		s.each(f.alike, func(x *budget) { x.expected++ })
		b.allowed = nil
	}
	f.object = p
	if healthy := placed && isHealthy(p); healthy != f.healthy {
		f.alike.healthy += delta(healthy)
		s.each(f.alike, func(x *budget) { x.healthy += delta(healthy) })
		f.healthy = healthy
		if b.counted {
			b.allowed = nil
		}
	}
}

// RemovePod takes in that a pod is gone.
func (b *Budgets) RemovePod(p *v1.Pod) {
	if s := b.spaces[p.Namespace]; s != nil {
		if f := s.pods[p.UID]; f != nil {
			b.drop(s, f)
		}
	}
}

func (b *Budgets) drop(s *budgetSpace, f *followed) {
	b.allowed = nil
	a, uid := f.alike, f.object.UID
	delete(s.pods, uid)
	delete(a.pods, uid)
	s.each(a, func(x *budget) {
		x.expected--
		if f.healthy {
			x.healthy--
		}
	})
	if f.healthy {
		a.healthy--
	}
	if len(a.pods) == 0 {
		delete(s.alike, a.text)
	}
}

// alikeOf finds the pods with these labels, or begins with them.
func (b *Budgets) alikeOf(s *budgetSpace, labels map[string]string) *alike {
	b.scratch = selector.AppendLabels(b.scratch[:0], labels)
	if a := s.alike[string(b.scratch)]; a != nil {
		return a
	}
	a := &alike{text: string(b.scratch), labels: labels, pods: map[types.UID]*followed{}}
	s.find(a)
	s.alike[a.text] = a
	return a
}

func delta(more bool) int {
	if more {
		return 1
	}
	return -1
}

// isHealthy tells whether a pod that has a node counts as available: it is not on its way out, and
// nobody says that it is not ready.
func isHealthy(p *v1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return true
}

// Of are the numbers of the budgets that count a pod, ascending. The list is shared: nobody writes
// to it. A pod that somebody is about to evict is not counted by the budget that says so.
func (b *Budgets) Of(p *v1.Pod) []uint32 {
	s := b.spaces[p.Namespace]
	if s == nil || len(p.Labels) == 0 {
		return nil
	}
	var a *alike
	if f := s.pods[p.UID]; f != nil && maps.Equal(f.alike.labels, p.Labels) {
		a = f.alike
	} else {
		a = &alike{labels: p.Labels}
		s.find(a)
	}
	if b.counted || !slices.ContainsFunc(a.budgets, func(x *budget) bool { return x.disrupts(p) }) {
		return a.numbers
	}
	var out []uint32
	for _, x := range a.budgets {
		if !x.disrupts(p) {
			out = append(out, x.number)
		}
	}
	return out
}

func (x *budget) disrupts(p *v1.Pod) bool {
	_, ok := x.object.Status.DisruptedPods[p.Name]
	return ok
}

// Allowed is how many pods of each budget may be evicted, ascending by number, of those that
// select any pod. The list is shared: nobody writes to it, and it does not change.
func (b *Budgets) Allowed() []scorer.Budget {
	if b.allowed != nil {
		return b.allowed
	}
	b.allowed = []scorer.Budget{}
	if b.isCrowded() {
		b.allowed = append(b.allowed, scorer.Budget{ID: noEviction})
	}
	for _, s := range b.spaces {
		for _, x := range s.budgets {
			if x.expected > 0 {
				b.allowed = append(b.allowed, scorer.Budget{ID: x.number, Allowed: b.allowedBy(x)})
			}
		}
	}
	slices.SortFunc(b.allowed, func(x, y scorer.Budget) int { return cmp.Compare(x.ID, y.ID) })
	return b.allowed
}

func (b *Budgets) allowedBy(x *budget) int32 {
	if !b.counted {
		return x.object.Status.DisruptionsAllowed
	}
	return int32(max(0, x.healthy-desired(&x.object.Spec, x.expected)))
}

// isCrowded tells whether a pod may have more than can be told apart.
func (b *Budgets) isCrowded() bool {
	for _, s := range b.spaces {
		if len(s.budgets) > b.most {
			return true
		}
	}
	return false
}

// desired is how many pods have to stay, of those that are expected: the disruption controller's
// rule, which rounds percentages up either way. A spec that says neither allows nothing.
//
// Differs from upstream: there, percentages and maxUnavailable are of the replicas that the pods'
// controllers want; here of the pods that are there.
func desired(s *policyv1.PodDisruptionBudgetSpec, expected int) int {
	switch {
	case s.MaxUnavailable != nil:
		return max(0, expected-scaled(s.MaxUnavailable, expected))
	case s.MinAvailable != nil:
		return scaled(s.MinAvailable, expected)
	}
	return expected
}

// scaled is a number of pods, or the percentage of all, rounded up. Validation has seen to its form.
func scaled(x *intstr.IntOrString, all int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(x, all, true)
	if err != nil {
		return all
	}
	return n
}
