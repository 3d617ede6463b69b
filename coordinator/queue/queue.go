package queue

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Config is what a queue is made of. The zero value of each field is upstream's default.
type Config struct {
	// Now is the clock.
	Now func() time.Time
	// InitialBackoff and MaxBackoff bound how long a failed pod waits. A negative
	// MaxBackoff: not at all.
	InitialBackoff, MaxBackoff time.Duration
	// MaxUnschedulable is how long a pod waits for an event at the most.
	MaxUnschedulable time.Duration
	// WaitBackoffOut leaves pods in Backoff for all their time, though Active runs out (the feature
	// gate SchedulerPopFromBackoffQ is off).
	WaitBackoffOut bool
	// Frozen says that the clock stands still. Pod groups are popped before their backoff is over then where Active runs out, as other
	// pods: it would never be over.
	Frozen bool
	// Profiles is what the queue asks of profiles; nil: nothing is known.
	Profiles Profiles
	// Plugins are the built-in plugins that reject nodes, or hold pods back.
	Plugins []Plugin
	// OutOfTree are plugins besides; nil: there are none.
	OutOfTree *OutOfTree
	// Met is told of each panic of a plugin's hint, or of its PreEnqueue, and which pod that was about; nil: it
	// was about an event alone. Without Met a panic goes on.
	Met func(plugin string, p *Pod, panicked any)
	// TellByLongest puts pods of one class into different buckets that differ in Pod.Longest: one may use held room, another may not.
	TellByLongest bool
	// Groups are the pod groups; nil: there are none, and pods that name one are tried one by one.
	Groups *groups.Groups
	// GaveUp is told of each pod group that is given up; nil: nobody is.
	GaveUp func(*Group)
	// Meter is told what the queue does; nil: nobody is. Timer is the clock that measures
	// for it; nil: the real one.
	Meter Meter
	Timer func() time.Time
}

// Queue holds the pods that are on no node. It belongs to one goroutine.
type Queue struct {
	now              func() time.Time
	backoffs         backoffs
	maxUnschedulable time.Duration
	waitBackoffOut   bool
	tellByLongest    bool
	frozen           bool
	born             time.Time // the first tick
	rules            *rules
	meter            Meter
	timer            func() time.Time

	pods    map[types.UID]*Pod
	names   map[types.NamespacedName]*Pod
	entries map[types.UID]*pb.QueueEntry // restored, their pods not yet added
	seq     uint64
	counts  [places]int

	active  heap
	costly  heap          // of Active, those that are
	aside   [awaits]aside // of Active, those whose owner has set them aside
	backoff heap
	errors  heap
	waiting heap  // Unschedulable, by Timestamp
	index   index // Unschedulable and Gated, by plugin
	flights flights
	moving  []*Pod // scratch

	states *groups.Groups // nil: there are no pod groups
	groups map[types.NamespacedName]*Group
	// topologies counts the pod groups that wait for room within one domain, by the label of nodes.
	topologies map[string]int
	deadlines  deadlines
	gaveUp     func(*Group)

	retellings *rate.Limiter // attempts for what pods are told alone

	nominations nominator
}

// New makes an empty queue. It panics where Config.Plugins contradict themselves.
func New(cfg Config) *Queue {
	plugins := slices.Concat(cfg.Plugins, cfg.OutOfTree.plugins())
	if cfg.Groups != nil {
		plugins = append(plugins, domainComes(cfg.Groups))
	}
	rules, err := newRules(plugins)
	if err != nil {
		panic(err)
	}
	if cfg.Meter == nil {
		cfg.Meter = unmetered{}
	}
	if cfg.Timer == nil {
		cfg.Timer = time.Now
	}
	rules.profiles, rules.outOfTree, rules.onPanic = cfg.Profiles, cfg.OutOfTree, cfg.Met
	order := cfg.OutOfTree.order()
	now := wall(cfg.Now)
	q := &Queue{
		now:  now,
		born: now(),
		backoffs: backoffs{initial: orDefault(cfg.InitialBackoff, DefaultInitialBackoff),
			max: orDefault(cfg.MaxBackoff, DefaultMaxBackoff)},
		maxUnschedulable: orDefault(cfg.MaxUnschedulable, DefaultMaxUnschedulable),
		waitBackoffOut:   cfg.WaitBackoffOut,
		tellByLongest:    cfg.TellByLongest,
		frozen:           cfg.Frozen,
		rules:            rules,
		meter:            cfg.Meter,
		timer:            cfg.Timer,
		pods:             map[types.UID]*Pod{},
		names:            map[types.NamespacedName]*Pod{},
		active:           heap{before: order},
		costly:           heap{before: order},
		aside:            [awaits]aside{newAside(order), newAside(order), newAside(order)},
		backoff:          heap{before: endsIn(order)},
		errors:           heap{before: endsIn(order)},
		waiting:          heap{before: olderThan},
		index:            index{before: order},
		states:           cfg.Groups,
		gaveUp:           cfg.GaveUp,
		groups:           map[types.NamespacedName]*Group{},
		topologies:       map[string]int{},
		retellings:       rate.NewLimiter(retellings, retellings),
	}
	if gang := rules.names[GangScheduling]; gang != 0 && q.states != nil {
		if err := rules.register(gang, q.domainChanged()); err != nil {
			panic(err)
		}
	}
	return q
}

