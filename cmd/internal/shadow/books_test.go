package shadow

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// stream makes real events of a cluster, of which it knows no more than that an API server has it: what another scheduler, controllers
// and kubelets do, in any order, and some of it twice or too late.
type stream struct {
	t     *rapid.T
	nodes map[string]*v1.Node
	pods  map[types.UID]*v1.Pod
	past  []*v1.Pod // gone
	made  int
}

func newStream(t *rapid.T) *stream {
	return &stream{t: t, nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{}}
}

func (s *stream) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(s.t, what) }

func (s *stream) one() *v1.Pod {
	if len(s.pods) == 0 {
		return nil
	}
	uids := slices.Sorted(maps.Keys(s.pods))
	return s.pods[uids[s.pick("pod", len(uids))]]
}

func (s *stream) name() string { return fmt.Sprintf("n%d", s.pick("node", 4)) }

func (s *stream) nodeSet() []objects.Event {
	name := s.name()
	s.nodes[name] = build.Node(name).CPU(fmt.Sprint(1 + s.pick("cores", 4))).Memory("4Gi").Pods("10").Zone("z" + name[1:]).Obj()
	return []objects.Event{{Type: objects.Modified, Kind: objects.KindNode, Node: s.nodes[name]}}
}

func (s *stream) nodeGone() []objects.Event {
	n := s.nodes[s.name()]
	if n == nil {
		return nil
	}
	delete(s.nodes, n.Name)
	return []objects.Event{{Type: objects.Deleted, Kind: objects.KindNode, Node: n}}
}

func (s *stream) set(p *v1.Pod) []objects.Event {
	s.pods[p.UID] = p
	return []objects.Event{{Type: objects.Modified, Kind: objects.KindPod, Pod: p}}
}

// create makes a pod. Where there is one of that name, it has gone unseen.
func (s *stream) create() (events []objects.Event) {
	s.made++
	name := fmt.Sprintf("p%d", s.pick("name", 20))
	for _, p := range s.pods {
		if p.Name == name {
			delete(s.pods, p.UID)
			s.past = append(s.past, p)
			events = []objects.Event{{Type: objects.Deleted, Kind: objects.KindPod, Pod: p}}
		}
	}
	b := build.Pod(name).UID(fmt.Sprintf("u%d", s.made)).
		CPU(fmt.Sprintf("%d00m", 1+s.pick("cpu", 20))).Priority(int32(s.pick("priority", 3)))
	switch s.pick("kind", 8) {
	case 0:
		b.Owner("apps/v1", "DaemonSet", "ds")
	case 1:
		b.Owner("v1", "Node", "static").Node(s.name())
	case 2:
		b.Node(s.name())
	case 3:
		b.Gate("wait")
	case 4:
		b.Mount(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})
	}
	p := b.Obj()
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	if s.pick("scheduler", 5) == 0 {
		p.Spec.SchedulerName = "other"
	}
	p.CreationTimestamp = metav1.NewTime(epoch)
	return append(events, s.set(p)...)
}

// change changes a pod in one of the ways in which it may change.
func (s *stream) change() []objects.Event {
	p := s.one()
	if p == nil {
		return nil
	}
	p = p.DeepCopy()
	switch s.pick("change", 7) {
	case 0, 1, 2:
		if p.Spec.NodeName == "" && len(p.Spec.SchedulingGates) == 0 {
			p.Spec.NodeName = s.name()
		}
	case 3:
		p.Spec.SchedulingGates = nil
	case 4:
		now := metav1.NewTime(epoch)
		p.DeletionTimestamp = &now
	case 5:
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(fmt.Sprintf("%d00m", 1+s.pick("cpu", 20)))
	case 6:
		p.Status.NominatedNodeName = s.name()
	}
	return s.set(p)
}

