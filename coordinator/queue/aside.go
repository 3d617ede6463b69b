package queue

import "maps"

// ordered is a heap, or the pods that are set aside.
type ordered interface {
	push(p *Pod)
	remove(p *Pod)
	fix(p *Pod)
}

// Await is what pods that are set aside wait for.
type Await uint8

const (
	// ForCounters waits until what a class counts of other pods is filled, ForDevices until devices were searched for, ForGangs until the
	// pod's gang may take more of the loop's time.
	ForCounters Await = iota
	ForDevices
	ForGangs

	awaits
)

// aside is the pods of Active that their owner has set aside, and that wait for the same. A tenant may have hundreds of
// thousands: no pod is looked for among all of them.
type aside struct {
	before  func(a, b *Pod) bool
	len     int
	by      map[uint64]*heap // by class
	tenants map[string]*tenant
	heads   heap   // the first pod of each tenant, by turn
	turns   uint64 // how often pods were popped
}

// tenant is the pods of one namespace that are set aside.
type tenant struct {
	pods heap
	at   int    // of its first pod among the heads
	turn uint64 // when pods of it were popped last
}

func newAside(before func(a, b *Pod) bool) aside {
	turn := func(a, b *Pod) bool {
		if x, y := a.tenant.turn, b.tenant.turn; x != y {
			return x < y
		}
		return before(a, b)
	}
	return aside{before: before, by: map[uint64]*heap{}, tenants: map[string]*tenant{}, heads: heap{before: turn, heads: true}}
}

func (a *aside) push(p *Pod) {
	t, h := a.tenants[p.Obj.Namespace], a.by[p.Aside]
	if t == nil {
		t = &tenant{pods: heap{before: a.before, slots: true}, turn: a.turns} // behind those that wait longer
		a.tenants[p.Obj.Namespace] = t
	}
	if h == nil {
		h = &heap{before: a.before}
		a.by[p.Aside] = h
	}
	a.len++
	p.tenant = t
	h.push(p)
	a.change(t, p, t.pods.push)
}

func (a *aside) remove(p *Pod) {
	h := a.by[p.Aside]
	if h.remove(p); h.len() == 0 {
		delete(a.by, p.Aside)
	}
	a.len--
	a.change(p.tenant, p, p.tenant.pods.remove)
	p.tenant = nil
}

func (a *aside) fix(p *Pod) {
	a.by[p.Aside].fix(p)
	a.change(p.tenant, p, p.tenant.pods.fix)
}

// change changes the pods of a tenant, of which another may be the first then.
func (a *aside) change(t *tenant, p *Pod, how func(*Pod)) {
	if head := t.pods.head(); head != nil {
		a.heads.remove(head)
	}
	how(p)
	if head := t.pods.head(); head != nil {
		a.heads.push(head)
	}
}

// SetAside takes a pod in flight back as GiveBack does, until PopAside: its attempt waits for something of a class, other than 0,
// that the owner has to do first and others are not to wait for.
//
// Differs from upstream: such a pod may be overtaken, also by pods of lower priority, as a costly one.
func (q *Queue) SetAside(p *Pod, waits Await, class uint64) {
	if p.place == InFlight && !p.deleted {
		p.Aside, p.Awaits, p.from = class, waits, Active
	}
	q.GiveBack(p)
}

// SetMatesAside sets the pods of a pod group aside, too, that are active: else one of them would have the others popped before their
// turn.
func (q *Queue) SetMatesAside(g *Group, waits Await, class uint64) {
	for _, p := range g.pods {
		if p.place == Active && p.Aside == 0 {
			q.take(p)
			p.Aside, p.Awaits = class, waits
			q.put(p, Active)
		}
	}
}

// keptTurns is how many namespaces without pods that are set aside are known at the least.
const keptTurns = 64

// Aside is how many pods are set aside.
func (q *Queue) Aside(waits Await) int { return q.aside[waits].len }

// IsAside tells whether pods are set aside for a class.
func (q *Queue) IsAside(waits Await, class uint64) bool { return q.aside[waits].by[class] != nil }

// AsideFor is the class that the next pod waits for that was set aside; 0: there is none. Namespaces take turns, so that
// none waits for all that another has brought; within a namespace the queue's order is kept.
func (q *Queue) AsideFor(waits Await) uint64 {
	if next := q.aside[waits].heads.head(); next != nil {
		return next.Aside
	}
	return 0
}

// PopAside appends up to n pods to into that were set aside for a class, in the queue's order. They are in flight
// then, as those of PopBatch, and their namespaces have had their turn.
func (q *Queue) PopAside(waits Await, class uint64, n int, into []*Pod) []*Pod {
	a := &q.aside[waits]
	a.turns++
	for had := len(into); len(into)-had < n && a.by[class] != nil; {
		p := a.by[class].head()
		p.tenant.turn = a.turns // pop moves it among the heads
		into = q.popWithMates(p, false, into)
	}
	if len(a.tenants) > 2*a.len+keptTurns {
		maps.DeleteFunc(a.tenants, func(_ string, t *tenant) bool { return t.pods.len() == 0 })
	}
	return into
}