// wall reads a clock without its monotonic part: all times of a queue, those out of the
// journal too, have to compare alike.
func wall(now func() time.Time) func() time.Time {
	if now == nil {
		now = time.Now
	}
	return func() time.Time { return now().Round(0) }
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// Add takes in a pod that is on no node. One that is there already is updated; another
// of the same name is gone.
func (q *Queue) Add(obj *v1.Pod) {
	if q.pods[obj.UID] != nil {
		q.Update(obj)
		return
	}
	p := &Pod{Timestamp: q.now(), Arrived: q.timer()}
	p.setObj(obj)
	q.enlist(p)
	if e := q.entries[obj.UID]; e != nil {
		delete(q.entries, obj.UID)
		q.restore(p, e)
	} else {
		q.admit(p, Active, eventPodAdded)
	}
	q.regroup(p.Group, eventPodAdded)
}

// enlist makes a pod known and gives it its number, unless it has one.
func (q *Queue) enlist(p *Pod) {
	if other := q.names[p.name()]; other != nil {
		q.Delete(other.Obj.UID)
	}
	if p.Seq == 0 {
		q.seq++
		p.Seq = q.seq
	}
	q.pods[p.Obj.UID], q.names[p.name()] = p, p
	q.join(p)
}

// Update takes in a pod's new object. Where the change is one that may help it, it is tried
// again. A pod that is not there is added.
func (q *Queue) Update(obj *v1.Pod) {
	p := q.pods[obj.UID]
	if p == nil {
		q.Add(obj)
		return
	}
	old := p.Obj
	if p.setObj(obj) {
		q.passOn(p)
	}
	if old.Status.NominatedNodeName != obj.Status.NominatedNodeName {
		p.nominated = nil
	}
	if p.place != InFlight {
		q.nominations.update(p)
	} else if p.NominatedNode != "" {
		q.nominations.change(p.NominatedNode)
	}
	if p.deleted {
		p.deleted = false
		q.names[p.name()] = p
	}
	switch p.place {
	case Active, Backoff, ErrorBackoff:
		q.lineOf(p).fix(p)
	case InFlight:
		q.updateInFlight(podUpdated(PendingPod, old, obj))
	case Gated:
		q.updateGated(p, podUpdated(PendingPod, old, obj))
	case Unschedulable:
		before := Pod{Obj: old}
		if !q.updateUnschedulable(p, podUpdated(PendingPod, old, obj)) && q.tellByLongest && p.Longest() != before.Longest() {
			q.requeue(p, eventPodUpdated)
		}
	}
	q.regroup(p.Group, eventPodUpdated)
}

// updateGated holds a pod's own events against it. Where none of them helps it stays held back, maybe with another message.
func (q *Queue) updateGated(p *Pod, events []Event) {
	if !q.updateUnschedulable(p, events) {
		if plugin, message := q.rules.gate(p); plugin == p.Gated {
			p.Message = message
		}
	}
}

// updateUnschedulable holds a pod's own events against it, and tells whether one of them helps.
func (q *Queue) updateUnschedulable(p *Pod, events []Event) bool {
	was := p.bucket
	q.index.remove(p)
	q.addToIndex(p) // it may name another claim than before
	p.bucket.inherit(was)
	for i := range events {
		if q.rules.helps(p.rejectors, p, &events[i]) {
			q.requeue(p, events[i].String())
			return true
		}
	}
	return false
}

// Delete drops a pod, wherever it is. One that is in flight stays so until Done, and is not
// taken back.
func (q *Queue) Delete(uid types.UID) {
	p := q.pods[uid]
	switch {
	case p == nil:
		delete(q.entries, uid)
	case p.place == InFlight:
		p.deleted = true
		q.passOn(p)
		q.nominations.drop(p)
		q.forgetName(p)
	default:
		g, waited := p.Group, p.place == Unschedulable
		q.drop(p)
		if waited && g != nil && !g.wait.counted { // the others may fit without it
			q.wakeMates(g, eventPodGroup)
		}
	}
}

// drop makes a pod unknown.
func (q *Queue) drop(p *Pod) {
	q.take(p)
	q.absolve(p)
	q.nominations.drop(p)
	delete(q.pods, p.Obj.UID)
	q.forgetName(p)
	q.passOn(p)
	q.leave(p)
}

func (q *Queue) forgetName(p *Pod) {
	if q.names[p.name()] == p {
		delete(q.names, p.name())
	}
}

// PopBatch appends up to n pods to into, in the queue's order; they are in flight then. Where
// Active runs out, pods are taken from Backoff before their time, unless they are to wait. Each is to be given to
// Done, Unschedulable, Error or GiveBack. With a pod of a pod group come all others of it that are queued, up to
// groups.MaxMembers of them, one after the other; they may make the batch longer.
func (q *Queue) PopBatch(n int, into []*Pod) []*Pod {
	q.Flush()
	ordinary, had := n, len(into)
	if q.costly.len() > 0 && n > 1 {
		ordinary--
	}
	for len(into)-had < ordinary {
		p := q.active.head()
		early := p == nil
		if early {
			if p = q.backoff.head(); p == nil || q.waitBackoffOut || q.costly.len() > 0 {
				break
			}
			q.tell(Active, eventPoppedEarly)
		}
		from := len(into)
		if into = q.popWithMates(p, early, into); slices.ContainsFunc(into[from:], (*Pod).isCostly) {
			return into
		}
	}
	return q.popCostly(n, into)
}

// Peek appends the first n pods of Active to into, in the queue's order. They stay where they are.
func (q *Queue) Peek(n int, into []*Pod) []*Pod {
	from := len(into)
	for range min(n, q.active.len()) {
		p := q.active.head()
		q.active.remove(p)
		into = append(into, p)
	}
	for _, p := range into[from:] {
		q.active.push(p)
	}
	return into
}

// pop takes a pod for a batch.
func (q *Queue) pop(p *Pod) *Pod {
	p.from = p.place
	q.take(p)
	q.absolve(p)
	p.last, p.Aside = (p.isCostly() || p.Aside != 0) && p.from == Active, 0
	p.Attempts++
	p.activated = false
	q.put(p, InFlight)
	return p
}

// Turn begins the attempt of a pod that was popped with others: it is false where the
// queue would give another first by now, for events since have brought one. Then the pod is
// to be given back. What happened before its turn is not held against its attempt.
func (q *Queue) Turn(p *Pod) bool {
	if p.place != InFlight {
		return true
	}
	turn := p
	if p.last {
		q.flights.turn(turn)
		return true
	}
	p = q.first(p)
	head := q.active.head()
	if p.from != Active {
		other := q.backoff.head()
		if head != nil || other != nil && q.backoff.before(other, p) {
			return false
		}
	} else if head != nil && q.active.before(head, p) {
		return false
	}
	q.flights.turn(turn)
	return true
}

// Done ends the attempt of a pod that has a node, or is not to be tried again: it leaves
// the queue.
func (q *Queue) Done(uid types.UID) {
	if p := q.pods[uid]; p != nil && p.place == InFlight {
		p.represents = nil
		q.placed(p)
		q.drop(p)
	}
}

// Move tries the pods again that an event may help, and returns how many there are. Those
// in flight are held against it when their attempt fails.
func (q *Queue) Move(e Event) int {
	q.flights.moved++
	if !q.rules.hooked(&e) && len(q.index.lists[unknown.index()]) == 0 {
		return 0
	}
	return q.moveFor(e)
}

// Moved counts the events so far, those of pods in flight included.
func (q *Queue) Moved() uint64 { return q.flights.moved }

func (q *Queue) moveFor(e Event) int {
	representatives := 0
	if q.counts[Unschedulable]+q.counts[Gated] > 0 {
		q.forgetAsked()
		begin := q.timer()
		q.moving = q.index.helped(q.rules, &e, q.concerned(&e), q.moving[:0])
		q.moving = q.gaining(&e, q.awaited(&e, q.moving))
		representatives = len(q.moving)
		q.moving = q.retold(&e, q.moving)
		if q.rules.asked.plugins != 0 {
			q.hinted(&e, q.timer().Sub(begin))
		}
	} else {
		q.rules.interested(&e)
		q.moving = q.moving[:0]
	}
	if e.concerns != unknown {
		q.flights.record(&e)
	}
	if len(q.moving) == 0 {
		return 0
	}
	name := e.String()
	n := 0
	for i, p := range q.moving {
		if p.bucket == nil {
			continue // it is there twice
		}
		if p.bucket.limited && i < representatives {
			p.represents = &representative{p.bucket.bucketKey, name}
		}
		q.requeue(p, name)
		n++
	}
	clear(q.moving)
	return n
}

// concerned are the buckets of an event's own pod, and of the pods that are nominated to its node.
func (q *Queue) concerned(e *Event) (out []*bucket) {
	add := func(p *Pod) {
		if p != nil && p.bucket != nil {
			out = append(out, p.bucket)
		}
	}
	for _, obj := range [...]*v1.Pod{e.oldPod, e.pod} {
		if obj != nil {
			add(q.pods[obj.UID])
		}
	}
	if node := e.nodeName(); node != "" {
		for _, p := range q.nominations.pods[node] {
			add(p)
		}
	}
	return out
}

// updateInFlight keeps a pod's own events until its attempt is over.
func (q *Queue) updateInFlight(events []Event) {
	for i := range events {
		q.flights.moved++
		if q.rules.interested(&events[i]) != unknown {
			q.flights.record(&events[i])
		}
	}
}

// Activate makes pods active at once, whatever they wait for; those in flight are tried again
// when their attempt fails. Gates still hold.
func (q *Queue) Activate(uids ...types.UID) {
	for _, uid := range uids {
		p := q.pods[uid]
		if p == nil {
			continue
		}
		switch p.place {
		case Backoff, ErrorBackoff, Unschedulable, Gated:
			q.admit(p, Active, eventActivated)
		case InFlight:
			p.activated = true
		}
	}
}
