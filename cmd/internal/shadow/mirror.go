package shadow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// MirrorConfig is what a Mirror is made of.
type MirrorConfig struct {
	// Scheduler has the judged profiles, and what else a scheduler decides by.
	Scheduler coordinator.SchedulerConfig
	// ToFind is after how many feasible nodes the other scheduler stops looking for a pod of a profile, in a cluster of so many nodes;
	// nil: it looks at all.
	ToFind func(profile string, nodes int) int
	// NotAsked names who else has a say in a pod's node and is not asked here; empty: nobody. nil: nobody ever.
	NotAsked func(*v1.Pod) string
	// Words is an explanation as people read it; nil: none is kept.
	Words func(pod string, e *pb.ExplainResponse) string
	// Now is the clock; nil: the real one.
	Now func() time.Time

	limits limits
}

// limits bound what a mirror keeps, and how long it lasts. Tests make them smaller.
type limits struct {
	// hold is how long events are held back: what comes meanwhile tells in which order decisions were made.
	hold time.Duration
	// behind is by how much more the mirror may be late before decisions are not judged any more, until it has caught up. held is how
	// many events are held back at the most: then they are held back for a shorter time.
	behind time.Duration
	held   int
	// back is how many changes, and for how long, are kept to look back at earlier states, and states at how many of them one decision
	// is judged at the most.
	back   int
	past   time.Duration
	states int
	// again is after how long it is looked again at a pod that they left pending and that we have a node for, and rest after how long at
	// one that nobody has a node for.
	again, rest time.Duration
}

func (l *limits) setDefaults() {
	l.hold, l.behind = cmp.Or(l.hold, 2*time.Second), cmp.Or(l.behind, 10*time.Second)
	l.held, l.back, l.states = cmp.Or(l.held, 1<<17), cmp.Or(l.back, 1<<13), cmp.Or(l.states, 96)
	l.past, l.again, l.rest = cmp.Or(l.past, 30*time.Second), cmp.Or(l.again, 20*time.Second), cmp.Or(l.rest, 2*time.Minute)
}

// Mirror is the cluster as it is, with a scheduler that decides nothing. At each decision of theirs it judges the pod, at the state
// that the decision was made at:
//
//	Deliver ──> held back, by revision ──step──> judge, at a bind, a refusal or a preemption ──> take in
//	             └─ what comes: the binds that were decided before, nominations, victims
//
// Make it, Load it, then Run it; Deliver and Report may be called from any goroutine meanwhile.
type Mirror struct {
	cfg       MirrorConfig
	limits    limits
	scheduler *coordinator.Scheduler
	thread    Thread
	profiles  map[string]bool

	mu    sync.Mutex
	held  []heldEvent // by revision
	tally *tally
	ready chan struct{} // has a token after Deliver

	// The rest belongs to Run.
	pending map[types.UID]*pendingPod // pods of judged profiles without a node
	last    map[types.UID]objects.Object
	log     []change // the newest changes, oldest first
	number  uint64   // of the last change
	nodes   int
	// claimants are those of pending with claims.
	claimants map[types.UID]bool
	looks     []look // at pods that are left pending, by when they are due
	opened    []*preemption
	strays    []stray
}

// heldEvent is an event that is held back since a time.
type heldEvent struct {
	objects.Event
	at time.Time
}

// pendingPod is a pod without a node.
type pendingPod struct {
	obj *v1.Pod
	// came and queued are the changes with which it came, and got its place in their queue: when it came, or when it was refused last.
	came, queued uint64
	// expected is the node for which it was judged before its bind; empty: it was not.
	expected string
	// narrowed tells that something of its claims was written, and not where it goes.
	narrowed bool
	// refused tells that they have found no node for it. doubted is since when we have one; zero: we have none.
	refused bool
	doubted time.Time
	counted bool      // as one for which nobody has a node, or which can't be judged
	look    time.Time // when it is looked at again
}

