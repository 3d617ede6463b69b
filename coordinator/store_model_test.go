package coordinator

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// storeModel is the store of a scheduler in a bubble: it keeps pods and nodes at revisions,
// refuses what rests on an old one, and lets the scheduler know of every change, some time
// later. Now and then it does not answer a bind, or answers late.
type storeModel struct {
	mu       sync.Mutex
	r        *rand.Rand
	revision int
	nodes    map[string]*v1.Node
	pods     map[types.UID]*v1.Pod
	others   map[objects.Ref]objects.Object // claims and volumes
	names    int
	binds    map[types.UID]int
	foul     []string // what must never happen, and did

	events chan objects.Event
}

func newStoreModel(seed uint64) *storeModel {
	return &storeModel{
		r: rand.New(rand.NewPCG(seed, 11)), nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{},
		others: map[objects.Ref]objects.Object{}, binds: map[types.UID]int{}, events: make(chan objects.Event, 1<<16),
	}
}

func (w *storeModel) chance(percent int) bool { return w.r.IntN(100) < percent }

// tell queues a change for the scheduler.
func (w *storeModel) tell(typ objects.EventType, obj any) {
	e := objects.Event{Type: typ, Revision: int64(w.revision)}
	switch obj := obj.(type) {
	case *v1.Node:
		e.Kind, e.Node = objects.KindNode, obj
	case *v1.Pod:
		e.Kind, e.Pod = objects.KindPod, obj
	case objects.Object:
		e.Kind, e.Object = objects.KindOf(obj), obj
	}
	w.events <- e
}

// write keeps a pod's next version. w.mu is held.
func (w *storeModel) write(typ objects.EventType, p *v1.Pod) {
	w.revision++
	p.ResourceVersion = strconv.Itoa(w.revision)
	w.pods[p.UID] = p
	w.tell(typ, p)
}