func (s *stream) end() []objects.Event {
	p := s.one()
	if p == nil {
		return nil
	}
	delete(s.pods, p.UID)
	s.past = append(s.past, p)
	p = p.DeepCopy()
	switch s.pick("end", 4) {
	case 0:
		p.Status.Phase = v1.PodFailed
		gone := objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: p}
		return []objects.Event{{Type: objects.Modified, Kind: objects.KindPod, Pod: p}, gone}
	case 1:
		p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
	}
	return []objects.Event{{Type: objects.Deleted, Kind: objects.KindPod, Pod: p}}
}

// late is told of what is gone already.
func (s *stream) late() []objects.Event {
	if len(s.past) == 0 {
		return nil
	}
	return []objects.Event{{Type: objects.Deleted, Kind: objects.KindPod, Pod: s.past[s.pick("past", len(s.past))]}}
}

func (s *stream) claim() []objects.Event {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "claim"}}
	if s.pick("bound", 2) == 0 {
		c.Spec.VolumeName = "pv"
	}
	return []objects.Event{{Type: objects.Modified, Kind: objects.KindPersistentVolumeClaim, Object: c}}
}

func (s *stream) next() []objects.Event {
	switch n := s.pick("event", 16); {
	case n < 2:
		return s.nodeSet()
	case n < 3:
		return s.nodeGone()
	case n < 8:
		return s.create()
	case n < 12:
		return s.change()
	case n < 14:
		return s.end()
	case n < 15:
		return s.late()
	}
	return s.claim()
}

// scheduler is an own world's scheduler as far as it takes events in: it refuses what no API server would tell.
type scheduler struct {
	t    *rapid.T
	pods map[types.UID]*v1.Pod
}

func (s *scheduler) take(events []objects.Event) {
	for i := range events {
		e := &events[i]
		if e.Pod == nil {
			continue
		}
		known := s.pods[e.Pod.UID]
		switch {
		case e.Type == objects.Deleted && known == nil:
			s.t.Fatalf("pod %s is deleted, which was not there", e.Pod.UID)
		case e.Type == objects.Deleted:
			if known.Spec.NodeName != e.Pod.Spec.NodeName {
				s.t.Fatalf("pod %s is deleted from node %q, and is on %q", e.Pod.UID, e.Pod.Spec.NodeName, known.Spec.NodeName)
			}
			delete(s.pods, e.Pod.UID)
			continue
		case (e.Type == objects.Added) != (known == nil):
			s.t.Fatalf("pod %s: %v, and it is known: %v", e.Pod.UID, e.Type, known != nil)
		case known != nil && known.Spec.NodeName != "" && known.Spec.NodeName != e.Pod.Spec.NodeName:
			s.t.Fatalf("pod %s moves from %q to %q", e.Pod.UID, known.Spec.NodeName, e.Pod.Spec.NodeName)
		}
		s.pods[e.Pod.UID] = e.Pod
	}
}

// Whatever really happens, and whatever the own world's scheduler decides, the own world is one that could be, and the books add up.
func TestNoEventMakesTheOwnWorldInconsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := epoch
		real, own := newStream(t), &scheduler{t, map[types.UID]*v1.Pod{}}
		var there objects.Snapshot
		for range rapid.IntRange(0, 12).Draw(t, "before") {
			real.next()
		}
		there.Nodes = slices.Collect(maps.Values(real.nodes))
		there.Pods = slices.Collect(maps.Values(real.pods))
		b := newBooks([]string{v1.DefaultSchedulerName}, now)
		for _, p := range b.load(&there, now).Pods {
			own.pods[p.UID] = p
		}
		checkBooks(t, b, own)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			switch n := rapid.IntRange(0, 9).Draw(t, "who"); {
			case n < 6:
				for _, e := range real.next() {
					own.take(b.event(&e, now))
					checkBooks(t, b, own)
				}
			case n < 9:
				uid := types.UID(fmt.Sprintf("u%d", 1+rapid.IntRange(0, real.made).Draw(t, "bound")))
				node := real.name()
				before := own.pods[uid]
				events, err := b.bind(uid, node, now)
				if can := before != nil && before.Spec.NodeName == "" && before.Spec.SchedulerName == v1.DefaultSchedulerName &&
					before.DeletionTimestamp == nil && real.nodes[node] != nil; can != (err == nil) {
					t.Fatalf("bind %s to %s: got %v, it can be: %v", uid, node, err, can)
				}
				own.take(events)
			default:
				var victims []*v1.Pod
				for _, uid := range slices.Sorted(maps.Keys(own.pods)) {
					if rapid.IntRange(0, 3).Draw(t, "victim") == 0 {
						victims = append(victims, own.pods[uid])
					}
				}
				own.take(b.evict(victims, now))
			}
			checkBooks(t, b, own)
		}
		for uid := range real.pods {
			if b.pods[uid] == nil {
				t.Fatalf("pod %s is there and not in the books", uid)
			}
		}
		if len(b.pods) != len(real.pods) {
			t.Fatalf("%d pods are there, %d in the books", len(real.pods), len(b.pods))
		}
	})
}