// NewMirror makes one of an empty cluster.
func NewMirror(cfg MirrorConfig) (*Mirror, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m := &Mirror{
		cfg: cfg, limits: cfg.limits, profiles: map[string]bool{}, tally: newTally(), ready: make(chan struct{}, 1),
		pending: map[types.UID]*pendingPod{}, claimants: map[types.UID]bool{}, last: map[types.UID]objects.Object{},
	}
	m.limits.setDefaults()
	c := cfg.Scheduler
	for name := range c.Profiles {
		m.profiles[name] = true
	}
	if c.Profiles == nil {
		m.profiles[v1.DefaultSchedulerName] = true
	}
	// Its queue's clock stands still: nothing is tried, and turns have no bounds.
	begun := time.Now()
	c.Observe, c.QueueNow = true, func() time.Time { return begun }
	c.Extenders, c.OutOfTree, c.Binder, c.Evictor, c.Reporter, c.Decisions = nil, nil, nil, nil, nil, nil
	c.VolumeController, c.DisruptionController = true, true
	var err error
	m.scheduler, err = coordinator.NewScheduler(c)
	return m, err
}

// Load takes in what is there at the beginning.
func (m *Mirror) Load(all *objects.Snapshot) {
	m.scheduler.Load(all, nil)
	for _, n := range all.Nodes {
		m.keep(n)
	}
	for _, p := range all.Pods {
		m.keep(p)
		if p.Spec.NodeName == "" && m.profiles[p.Spec.SchedulerName] {
			m.comes(p)
			m.number++
		}
	}
	for _, obj := range all.Cluster {
		m.keep(obj)
	}
}

// comes notes a pod without a node. The change is not numbered yet by which it has come.
func (m *Mirror) comes(p *v1.Pod) {
	m.pending[p.UID] = &pendingPod{obj: p, came: m.number + 1, queued: m.number + 1, refused: refusal(p) != nil}
	if hasClaims(p) {
		m.claimants[p.UID] = true
	}
}

// keep notes an object as it was last.
func (m *Mirror) keep(obj objects.Object) {
	if _, node := obj.(*v1.Node); node && m.last[obj.GetUID()] == nil {
		m.nodes++
	}
	m.last[obj.GetUID()] = obj
}

// Deliver takes events in, in the order in which each object has them. It does not wait for judgements.
func (m *Mirror) Deliver(events []objects.Event) {
	now := m.cfg.Now()
	m.mu.Lock()
	for i := range events {
		m.hold(heldEvent{events[i], now})
	}
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// hold puts an event among those that are held back. Kinds come by watches of their own, and revisions tell in which order all have
// happened, as far as the API server keeps them in one etcd; the order of one kind's events is never changed by it.
func (m *Mirror) hold(e heldEvent) {
	at := len(m.held)
	for at > 0 && e.Revision > 0 && m.held[at-1].Revision > e.Revision && m.held[at-1].Kind != e.Kind {
		at--
	}
	m.held = slices.Insert(m.held, at, e)
}

// stepEvery is how often it is looked whether events have been held back for long enough.
const stepEvery = 50 * time.Millisecond

// Run judges until ctx ends, and then what is held back still.
func (m *Mirror) Run(ctx context.Context) error {
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, alive := errgroup.WithContext(alive)
	g.Go(func() error { return m.thread.Run(func() error { return m.scheduler.Run(alive) }) })
	g.Go(func() error {
		defer end()
		tick := time.NewTicker(stepEvery)
		defer tick.Stop()
		for {
			if err := m.step(alive, false); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return m.step(alive, true)
			case <-alive.Done():
				return nil
			case <-tick.C:
			}
			select {
			case <-m.ready:
			default:
			}
		}
	})
	return g.Wait()
}

// step takes in the events that were held back for long enough, and judges. all: these are all that there will be.
func (m *Mirror) step(ctx context.Context, all bool) error {
	for {
		e, late, due := m.next(all)
		if !due {
			break
		}
		if err := m.take(ctx, &e, late); err != nil {
			return err
		}
	}
	m.closePreemptions(all)
	return m.lookAgain(ctx)
}

// next is the next event that is due; late: it is due for so long that nothing is judged by it.
func (m *Mirror) next(all bool) (e objects.Event, late, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) == 0 {
		return e, false, false
	}
	waits := m.cfg.Now().Sub(m.held[0].at)
	if waits < m.limits.hold && len(m.held) <= m.limits.held && !all {
		return e, false, false
	}
	e = m.held[0].Event
	m.held[0] = heldEvent{}
	if m.held = m.held[1:]; len(m.held) == 0 {
		m.held = nil
	}
	return e, waits > m.limits.hold+m.limits.behind, true
}