// Bind is what the store's does, one binding after the other.
func (w *storeModel) Bind(ctx context.Context, bs []objects.Binding, done func(int, error)) {
	w.mu.Lock()
	late := time.Duration(w.r.IntN(3000)) * time.Millisecond
	w.mu.Unlock()
	select {
	case <-time.After(late):
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, b := range bs {
		err := w.bind(b)
		if w.chance(5) {
			err = objects.ErrUnknown // whether it was committed or not
		}
		done(i, err)
	}
}

func (w *storeModel) bind(b objects.Binding) error {
	p := w.pods[b.Pod.UID]
	switch {
	case w.chance(5):
		return objects.ErrUnknown
	case p == nil:
		return objects.ErrNotFound
	case p.Spec.NodeName == b.Node:
		return nil
	case p.Spec.NodeName != "":
		return objects.ErrAlreadyBound
	case p.ResourceVersion != b.Pod.ResourceVersion:
		return objects.ErrConflict
	}
	bound := p.DeepCopy()
	bound.Spec.NodeName = b.Node
	w.binds[p.UID]++
	w.write(objects.Modified, bound)
	w.audit(b)
	return nil
}

// audit holds a node's pods against what it has.
func (w *storeModel) audit(b objects.Binding) {
	n := w.nodes[b.Node]
	if n == nil {
		return // it went meanwhile
	}
	cpu, ports, alone := int64(0), map[uint32]int{}, 0
	for _, p := range w.pods {
		if p.Spec.NodeName != b.Node || objects.IsTerminal(p) {
			continue
		}
		if p.Labels["alone"] == "yes" {
			alone++
		}
		u := compile.Usage(p)
		cpu += u.GetRequests().GetMilliCpu()
		for _, port := range u.GetHostPorts() {
			ports[port.GetPort()]++
		}
	}
	if has := n.Status.Allocatable.Cpu().MilliValue(); cpu > has {
		w.foul = append(w.foul, fmt.Sprintf("node %s has %dm and is bound %dm, the last of it %s", n.Name, has, cpu, b.Pod.Name))
	}
	if alone > 1 {
		w.foul = append(w.foul, fmt.Sprintf("node %s has %d pods that want to be alone, the last of them %s", n.Name, alone, b.Pod.Name))
	}
	for port, pods := range ports {
		if pods > 1 {
			w.foul = append(w.foul, fmt.Sprintf("port %d of node %s is bound to %d pods, the last of them %s", port, n.Name, pods, b.Pod.Name))
		}
	}
}

// happen does one thing at random.
func (w *storeModel) happen(meddlers bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n := w.r.IntN(100); {
	case n < 40:
		w.create()
	case n < 45:
		w.volume()
	case n < 55:
		w.change()
	case n < 70:
		w.remove()
	case n < 75:
		w.finish()
	case n < 85:
		w.setNode()
	case n < 92:
		w.removeNode()
	case meddlers:
		w.bindByAnother()
	}
}

func (w *storeModel) create() {
	w.names++
	p := build.Pod(fmt.Sprintf("p%04d", w.names)).CPU(fmt.Sprint(1 + w.r.IntN(3))).Priority(int32(w.r.IntN(2)))
	if w.chance(15) {
		p.HostPort("", "", 80)
	}
	if w.chance(20) {
		p.NodeSelector("zone", fmt.Sprint(w.r.IntN(2)))
	}
	if w.chance(30) {
		p.Claim(w.claim())
	}
	if w.chance(15) {
		p.Label("alone", "yes").Apart(build.Around(v1.LabelHostname, "alone=yes"))
	}
	obj := p.Obj()
	if w.chance(5) {
		obj.Spec.SchedulerName = "another"
	}
	w.write(objects.Added, obj)
}

// some picks a pod for which f holds; nil: there is none.
func (w *storeModel) some(f func(*v1.Pod) bool) *v1.Pod {
	var list []*v1.Pod
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		if f(w.pods[uid]) {
			list = append(list, w.pods[uid])
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[w.r.IntN(len(list))].DeepCopy()
}

func pending(p *v1.Pod) bool { return p.Spec.NodeName == "" && !objects.IsTerminal(p) }

func (w *storeModel) change() {
	p := w.some(pending)
	if p == nil {
		return
	}
	switch w.r.IntN(4) {
	case 0:
		p.Spec.Containers = build.Pod("x").CPU(fmt.Sprint(1 + w.r.IntN(3))).Obj().Spec.Containers
	case 1:
		p.Spec.NodeSelector = nil
	case 2:
		p.Spec.SchedulerName = v1.DefaultSchedulerName
		if w.chance(30) {
			p.Spec.SchedulerName = "another"
		}
	default:
		p.Labels = map[string]string{"at": fmt.Sprint(w.revision)}
	}
	w.write(objects.Modified, p)
}

func (w *storeModel) remove() {
	if p := w.some(func(*v1.Pod) bool { return true }); p != nil {
		w.revision++
		delete(w.pods, p.UID)
		w.tell(objects.Deleted, p)
	}
}

// finish lets a pod run to its end.
func (w *storeModel) finish() {
	if p := w.some(func(p *v1.Pod) bool { return p.Spec.NodeName != "" && !objects.IsTerminal(p) }); p != nil {
		p.Status.Phase = v1.PodSucceeded
		w.write(objects.Modified, p)
	}
}

func (w *storeModel) bindByAnother() {
	if p := w.some(pending); p != nil {
		p.Spec.NodeName = fmt.Sprintf("n%d", w.r.IntN(6))
		w.write(objects.Modified, p)
	}
}

// setNode adds a node, lets one grow, or sends a heartbeat.
func (w *storeModel) setNode() {
	i := w.r.IntN(5)
	name := fmt.Sprintf("n%d", i)
	was := w.nodes[name]
	cpu := int64(2 + w.r.IntN(3))
	typ := objects.Added
	if was != nil {
		cpu = max(cpu, was.Status.Allocatable.Cpu().Value()) // one that shrinks is over its top, rightly
		typ = objects.Modified
	} else {
		cpu = 6 // what pods of its former life may have been bound
	}
	w.revision++
	n := build.Node(name).CPU(fmt.Sprint(min(cpu, 6))).Label("zone", fmt.Sprint(i%2)).Label(v1.LabelHostname, name).Obj()
	w.nodes[name] = n
	w.tell(typ, n)
}

func (w *storeModel) removeNode() {
	if len(w.nodes) < 2 {
		return
	}
	names := slices.Sorted(maps.Keys(w.nodes))
	n := w.nodes[names[w.r.IntN(len(names))]]
	w.revision++
	delete(w.nodes, n.Name)
	w.tell(objects.Deleted, n)
}

// watch hands the changes to the scheduler, some together, some late.
func (w *storeModel) watch(ctx context.Context, s *Scheduler, late *rand.Rand) {
	for {
		var batch []objects.Event
		select {
		case <-ctx.Done():
			return
		case e := <-w.events:
			batch = append(batch, e)
		}
		if late.IntN(3) == 0 {
			<-time.After(time.Duration(late.IntN(2000)) * time.Millisecond)
		}
		for len(w.events) > 0 && len(batch) < 5 {
			batch = append(batch, <-w.events)
		}
		s.Deliver(batch)
	}
}

// Pods come, change and go, nodes too, binds fail, hang and come out differently than
// they seem to, and others bind pods behind the scheduler's back: at the end every
// pod is on a node or fits nowhere, none was bound twice, no node ever has more than fits, and
// nothing is remembered of what is gone.
func TestNothingIsLostWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		steps := rapid.IntRange(1, 150).Draw(rt, "steps")
		meddlers := rapid.Bool().Draw(rt, "meddlers")
		batch := rapid.SampledFrom([]int{1, 3, 100}).Draw(rt, "batch")
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			problems = live(t, newStoreModel(seed), steps, batch, meddlers)
		})
		for _, p := range problems {
			rt.Error(p)
		}
	})
}