// checkBooks holds all that is kept against what it is made from.
func checkBooks(t *rapid.T, b *books, own *scheduler) {
	theirs, ours := newLayout(epoch), newLayout(epoch)
	known := 0
	for uid, p := range b.pods {
		theirs.put(p, p.theirs)
		ours.put(p, p.ours)
		if !p.fixed && !p.seen.IsZero() {
			if p.theirs == "" {
				theirs.pending++
			}
			if p.ours == "" && !p.lost {
				ours.pending++
			}
		}
		if p.lost && p.ours != "" {
			t.Fatalf("pod %s is lost and on %s", uid, p.ours)
		}
		if p.fixed && !p.lost && p.ours != p.theirs {
			t.Fatalf("fixed pod %s is on %q, and really on %q", uid, p.ours, p.theirs)
		}
		if p.told && !p.lost {
			known++
			want := p.ours
			if got := own.pods[uid]; got == nil || got.Spec.NodeName != want {
				t.Fatalf("pod %s: the own world has %v, want it on %q", uid, got, want)
			}
			if !p.fixed && own.pods[uid].Status.NominatedNodeName != "" {
				t.Fatalf("pod %s has the nomination that it really has", uid)
			}
		}
		refs, all := claimsOf(p.obj)
		for _, r := range refs {
			if _, held := b.held[r][p]; held != p.held {
				t.Fatalf("pod %s is held: %v, for %v: %v", uid, p.held, r, held)
			}
			all = all && b.bound[r]
		}
		if p.held && (all || p.told || p.fixed) {
			t.Fatalf("pod %s is held, told: %v, fixed: %v, its claims are bound: %v", uid, p.told, p.fixed, all)
		}
		if !p.fixed && p.ours != "" {
			if _, there := b.nodes[p.ours]; !there && p.theirs != p.ours {
				t.Fatalf("pod %s is on %s, which is gone", uid, p.ours)
			}
		}
	}
	if known != len(own.pods) {
		t.Fatalf("the own world has %d pods, the books have %d", len(own.pods), known)
	}
	for _, w := range []struct {
		what      string
		got, want *layout
	}{{"theirs", b.theirs, theirs}, {"ours", b.ours, ours}} {
		if w.got.pending != w.want.pending {
			t.Fatalf("%s: %d pods wait, want %d", w.what, w.got.pending, w.want.pending)
		}
		for name, n := range w.got.nodes {
			if _, there := b.nodes[name]; there != n.there {
				t.Fatalf("%s: node %s is there: %v, want %v", w.what, name, n.there, there)
			}
			want := w.want.nodes[name]
			if want == nil {
				want = &nodeUse{pods: map[*pod]struct{}{}}
			}
			if n.used != want.used || n.busy != want.busy || !reflect.DeepEqual(n.pods, want.pods) {
				t.Fatalf("%s: node %s has %v, %d busy; want %v, %d busy", w.what, name, n.used, n.busy, want.used, want.busy)
			}
		}
		for name := range w.want.nodes {
			if w.got.nodes[name] == nil {
				t.Fatalf("%s: node %s has pods and is not there", w.what, name)
			}
		}
	}
	p := b.packing()
	left := 0
	for _, c := range p.Left {
		left += c.Pods
	}
	if p.Compared < 0 || p.Compared+left != b.came {
		t.Fatalf("%d are compared, %d left out, of %d", p.Compared, left, b.came)
	}
}