// ahead gives the events that are held back still, in order, until f is false.
func (m *Mirror) ahead(f func(*objects.Event) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.held {
		if !f(&m.held[i].Event) {
			return
		}
	}
}

// take judges what an event tells, and takes it in.
func (m *Mirror) take(ctx context.Context, e *objects.Event, late bool) error {
	var bind *pendingPod
	if e.Kind == objects.KindPod {
		known := m.pending[e.Pod.UID]
		if err := m.pod(ctx, e, late); err != nil {
			return err
		}
		if known != nil && e.Type != objects.Deleted && !objects.IsTerminal(e.Pod) && e.Pod.Spec.NodeName != "" {
			bind = known
		}
	}
	if err := m.claim(ctx, e, late); err != nil {
		return err
	}
	before := m.last[e.Any().GetUID()]
	m.remember(e, before, bind)
	m.scheduler.Deliver([]objects.Event{*e})
	switch {
	case e.Type != objects.Deleted:
		m.keep(e.Any())
	case before != nil:
		delete(m.last, e.Any().GetUID())
		if e.Node != nil {
			m.nodes--
		}
	}
	return nil
}

// pod judges what a pod's event tells. The pod is as it was before, for the scheduler.
func (m *Mirror) pod(ctx context.Context, e *objects.Event, late bool) error {
	p := e.Pod
	known, gone := m.pending[p.UID], e.Type == objects.Deleted || objects.IsTerminal(p)
	switch {
	case known != nil && gone:
		delete(m.pending, p.UID)
		delete(m.claimants, p.UID)
		if !known.counted {
			m.notJudged(wentPending)
		}
	case known != nil && p.Spec.NodeName != "":
		delete(m.pending, p.UID)
		return m.bound(ctx, known, p, late)
	case known != nil:
		return m.changed(ctx, known, p, late)
	case gone:
	case p.Spec.NodeName == "" && m.profiles[p.Spec.SchedulerName]:
		m.comes(p)
	case p.Spec.NodeName != "" && m.last[p.UID] == nil && m.profiles[p.Spec.SchedulerName]:
		m.notJudged(seenBound)
	}
	if known == nil && p.Spec.NodeName != "" && isVictim(p) && !wasVictim(m.last[p.UID]) {
		return m.victim(ctx, p, late)
	}
	return nil
}

// bound judges a pod that they have bound.
func (m *Mirror) bound(ctx context.Context, known *pendingPod, p *v1.Pod, late bool) error {
	node := p.Spec.NodeName
	m.closePreemption(p.UID)
	delete(m.claimants, p.UID)
	switch {
	case known.expected == node || known.counted && m.unasked(known.obj) != "":
		return nil
	case known.narrowed:
		m.notJudged(narrowed)
		return nil
	}
	return m.chosen(ctx, known, node, late)
}

// chosen judges a pod for which they have chosen a node.
func (m *Mirror) chosen(ctx context.Context, known *pendingPod, node string, late bool) error {
	p := known.obj
	if why := m.unasked(p); why != "" {
		m.notJudged(why)
		return nil
	}
	if late {
		m.notJudged(behind)
		return nil
	}
	found, err := m.scheduler.Judge(ctx, p.UID, node, false)
	if err != nil {
		return m.failed(ctx, err)
	}
	agrees := func(j *coordinator.Judgement) bool { return j.Passes && j.NodeScore >= j.Score }
	state := ""
	if !agrees(found) && !m.isSampled(p, found) {
		other, at, err := m.otherStates(ctx, known, node, false, agrees)
		switch {
		case err != nil:
			return m.failed(ctx, err)
		case other != nil:
			found, state = other, at
		}
	}
	return m.classify(ctx, p, node, found, state)
}

// isSampled tells whether they may have missed a better node, for they do not look at all.
func (m *Mirror) isSampled(p *v1.Pod, j *coordinator.Judgement) bool {
	return j.Passes && j.Feasible > m.toFind(p, j.Nodes)
}

func (m *Mirror) toFind(p *v1.Pod, nodes int) int {
	if m.cfg.ToFind == nil {
		return nodes
	}
	return m.cfg.ToFind(p.Spec.SchedulerName, nodes)
}