// live lets that many things happen and tells what is wrong at the end.
func live(t *testing.T, w *storeModel, steps, batch int, meddlers bool) (problems []string) {
	l := newLedger()
	s, err := NewScheduler(SchedulerConfig{Cluster: "test", Term: 1, Shards: 2, BatchSize: batch, Binder: w, VolumeWriter: w, Journal: l, Profiles: withoutPreemption()})
	if err != nil {
		t.Fatal(err)
	}
	w.keep(objects.Added, build.WaitingClass("local", ""))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	dice := rand.New(rand.NewPCG(w.r.Uint64(), 1)) // w's own belongs to who holds w.mu
	var running sync.WaitGroup
	var ended error
	running.Go(func() { ended = s.Run(ctx) })
	running.Go(func() { w.watch(ctx, s, rand.New(rand.NewPCG(1, 2))) })
	for range steps {
		w.happen(meddlers)
		if dice.IntN(3) == 0 {
			<-time.After(time.Duration(dice.IntN(4000)) * time.Millisecond)
		}
	}
	elapse(time.Minute) // no pod rests that long where something could help it
	for range 6 {       // but one that is out of luck again and again may be on its way
		busy := false
		if err := s.call(ctx, func() {
			busy = len(s.binds.pending) > 0 || s.queue.Len(queue.Backoff)+s.queue.Len(queue.ErrorBackoff) > 0
		}); err != nil || !busy {
			break
		}
		elapse(30 * time.Second)
	}
	if err := s.call(ctx, func() { problems = w.judge(t, s, l, meddlers) }); err != nil {
		problems = append(problems, err.Error())
	}
	cancel()
	running.Wait()
	if ended != nil {
		problems = append(problems, fmt.Sprintf("Run: got %v, want nil", ended))
	}
	return problems
}