// scene takes a cluster through what is told in a few words.
type scene struct {
	t   *testing.T
	b   *books
	now time.Time
}

func newScene(t *testing.T, nodes ...string) *scene {
	s := &scene{t, newBooks([]string{v1.DefaultSchedulerName}, epoch), epoch}
	var all objects.Snapshot
	for _, n := range nodes {
		all.Nodes = append(all.Nodes, build.Node(n).CPU("10").Memory("10Gi").Pods("10").Zone("zone-"+n).Obj())
	}
	s.b.load(&all, s.now)
	return s
}

func (s *scene) after(d time.Duration) { s.now = s.now.Add(d) }

func (s *scene) real(e objects.Event) []objects.Event { return s.b.event(&e, s.now) }

func (s *scene) pod(p *v1.Pod) []objects.Event {
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	return s.real(objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: p})
}

func (s *scene) gone(p *v1.Pod) []objects.Event {
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	return s.real(objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: p})
}

func (s *scene) bind(uid, node string) {
	s.t.Helper()
	if _, err := s.b.bind(types.UID(uid), node, s.now); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) wantLeft(left ...Count) {
	s.t.Helper()
	if got := s.b.packing().Left; !slices.Equal(got, left) {
		s.t.Errorf("left out: got %v, want %v", got, left)
	}
}