// classify counts a choice of theirs by what we make of it.
func (m *Mirror) classify(ctx context.Context, p *v1.Pod, node string, j *coordinator.Judgement, state string) error {
	m.count(func(t *tally) {
		if state != "" {
			t.states[state]++
		}
		t.lookedAt = min(float64(m.toFind(p, j.Nodes))/float64(max(j.Nodes, 1)), 1)
	})
	now := m.cfg.Now()
	switch {
	case j.Node == node:
		m.count(func(t *tally) { t.agree(p, Same, true) })
		return nil
	case j.Passes && j.NodeScore >= j.Score:
		m.count(func(t *tally) { t.agree(p, Tie, true) })
		return nil
	}
	d := Disagreement{Class: Refused, When: now.UTC(), Theirs: node, Ours: j.Node}
	switch {
	case j.Passes:
		d.Class, d.Regret = Lower, j.Score-j.NodeScore
	case j.Node == "":
		d.Class = OnlyTheirs
	}
	return m.disagree(ctx, p, d, j)
}

// disagree counts a choice of theirs that is not ours. It is explained where it is kept: that takes a look at each node.
func (m *Mirror) disagree(ctx context.Context, p *v1.Pod, d Disagreement, j *coordinator.Judgement) (err error) {
	var keeps bool
	var answer *pb.ExplainResponse
	m.count(func(t *tally) { keeps = t.keeps(&d) })
	if keeps {
		if answer, err = m.explain(ctx, p, d.Theirs); err != nil {
			return err
		}
	}
	if d.Class != Lower {
		d.Why = refusalOf(answer, d.Theirs)
	} else {
		d.Why = fmt.Sprintf("score %d, and %s has %d", j.NodeScore, j.Node, j.Score)
		if find := m.toFind(p, j.Nodes); j.Feasible > find {
			d.Why += fmt.Sprintf("; they stop looking after %d feasible nodes, of %d", find, j.Feasible)
		} else if why := against(answer, d.Theirs, j.Node); why != "" {
			d.Why += "; " + why
		}
	}
	m.count(func(t *tally) { t.disagree(p, d, func() string { return m.words(p, answer) }) })
	return nil
}

// count changes the tally.
func (m *Mirror) count(f func(*tally)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.tally)
}

func (m *Mirror) notJudged(why string) { m.count(func(t *tally) { t.notJudged[why]++ }) }

// failed counts a pod that could not be judged. An error of the scheduler that has ended is returned.
func (m *Mirror) failed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil || isStopped(err):
		return err
	case errors.Is(err, errBusy):
		m.notJudged(behind)
	case errors.Is(err, coordinator.ErrLeaving), errors.Is(err, coordinator.ErrNotPending):
		m.notJudged(wasLeaving)
	default:
		m.notJudged(metError)
	}
	return nil
}

// isStopped tells that the scheduler has ended, with whatever it was asked.
func isStopped(err error) bool { return errors.Is(err, coordinator.ErrStopped) }

// unasked names who has a say in a pod's node and is not asked; empty: nobody.
func (m *Mirror) unasked(p *v1.Pod) string {
	if m.cfg.NotAsked == nil {
		return ""
	}
	return m.cfg.NotAsked(p)
}

// explain explains a pending pod, and what becomes of it on some nodes.
func (m *Mirror) explain(ctx context.Context, p *v1.Pod, nodes ...string) (*pb.ExplainResponse, error) {
	nodes = slices.DeleteFunc(nodes, func(n string) bool { return n == "" })
	out, err := m.scheduler.Explain(ctx, &pb.ExplainRequest{Namespace: p.Namespace, Name: p.Name, Top: 3, NodeNames: nodes})
	if err != nil && (ctx.Err() != nil || isStopped(err)) {
		return nil, err
	}
	return out, nil
}

func (m *Mirror) words(p *v1.Pod, e *pb.ExplainResponse) string {
	if e == nil || m.cfg.Words == nil {
		return ""
	}
	return m.cfg.Words(p.Namespace+"/"+p.Name, e)
}

// Agreement is what all judgements come to up to now.
func (m *Mirror) Agreement() Agreement {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tally.report()
}

// Thread is that of the mirror's scheduler.
func (m *Mirror) Thread() *Thread { return &m.thread }
