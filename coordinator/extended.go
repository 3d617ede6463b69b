package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/scorer"
)

// Extenders are asked behind the loop, so that one that is slow holds up those pods only which it
// is interested in:
//
//	decide ── rows that pass ──> its turn? ──yes──> asked ──resume──> decide, with the answer
//	             none: refused       └──no──> waits in its lane ──resume──> decide
//
// A lane is for the pods that the same extenders are interested in. As many of them are asked
// about at once as these extenders take calls, and the others wait in the queue's order. What is
// decided with an answer is decided on the tables of then: rows that were not asked about, or
// not kept, are vetoed for this one pod.
//
// Differs from upstream: pods are decided in the order of the answers. Extenders are asked about
// all nodes that pass, sorted by name, and about several pods at once.

// maxRounds is how often extenders are asked in one attempt: again where nothing of what they
// have kept is left by then, and there are nodes that they were not asked about.
const maxRounds = 3

// extenders are those of the configuration, and the attempts that wait for them.
type extenders struct {
	list  []*extender.Extender
	lanes map[string]*lane
	// inline has the loop wait for the answers.
	inline bool
	// calls are under way behind the loop.
	calls sync.WaitGroup
}

// lane is the pods that the same extenders are interested in.
type lane struct {
	asked []*extender.Extender
	// free is how many pods more may be asked about.
	free int
	// waiting are parked for their turn, in the queue's order.
	waiting []*attempt
}

func newExtenders(cfg *SchedulerConfig, m *meters) (extenders, error) {
	asked := slices.Clone(cfg.Extenders)
	if cfg.Binder == nil { // nothing is to be written, so nobody else is told to
		for i := range asked {
			asked[i].BindVerb = ""
		}
	}
	list, err := extender.NewAll(asked, extender.Options{
		Meter:     func(name string) extender.Meter { return newExtenderMeter(m.set, name) },
		Transport: cfg.extenderTransport,
	})
	return extenders{list: list, lanes: map[string]*lane{}, inline: cfg.ExtendersInline}, err
}

// Extenders are the configuration's extenders as plugins see them.
func (s *Scheduler) Extenders() []fwk.Extender { return extender.Framed(s.extenders.list) }

// laneOf is the lane of a pod; nil: no extender has anything to say about where it goes.
func (x *extenders) laneOf(pod *v1.Pod) *lane {
	if len(x.list) == 0 {
		return nil
	}
	list := extender.Interested(x.list, pod)
	if len(list) == 0 {
		return nil
	}
	return x.laneFor("", list)
}

// laneFor is the lane of those that wait for the same of the same extenders.
func (x *extenders) laneFor(what string, list []*extender.Extender) *lane {
	var key strings.Builder
	key.WriteString(what)
	room := list[0].InFlight()
	for _, e := range list {
		fmt.Fprintf(&key, "%d ", slices.Index(x.list, e))
		room = min(room, e.InFlight())
	}
	l := x.lanes[key.String()]
	if l == nil {
		l = &lane{asked: list, free: room}
		x.lanes[key.String()] = l
	}
	return l
}

// consult asks a lane's extenders about the nodes that a pod could have. The attempt is parked,
// until its turn, which a resume without an answer begins, or until the answer is there.
func (s *Scheduler) consult(ctx context.Context, l *lane, a *attempt, nodes []*v1.Node) (parked bool) {
	q := question{list: l.asked, pod: a.pod.Obj, own: a.pod.Nomination(), nodes: nodes, round: 1}
	if a.answer != nil {
		q.round += a.answer.Rounds
	}
	a.answer = nil
	a.trace.Begin(tracing.Extenders)
	if s.extenders.inline {
		a.answer = q.ask(ctx)
		a.trace.End(tracing.Extenders)
		return false
	}
	kept := s.park(a)
	if l.free == 0 {
		l.wait(kept, s.queue.Before)
		return true
	}
	l.free--
	// What happens from now on, the answer may not know of.
	s.queue.Rejoin(kept.pod)
	life := s.life
	s.extenders.calls.Go(func() {
		answer := q.ask(life)
		s.inbox.put(func() { l.free++ })
		if life.Err() == nil {
			s.resume(kept, answer)
		}
	})
	return true
}

// wait has an attempt wait for its turn, behind those before it in the queue's order.
func (l *lane) wait(a *attempt, before func(x, y *queue.Pod) bool) {
	at, _ := slices.BinarySearchFunc(l.waiting, a, func(x, y *attempt) int {
		if before(y.pod, x.pod) {
			return 1
		}
		return -1
	})
	l.waiting = slices.Insert(l.waiting, at, a)
}