func TestWhatCanNotBeComparedIsLeftOutByWhy(t *testing.T) {
	claim := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	boundClaim := objects.Event{Type: objects.Modified, Kind: objects.KindPersistentVolumeClaim, Object: &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"}}}
	preempted := build.Pod("a").UID("a").Node("n1").Obj()
	preempted.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
	for name, c := range map[string]struct {
		run    func(*scene)
		left   string
		pinned string
	}{
		"both placed it": {run: func(s *scene) {
			s.pod(build.Pod("a").UID("a").Obj())
			s.bind("a", "n1")
			s.pod(build.Pod("a").UID("a").Node("n2").Obj())
			s.after(time.Hour)
			s.gone(build.Pod("a").UID("a").Node("n2").Obj())
		}},
		"both leave it pending": {run: func(s *scene) { s.pod(build.Pod("a").UID("a").Obj()) }},
		"on a node at first sight": {run: func(s *scene) { s.pod(build.Pod("a").UID("a").Node("n1").Obj()) },
			left: leftOnNode},
		"gone undecided": {run: func(s *scene) {
			s.pod(build.Pod("a").UID("a").Obj())
			s.bind("a", "n1")
			s.gone(build.Pod("a").UID("a").Obj())
		}, left: leftUndecided},
		"ended at once": {run: func(s *scene) {
			s.pod(build.Pod("a").UID("a").Obj())
			s.bind("a", "n1")
			s.pod(build.Pod("a").UID("a").Node("n2").Obj())
			s.after(soon - time.Second)
			s.gone(build.Pod("a").UID("a").Node("n2").Obj())
		}, left: leftEnded},
		"deleted at once": {run: func(s *scene) {
			s.pod(build.Pod("a").UID("a").Obj())
			s.bind("a", "n1")
			s.pod(build.Pod("a").UID("a").Node("n2").Obj())
			s.gone(build.Pod("a").UID("a").Node("n2").Terminating().Obj())
		}},
		"preempted by theirs": {run: func(s *scene) {
			s.pod(build.Pod("a").UID("a").Obj())
			s.bind("a", "n1")
			s.pod(build.Pod("a").UID("a").Node("n1").Obj())
			s.gone(preempted)
		}, left: leftTheirs},
		"preempted by ours": {run: func(s *scene) {
			s.pod(build.Pod("a").UID("a").Obj())
			s.bind("a", "n1")
			s.b.evict([]*v1.Pod{build.Pod("a").UID("a").Node("n1").Obj()}, s.now)
		}, left: leftOurs},
		"on a node that came": {run: func(s *scene) {
			s.real(objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: build.Node("n3").CPU("1").Obj()})
			s.pod(build.Pod("a").UID("a").Obj())
			s.bind("a", "n1")
			s.pod(build.Pod("a").UID("a").Node("n3").Obj())
		}, left: leftScaled},
		"on a node that goes": {run: func(s *scene) {
			s.pod(build.Pod("a").UID("a").Obj())
			s.bind("a", "n1")
			s.pod(build.Pod("a").UID("a").Node("n2").Obj())
			s.real(objects.Event{Type: objects.Deleted, Kind: objects.KindNode, Node: build.Node("n1").Obj()})
		}, left: leftScaled},
		"a claim that theirs binds": {run: func(s *scene) {
			if got := s.pod(build.Pod("a").UID("a").Mount(claim).Obj()); len(got) != 0 {
				s.t.Errorf("its claim is bound to nothing: got %v told", got)
			}
			if got := s.real(boundClaim); len(got) != 2 || got[0].Object == nil || got[1].Pod == nil || got[1].Type != objects.Added {
				s.t.Errorf("its claim is bound: got %v, want the claim, and then the pod", got)
			}
			s.bind("a", "n1")
			s.pod(build.Pod("a").UID("a").Mount(claim).Node("n2").Obj())
			if n := s.b.latency.ours.n; n != 0 {
				s.t.Errorf("it was held, and its latency counts")
			}
		}, pinned: pinnedClaims},
		"a claim that nobody binds": {run: func(s *scene) {
			s.pod(build.Pod("a").UID("a").Mount(claim).Obj())
			s.gone(build.Pod("a").UID("a").Mount(claim).Obj())
			if len(s.b.held) != 0 {
				s.t.Errorf("held for it: got %v", s.b.held)
			}
		}, left: leftUndecided},
		"a claim that was bound all along": {run: func(s *scene) {
			s.real(boundClaim)
			s.pod(build.Pod("a").UID("a").Mount(claim).Obj())
			s.bind("a", "n1")
		}},
		"of an extender": {run: func(s *scene) {
			s.b.notAsked = func(p *v1.Pod) string { return "extender of " + p.Name + " has a say in it" }
			s.pod(build.Pod("a").UID("a").Obj())
			s.bind("a", "n1")
		}, left: "extender of a has a say in it"},
		"a DaemonSet's": {run: func(s *scene) {
			s.pod(build.Pod("a").UID("a").Owner("apps/v1", "DaemonSet", "d").Obj())
			s.pod(build.Pod("a").UID("a").Owner("apps/v1", "DaemonSet", "d").Node("n1").Obj())
		}, pinned: pinnedDaemon},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, "n1", "n2")
			c.run(s)
			p := s.b.packing()
			switch {
			case c.left != "":
				s.wantLeft(Count{c.left, 1})
				if p.Compared != 0 || p.Drift != 1 {
					t.Errorf("got %d compared, drift %v; want 0, 1", p.Compared, p.Drift)
				}
			case c.pinned == pinnedDaemon:
				s.wantLeft()
			default:
				if s.wantLeft(); p.Compared != 1 || p.Drift != 0 {
					t.Errorf("got %d compared, drift %v; want 1, 0", p.Compared, p.Drift)
				}
			}
			var pinned []Count
			if c.pinned != "" {
				pinned = []Count{{c.pinned, 1}}
			}
			if !slices.Equal(p.Pinned, pinned) {
				t.Errorf("pinned: got %v, want %v", p.Pinned, pinned)
			}
		})
	}
}

