package cluster

import (
	"cmp"
	"iter"
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
//	          ──> pods, by their labels: those with the same labels are counted by the same budgets
//
// So a budget that comes, goes or selects others is held against each set of labels once, and
// concerns only the pods with those that it begins or ceases to match. One whose status alone
// changes concerns no pod. Labels keep a few of their budgets, so that many budgets of many pods take no more
// than what their author has made.
//
// A namespace may have any number of pods, so that Some takes such a change in step by step:
//
//	comes         gets a number ──> all pods know of it ──> in force
//	selects more  likewise, under another number; what it was before is in force until then, and goes
//	goes          out of force ──> all pods know of it ──> the number is free
//
// So what is in force is known of all pods, whenever somebody asks.
type Budgets struct {
	spaces map[string]*budgetSpace
	// present yields the pods of a namespace that gets its first budget, and whether each has a node; nil: a step
	// without a pod. Pods may come and go meanwhile.
	present func(namespace string) iter.Seq2[*v1.Pod, bool]
	// counted says that nobody keeps the budgets' status: it is worked out here.
	counted bool
	most    int             // how many budgets of a pod are told apart
	free    []uint32        // numbers that no budget has, and no pod knows
	allowed []scorer.Budget // nil: to be worked out
	// numbered are the budgets by number, from 1; nil: none has it, or pods are to forget the one that had it.
	numbered []*budget
	// changing are the namespaces of which not all pods know of each change yet. They take turns.
	changing []*budgetSpace
	scratch  []byte
}

// budgetSpace is a namespace that has budgets.
type budgetSpace struct {
	name    string
	budgets map[string]*budget
	index   selector.Index[*budget]
	sets    map[string]*labelSet // by their text
	pods    map[string]*followed // by name
	most    int                  // of Budgets
	// changes counts the changes of budgets that concern pods. All pods know of those up to told.
	changes, told uint64
	next          func() (types.UID, bool) // the next step of what changes; nil: nothing does
	stop          func()
	gone          []uint32 // numbers of which pods are to forget
	looks         int      // what it has taken since Some took note of it to find the budgets of labels
}

type budget struct {
	space    *budgetSpace
	number   uint32
	since    uint64 // the change that it came with
	object   *policyv1.PodDisruptionBudget
	selector *selector.Selector
	// expected are the pods that it selects, healthy how many of them are: of those that know of it. Pods with too many
	// budgets are among them only where nobody else keeps the budgets' status: there are any number of both.
	expected, healthy int
	// sets are the labels of those pods, but for pods with too many budgets.
	sets map[*labelSet]struct{}
	// before is in force instead, until all pods know of this one; nil: nothing is.
	before *budget
	// replaced: there is a newer one, and this one is some budget's before.
	replaced bool
}

const (
	// maxBudgets is how many budgets of a pod are told apart. The eviction API takes one.
	//
	// Differs from upstream: a pod with more is one whose eviction violates a budget, whatever they allow.
	maxBudgets = 64
	// noEviction is the number that stands for more of them than that. It allows nothing.
	noEviction = pb.MaxBudget
)

// labelSet is labels, and the pods of a namespace that have just these.
type labelSet struct {
	text    string
	labels  map[string]string
	pods    map[types.UID]*followed
	told    uint64    // they know of the changes up to this one
	crowded bool      // they have too many budgets to be told apart
	budgets []*budget // those that select them, by number; nil: none, or too many
	numbers []uint32
	healthy int
}

// followed is a pod of a namespace that has budgets.
type followed struct {
	object  *v1.Pod
	set     *labelSet
	healthy bool
}

// NewBudgets makes it without budgets. present yields the pods of a namespace and whether each has a node; nil: a
// step without a pod. counted says that there is no disruption controller: the status of
// budgets is worked out from their specs and the pods, and what it says is not looked at.
func NewBudgets(counted bool, present func(namespace string) iter.Seq2[*v1.Pod, bool]) *Budgets {
	return &Budgets{spaces: map[string]*budgetSpace{}, counted: counted, present: present, most: maxBudgets}
}

// Set takes in that a budget is new or has changed; nil: it is gone. It returns pods for
// which Of has changed. Some finds the others.
func (b *Budgets) Set(namespace, name string, now *policyv1.PodDisruptionBudget) []types.UID {
	s := b.spaces[namespace]
	if s == nil {
		if now == nil {
			return nil
		}
		s = &budgetSpace{name: namespace, budgets: map[string]*budget{}, sets: map[string]*labelSet{}, pods: map[string]*followed{},
			most: b.most}
		b.spaces[namespace] = s
	}
	old := s.budgets[name]
	if now == nil && old == nil {
		return nil
	}
	b.allowed = nil
	if now != nil && old != nil && selectorOf(now).Text() == old.selector.Text() {
		before := old.object.Status.DisruptedPods
		if old.object = now; b.counted {
			return nil
		}
		return s.redisrupted(before, now.Status.DisruptedPods)
	}
	s.changes++
	if now == nil {
		delete(s.budgets, name)
		b.forget(s, old.before)
		b.forget(s, old)
	} else {
		x := &budget{space: s, since: s.changes, object: now, selector: selectorOf(now), sets: map[*labelSet]struct{}{}}
		b.number(x)
		if x.before = old; old != nil && old.since > s.told {
			x.before = old.before
			b.forget(s, old)
		}
		if x.before != nil {
			x.before.replaced = true
		}
		s.index.Add(x.selector, x)
		s.budgets[name] = x
	}
	if s.next == nil {
		s.next, s.stop = iter.Pull(b.change(s))
		b.changing = append([]*budgetSpace{s}, b.changing...)
	}
	return nil
}

// forget has pods forget a budget.
func (b *Budgets) forget(s *budgetSpace, x *budget) {
	if x != nil {
		b.numbered[x.number-1] = nil
		s.index.Remove(x.selector, x)
		s.gone = append(s.gone, x.number)
	}
}

// Changing tells whether Some has something to do.
func (b *Budgets) Changing() bool { return len(b.changing) > 0 }

// End is called when nobody calls Some any more.
func (b *Budgets) End() {
	for _, s := range b.changing {
		s.stop()
	}
}

// Some goes on with what changes, for so many steps, those of one pod and one namespace, and tells in how many. What of
// a selector is held against a pod's labels is a step, too. It calls tell for each pod for which Of may have changed,
// which takes so many steps.
func (b *Budgets) Some(most, tellSteps int, tell func(types.UID) error) (steps int, err error) {
	if !b.Changing() {
		return 0, nil
	}
	s := b.changing[0]
	b.changing = append(b.changing[1:], s)
	s.looks = 0
	for steps < most && err == nil {
		uid, ok := s.next()
		if steps, s.looks = steps+s.looks, 0; !ok {
			s.next, b.changing = nil, b.changing[:len(b.changing)-1]
			return steps, nil
		}
		if steps++; uid != "" {
			steps += tellSteps
			err = tell(uid)
		}
	}
	return steps, err
}

// change has all pods of a namespace know of all changes of its budgets, those too that come meanwhile. It yields a
// pod for which Of may have changed, or none, after each step. Pods that come meanwhile know of the changes so far.
func (b *Budgets) change(s *budgetSpace) iter.Seq[types.UID] {
	return func(yield func(types.UID) bool) {
		if s.told == 0 {
			for p, placed := range b.present(s.name) {
				var uid types.UID
				if p != nil && s.pods[p.Name] == nil {
					b.SetPod(p, placed)
					uid = p.UID
				}
				if !yield(uid) {
					return
				}
			}
		}
		for s.told < s.changes {
			upTo, gone := s.changes, s.gone
			s.gone = nil
			for _, a := range s.sets {
				if !b.find(s, a) {
					if !yield("") {
						return
					}
					continue
				}
				for uid := range a.pods {
					if !yield(uid) {
						return
					}
				}
			}
			b.allowed = nil
			b.free = append(b.free, gone...)
			s.told = upTo
			b.enforce(s)
		}
		if len(s.budgets) == 0 {
			delete(b.spaces, s.name)
		}
	}
}

// enforce has the budgets go whose place others have taken.
func (b *Budgets) enforce(s *budgetSpace) {
	for _, x := range s.budgets {
		if x.since <= s.told && x.before != nil {
			b.forget(s, x.before)
			x.before = nil
			s.changes++
		}
	}
}

// number gives a budget a number that no other has.
func (b *Budgets) number(x *budget) {
	if last := len(b.free) - 1; last >= 0 {
		x.number, b.free = b.free[last], b.free[:last]
		b.numbered[x.number-1] = x
		return
	}
	b.numbered = append(b.numbered, x)
	x.number = uint32(len(b.numbered))
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

// find has pods know of all changes of budgets, and tells whether that makes a difference. It ends once they have too
// many, unless all are counted.
func (b *Budgets) find(s *budgetSpace, a *labelSet) (differs bool) {
	if a.told == s.changes {
		return false
	}
	before, matches, all := a.numbers, 0, 0
	b.leave(a)
	if len(a.labels) > 0 { // a pod without labels is not counted, whatever the selector
		s.looks += s.index.MatchingUntil(a.labels, func(x *budget) (enough bool) {
			if b.counted && x.since > a.told {
				b.count(x, len(a.pods), a.healthy)
			}
			if all++; !x.replaced {
				matches++
			}
			if a.crowded = matches > s.most || all > 2*s.most; !a.crowded {
				a.budgets = append(a.budgets, x)
			}
			return a.crowded && !b.counted
		})
	}
	a.told = s.changes
	a.numbers = nil // lists that were handed out stay as they are
	if a.crowded {
		a.budgets, a.numbers = nil, []uint32{noEviction}
	}
	slices.SortFunc(a.budgets, func(x, y *budget) int { return cmp.Compare(x.number, y.number) })
	for _, x := range a.budgets {
		a.numbers = append(a.numbers, x.number)
		x.sets[a] = struct{}{}
		if !b.counted {
			b.count(x, len(a.pods), a.healthy)
		}
	}
	return !slices.Equal(before, a.numbers)
}

// leave has the budgets of pods forget them.
func (b *Budgets) leave(a *labelSet) {
	for _, x := range a.budgets {
		delete(x.sets, a)
		if !b.counted {
			b.count(x, -len(a.pods), -a.healthy)
		}
	}
	a.budgets, a.crowded = nil, false
}

// each calls f for the budgets that count pods, of those that they know of.
func (b *Budgets) each(s *budgetSpace, a *labelSet, f func(*budget)) {
	if a.crowded && b.counted {
		s.looks += s.index.Matching(a.labels, func(x *budget) {
			if x.since <= a.told {
				f(x)
			}
		})
		return
	}
	for _, x := range a.budgets {
		f(x)
	}
}

// redisrupted are the pods that are, or were before, about to be evicted by somebody: they are
// not counted any more.
func (s *budgetSpace) redisrupted(before, now map[string]metav1.Time) (changed []types.UID) {
	for _, x := range [...][2]map[string]metav1.Time{{before, now}, {now, before}} {
		for name := range x[0] {
			if f := s.pods[name]; f != nil {
				if _, both := x[1][name]; !both {
					changed = append(changed, f.object.UID)
				}
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
	f := s.pods[p.Name]
	if f != nil && (f.object.UID != p.UID || !maps.Equal(f.set.labels, p.Labels)) {
		b.drop(s, f)
		f = nil
	}
	if f == nil {
		f = &followed{set: b.setOf(s, p.Labels)}
		s.pods[p.Name] = f
		f.set.pods[p.UID] = f
		b.each(s, f.set, func(x *budget) { b.count(x, 1, 0) })
	}
	f.object = p
	if healthy := placed && isHealthy(p); healthy != f.healthy {
		f.set.healthy += delta(healthy)
		b.each(s, f.set, func(x *budget) { b.count(x, 0, delta(healthy)) })
		f.healthy = healthy
	}
}

// RemovePod takes in that a pod is gone.
func (b *Budgets) RemovePod(p *v1.Pod) {
	if s := b.spaces[p.Namespace]; s != nil {
		if f := s.pods[p.Name]; f != nil && f.object.UID == p.UID {
			b.drop(s, f)
		}
	}
}

func (b *Budgets) drop(s *budgetSpace, f *followed) {
	a, healthy := f.set, 0
	if f.healthy {
		healthy = -1
	}
	delete(s.pods, f.object.Name)
	delete(a.pods, f.object.UID)
	b.each(s, a, func(x *budget) { b.count(x, -1, healthy) })
	a.healthy += healthy
	if len(a.pods) == 0 {
		b.leave(a)
		delete(s.sets, a.text)
	}
}

// count has a budget count more pods, or fewer. What is allowed changes with each of them where it is worked out here,
// else only with the first and the last.
func (b *Budgets) count(x *budget, expected, healthy int) {
	before := x.expected
	x.expected += expected
	x.healthy += healthy
	if b.counted || (before > 0) != (x.expected > 0) {
		b.allowed = nil
	}
}

// setOf finds the set of these labels, or begins it.
func (b *Budgets) setOf(s *budgetSpace, labels map[string]string) *labelSet {
	b.scratch = selector.AppendLabels(b.scratch[:0], labels)
	if a := s.sets[string(b.scratch)]; a != nil {
		return a
	}
	a := &labelSet{text: string(b.scratch), labels: labels, pods: map[types.UID]*followed{}}
	b.find(s, a)
	s.sets[a.text] = a
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
	if s == nil {
		return nil
	}
	f := s.pods[p.Name]
	if f == nil || f.object.UID != p.UID {
		return nil // change is to come to it
	}
	a := f.set
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

// Allowed is how many pods of each budget may be evicted, ascending by number, of those that are Of any pod. The list
// is shared: nobody writes to it, and it does not change.
func (b *Budgets) Allowed() []scorer.Budget {
	if b.allowed != nil {
		return b.allowed
	}
	b.allowed = []scorer.Budget{}
	for _, x := range b.numbered {
		if x != nil && x.since <= x.space.told && x.expected > 0 {
			b.allowed = append(b.allowed, scorer.Budget{ID: x.number, Allowed: b.allowedBy(x)})
		}
	}
	if b.isCrowded() {
		b.allowed = append(b.allowed, scorer.Budget{ID: noEviction})
	}
	return b.allowed
}

// NameOf is the name of the budget that has a number; empty: it is none, or stands for more budgets than are told apart.
func (b *Budgets) NameOf(number uint32) types.NamespacedName {
	if int64(number) > int64(len(b.numbered)) || b.numbered[number-1] == nil {
		return types.NamespacedName{}
	}
	x := b.numbered[number-1].object
	return types.NamespacedName{Namespace: x.Namespace, Name: x.Name}
}

// Counts tells how many pods a budget that NameOf knows counts, and how many of them are healthy.
func (b *Budgets) Counts(number uint32) (expected, healthy int) {
	x := b.numbered[number-1]
	return x.expected, x.healthy
}

// CountedBy are the pods that Of tells a budget of Allowed for, and maybe others that it selects; false: there are
// more than most, or not all pods of the namespace know of its budgets yet.
func (b *Budgets) CountedBy(number uint32, most int) (pods []types.UID, ok bool) {
	if int(number) > len(b.numbered) {
		return nil, false
	}
	x := b.numbered[number-1]
	if x == nil || x.expected > most || x.space.next != nil {
		return nil, false
	}
	for a := range x.sets {
		pods = slices.AppendSeq(pods, maps.Keys(a.pods))
	}
	return pods, true
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