// giveTurns has as many attempts go on as there are places free in their lanes.
func (s *Scheduler) giveTurns() {
	if len(s.extenders.lanes) == 0 {
		return
	}
	s.metrics.extended.Set(float64(len(s.parked)))
	for _, l := range s.extenders.lanes {
		for n := l.free; n > 0 && len(l.waiting) > 0; {
			a := l.waiting[0]
			l.waiting = slices.Delete(l.waiting, 0, 1)
			if s.parked[a.pod] == a {
				s.resume(a, a.answer)
				n--
			}
		}
	}
}

// question is what extenders are asked about one pod.
type question struct {
	list  []*extender.Extender
	pod   *v1.Pod
	own   string // the node that it is nominated to
	nodes []*v1.Node
	round int
}

// ask asks, and puts the answer into words for the pod's decision.
func (q *question) ask(ctx context.Context) *outsiders {
	slices.SortFunc(q.nodes, func(x, y *v1.Node) int { return cmp.Compare(x.Name, y.Name) })
	own := -1
	if q.own != "" {
		own = slices.IndexFunc(q.nodes, func(n *v1.Node) bool { return n.Name == q.own })
	}
	out := &outsiders{Rounds: q.round, Asked: make(map[string]struct{}, len(q.nodes)), Refused: map[string]scorer.Reason{}}
	answer, err := extender.Ask(ctx, q.list, extender.Inquiry{Pod: q.pod, Nodes: q.nodes, Own: own})
	if err != nil {
		out.Err = err
		return out
	}
	if answer.Alone {
		// Nobody has said anything of the others.
		out.Asked[q.own] = struct{}{}
		return out
	}
	out.Scores = answer.Kept
	if answer.Narrowed {
		out.Plugins = []string{extender.Rejector}
	}
	for name, r := range answer.Refused {
		if _, kept := answer.Kept[name]; !kept {
			out.Refused[name] = scorer.Reason{Text: r.Reason, Unresolvable: r.Unresolvable}
		}
	}
	for _, n := range q.nodes {
		out.Asked[n.Name] = struct{}{}
		_, kept := answer.Kept[n.Name]
		if _, told := out.Refused[n.Name]; !kept && !told {
			out.Refused[n.Name] = unsaid
		}
	}
	return out
}

// unsaid is why a node is refused of which an extender says nothing: no preemption changes it,
// and no message tells it.
var unsaid = scorer.Reason{Plugin: extender.Rejector, Unresolvable: true}

// asksOutside tells whether those outside the loop have a say in a pod's node.
func (s *Scheduler) asksOutside(a *attempt) bool { return s.extenders.laneOf(a.pod.Obj) != nil }

// askOutside takes in what extenders say of the rows that are left, or parks the attempt until they
// have.
//
// Differs from upstream: scores are of the nodes as they are. Upstream's see what an extender
// without a cache of nodes returns, without pods and images. Reasons of nodes that an extender was
// not asked about are not counted.
func (s *Scheduler) askOutside(ctx context.Context, a *attempt, rows []hostedRow) ([]hostedRow, *hostedEnd, bool) {
	l := s.extenders.laneOf(a.pod.Obj)
	if l == nil {
		return rows, nil, false
	}
	if a.answer != nil {
		a.trace.End(tracing.Extenders)
	}
	if !s.heard(a.answer, rows) {
		nodes := make([]*v1.Node, 0, len(rows))
		for i := range rows {
			nodes = append(nodes, s.cache.Node(s.nameOf(rows[i].Row.Row)))
		}
		if s.consult(ctx, l, a, nodes) {
			return nil, nil, true
		}
	}
	if a.answer.Err != nil {
		return nil, &hostedEnd{failed: a.answer.Err}, false
	}
	a.answer.told = a.answer.told[:0]
	left := rows[:0]
	for i := range rows {
		if why := a.answer.whyRefused(s.nameOf(rows[i].Row.Row)); why != nil {
			a.answer.told = append(a.answer.told, why...)
		} else {
			left = append(left, rows[i])
		}
	}
	return left, nil, false
}

// heard tells whether there is an answer that serves: it keeps a row that passes, or there is
// nothing more to ask.
func (s *Scheduler) heard(x *outsiders, rows []hostedRow) bool {
	if x == nil {
		return false
	}
	if x.Err != nil || x.Rounds >= maxRounds {
		return true
	}
	more := false
	for i := range rows {
		name := s.nameOf(rows[i].Row.Row)
		if x.whyRefused(name) == nil {
			return true
		}
		if _, asked := x.Asked[name]; !asked {
			more = true
		}
	}
	return !more
}