// A DaemonSet's pod is in the own world once it is on its node, and does not make the node count as used.
func TestDaemonsAreWhereTheyReallyAre(t *testing.T) {
	s := newScene(t, "n1")
	daemon := func() *build.PodBuilder { return build.Pod("d").UID("d").CPU("1").Owner("apps/v1", "DaemonSet", "d") }
	if got := s.pod(daemon().Obj()); len(got) != 0 {
		t.Errorf("pending: got %v, want nothing to be told", got)
	}
	if got := s.pod(daemon().Node("n1").Obj()); len(got) != 1 || got[0].Type != objects.Added || got[0].Pod.Spec.NodeName != "n1" {
		t.Errorf("on its node: got %v, want it added there", got)
	}
	w := s.b.ours.world(s.b.places, s.now)
	if w.NodesInUse != 0 || w.Resources[0].Requested != 0.1 {
		t.Errorf("got %d nodes in use, %v of cpu; want 0, 0.1", w.NodesInUse, w.Resources[0].Requested)
	}
}

func TestLatencyIsFromSchedulableToBoundAndDecided(t *testing.T) {
	s := newScene(t, "n1")
	s.pod(build.Pod("a").UID("a").Gate("wait").Obj())
	s.after(time.Hour)
	for i := range 12 { // others that wait
		s.pod(build.Pod(fmt.Sprint("w", i)).UID(fmt.Sprint("w", i)).Obj())
	}
	s.pod(build.Pod("a").UID("a").Obj())
	s.after(10 * time.Millisecond)
	s.bind("a", "n1")
	s.after(90 * time.Millisecond)
	bound := build.Pod("a").UID("a").Node("n1").Obj()
	s.pod(bound)
	s.pod(bound)
	got := s.b.latency.report()
	near := func(got, want float64) bool { return got >= want && got < 1.06*want }
	if got.Ours.Pods != 1 || !near(got.Ours.P50, 0.01) || !near(got.Theirs.P99, 0.1) || got.TheirsByStatus.Pods != 0 {
		t.Errorf("got %+v; want 10 ms and 100 ms of one pod", got)
	}
	if len(got.ByQueue) != 1 || got.ByQueue[0].From != 10 || got.ByQueue[0].To != 99 {
		t.Errorf("by queue: got %+v; want one bin, from 10 to 99", got.ByQueue)
	}
	created := build.Pod("w0").UID("w0").Node("n1").Obj()
	created.CreationTimestamp = metav1.NewTime(epoch)
	created.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(epoch.Add(4 * time.Second))}}
	s.pod(created)
	if got := s.b.latency.report().TheirsByStatus; got.Pods != 1 || !near(got.P50, 4) {
		t.Errorf("by status: got %+v; want 4 s of one pod", got)
	}
	if w := s.b.theirs.world(s.b.places, s.now.Add(time.Minute)); w.Pending != 11 || w.PendingMinutes < 11 || w.PendingMinutes > 11.1 {
		t.Errorf("got %d pending for %v minutes; want 11 for 11", w.Pending, w.PendingMinutes)
	}
}

func TestQuantilesAreAtMostFivePercentTooHigh(t *testing.T) {
	for _, d := range []time.Duration{0, time.Microsecond, 10 * time.Microsecond, 11 * time.Microsecond, time.Millisecond, 999 * time.Millisecond,
		time.Hour, 11 * 24 * time.Hour} {
		var s sketch
		s.add(d)
		got := s.quantile(0.99)
		if got < d || float64(got) > 1.051*max(float64(d), float64(shortest)) {
			t.Errorf("%v: got %v", d, got)
		}
	}
	var s sketch
	s.add(1000 * 24 * time.Hour) // the last bin
	for range 99 {
		s.add(time.Second)
	}
	if p50, p99 := s.quantile(0.5), s.quantile(0.99); p50 > 1051*time.Millisecond || p99 > 1051*time.Millisecond || s.quantile(1) < 10*24*time.Hour {
		t.Errorf("got %v, %v, %v", p50, p99, s.quantile(1))
	}
}