// judge compares what the scheduler believes with what is.
func (w *storeModel) judge(t *testing.T, s *Scheduler, l *ledger, meddlers bool) (problems []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if !meddlers { // who bind without looking
		problems = append(problems, w.foul...)
	}
	for uid, n := range w.binds {
		if n > 1 {
			wrong("%s was bound %d times, want once", uid, n)
		}
	}
	var nodes []*v1.Node
	var running []*v1.Pod
	for _, n := range w.nodes {
		nodes = append(nodes, n)
	}
	waiting := map[types.UID]bool{}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[uid]
		if p.Spec.NodeName != "" && !objects.IsTerminal(p) {
			running = append(running, p)
		}
		waiting[uid] = pending(p) && p.Spec.SchedulerName == v1.DefaultSchedulerName
	}
	if len(s.intake.Outside().Why()) > 0 || s.counter("shardsched_panics_total", "hint") > 0 {
		wrong("hints have met %v bugs; in quarantine: %v", s.counter("shardsched_panics_total", "hint"), s.intake.Outside().Why())
	}
	truth := newOneByOne(t, nodes, running, slices.Collect(maps.Values(w.others))...)
	if !meddlers {
		problems = append(problems, w.judgeClaims()...)
	}
	for uid, waits := range waiting {
		if waits {
			problems = append(problems, w.judgePending(s, truth, uid)...)
		}
	}
	s.queue.Each(func(p *queue.Pod) {
		if !waiting[p.Obj.UID] {
			wrong("%s is in the queue (%s), want it gone", p.Obj.Name, p.Place())
		}
	})
	all, assumed := s.state.Pods()
	if all != len(running) || assumed != 0 || s.state.Nodes() != len(nodes) {
		wrong("cache: got %d pods, %d assumed, %d nodes; want %d, 0, %d", all, assumed, s.state.Nodes(), len(running), len(nodes))
	}
	if d := cmp.Diff(rowsOf(truth.state.Cache), rowsOf(s.state.Cache)); d != "" {
		wrong("rows (-as it is +as believed):\n%s", d)
	}
	for _, kept := range [][]types.UID{keysOf(s.binds.pending), keysOf(s.failing), keysOf(l.kept)} {
		for _, uid := range kept {
			if !waiting[uid] {
				wrong("something is kept of %s, which is not pending", uid)
			}
		}
	}
	if len(s.binds.pending) > 0 {
		wrong("binds under way: got %v, want none", keysOf(s.binds.pending))
	}
	return problems
}

func keysOf[V any](m map[types.UID]V) []types.UID { return slices.Sorted(maps.Keys(m)) }

// judgePending holds that a pod that waits has reason to.
func (w *storeModel) judgePending(s *Scheduler, truth *oneByOne, uid types.UID) (problems []string) {
	want := truth.decide(w.pods[uid])
	if want.Node != "" {
		if _, err := truth.state.Forget(w.pods[uid]); err != nil {
			problems = append(problems, err.Error())
		}
	}
	p := s.queue.Get(uid)
	switch {
	case p == nil:
		problems = append(problems, fmt.Sprintf("%s is pending and not in the queue", uid))
	case want.Node != "":
		problems = append(problems, fmt.Sprintf("%s waits (%s, %q), and there is room on %s", uid, p.Place(), p.Message, want.Node))
	case p.Message == "":
		problems = append(problems, fmt.Sprintf("%s waits (%s) without a reason", uid, p.Place()))
	case p.Obj.ResourceVersion != w.pods[uid].ResourceVersion:
		problems = append(problems, fmt.Sprintf("%s waits at version %s, want %s", uid, p.Obj.ResourceVersion, w.pods[uid].ResourceVersion))
	}
	return problems
}

// rowsOf is what each node's pods add up to, whichever decision came last.
func rowsOf(c *cache.Cache) map[string]string {
	out := map[string]string{}
	for i := range c.NumShards() {
		c.Table(i).Snapshot(func(r *pb.SnapshotRow) bool {
			r.Totals.LastDecision = 0
			out[r.GetNode().GetName()] = r.GetTotals().String()
			return true
		})
	}
	return out
}