func TestPacking(t *testing.T) {
	s := newScene(t, "n1", "n2", "n3")
	place := func(name, cpu, memory, ours, theirs string) {
		s.pod(build.Pod(name).UID(name).CPU(cpu).Memory(memory).Obj())
		s.bind(name, ours)
		s.pod(build.Pod(name).UID(name).CPU(cpu).Memory(memory).Node(theirs).Obj())
	}
	place("a", "6", "1Gi", "n1", "n1")
	place("b", "4", "1Gi", "n1", "n2")
	theirs, ours := s.b.theirs.world(s.b.places, s.now), s.b.ours.world(s.b.places, s.now)
	of := func(w World, name string) ResourceShare {
		return w.Resources[slices.IndexFunc(w.Resources, func(r ResourceShare) bool { return r.Resource == name })]
	}
	if theirs.NodesInUse != 2 || ours.NodesInUse != 1 {
		t.Errorf("nodes in use: got %d, %d; want 2, 1", theirs.NodesInUse, ours.NodesInUse)
	}
	if got, want := of(theirs, "cpu"), (ResourceShare{"cpu", 0.3333, 0, 10_000}); got != want {
		t.Errorf("theirs: got %v, want %v", got, want)
	}
	// n1 has all of its cpu used up, and 8 of 30 GiB there can't be had.
	if got, want := of(ours, "memory"), (ResourceShare{"memory", 0.0667, 0.2667, 10 << 30}); got != want {
		t.Errorf("ours: got %v, want %v", got, want)
	}
	if theirs.Skew != 0.6 || ours.Skew != 1 {
		t.Errorf("skew: got %v, %v; want 0.6, 1", theirs.Skew, ours.Skew)
	}
}

// What a cluster names is bounded before it comes into a report.
func TestNamesOfOthersAreBounded(t *testing.T) {
	s := newScene(t, "n1")
	for i := range 3 * maxSchedulers {
		p := build.Pod("p").UID(fmt.Sprint(i)).Request(fmt.Sprintf("example.com/r%d", i), "1").Obj()
		p.Spec.SchedulerName = fmt.Sprint("s", i)
		s.real(objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
	}
	s.pod(build.Pod("mine").UID("mine").Obj())
	got := s.b.cluster().Schedulers
	if len(got) != maxSchedulers+2 || got[0] != (SchedulerPods{otherSchedulers, 2 * maxSchedulers, false}) ||
		!slices.Contains(got, SchedulerPods{v1.DefaultSchedulerName, 1, true}) {
		t.Errorf("got %v; want %d names, the others together, and ours", got, maxSchedulers)
	}
	if n := len(s.b.places.names); n != maxResources {
		t.Errorf("got %d resources, want %d", n, maxResources)
	}
}

func TestATimelineIsBounded(t *testing.T) {
	var l timeline
	now := epoch
	for i := 0; i < 50*MaxPoints; i++ {
		if l.due(now) {
			l.add(Point{At: now})
		}
		if len(l.points) >= MaxPoints {
			t.Fatalf("got %d points after %d s", len(l.points), i)
		}
		now = now.Add(time.Second)
	}
	if len(l.points) < MaxPoints/2-1 || !l.points[0].At.Equal(epoch) {
		t.Errorf("got %d points from %v; want at least %d from the beginning", len(l.points), l.points[0].At, MaxPoints/2-1)
	}
	for i := 1; i < len(l.points)-1; i++ {
		if d := l.points[i].At.Sub(l.points[i-1].At); d < l.every/2 || d > l.every {
			t.Fatalf("points %d and %d are %v apart, want %v", i-1, i, d, l.every)
		}
	}
}
