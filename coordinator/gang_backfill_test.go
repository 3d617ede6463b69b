package coordinator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// timed has a pod run for so many seconds at the most, from epoch on where it has a node.
func timed(b *build.PodBuilder, seconds int64) *v1.Pod {
	p := b.Obj()
	p.Spec.ActiveDeadlineSeconds = &seconds
	if p.Spec.NodeName != "" {
		p.Status.StartTime = &metav1.Time{Time: epoch}
	}
	return p
}

// heldUntil is a gang of 4 on two nodes of 2 CPUs, one of which another pod has, as of a clock that the test moves.
func heldUntil(t *testing.T, old *v1.Pod, now *time.Time) *gangScene {
	cfg := SchedulerConfig{GangReservation: true, Kubelets: true, MaxBackoff: -1, QueueNow: func() time.Time { return *now }}
	nodes := append(nodesOf("2", "n-0"), nodesOf("2", "n-1")...)
	x := playGang(t, cfg, build.Gang("g", 4).Obj(), nodes, append([]*v1.Pod{old}, members("a", "b", "c", "d")...)...)
	if x.reservation.holder != x.group {
		t.Fatal("no room is held")
	}
	x.cfg.QueueNow = cfg.QueueNow // also between deliveries
	return x
}

func old() *build.PodBuilder { return build.Pod("old").UID("old").CPU("1").Node("n-1") }

func small() *build.PodBuilder { return build.Pod("small").UID("small").CPU("1") }

// membersOf are the gang's members that wait, with their classes.
func (x *gangScene) membersOf(t testing.TB) (out []member) {
	t.Helper()
	for p := range x.queue.All() {
		prof := x.cfg.Profiles[p.Obj.Spec.SchedulerName]
		class, err := x.guard.ClassOf(p.Obj, prof)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, member{attempt: &attempt{Try: choice.Try{Pod: p, Profile: prof, Class: class}}})
	}
	slices.SortFunc(out, func(a, b member) int { return strings.Compare(a.Pod.Obj.Name, b.Pod.Obj.Name) })
	return out
}

func TestNobodyGetsTheRoomThatIsHeldWhereNobodyKubelets(t *testing.T) {
	x := crowded(t, SchedulerConfig{GangReservation: true, QueueNow: func() time.Time { return epoch }})
	x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: timed(old(), 600)})
	x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPodGroup, Object: build.Gang("g", 4).Annotation("try", "1").Obj()})
	x.turn(t)
	if x.arrives(t, timed(small(), 1)); x.on("small") != "" || x.reservation.holder != x.group {
		t.Errorf("room is held for %v, and a pod is on %q", x.reservation.holder, x.on("small"))
	}
}

func TestPodsThatEndBeforeAGangMayStartGetTheRoomThatIsHeld(t *testing.T) {
	leaves := timed(old(), 600)
	leaves.DeletionTimestamp, leaves.Finalizers = &metav1.Time{Time: epoch.Add(590 * time.Second)}, []string{"test/keeps"}
	unseen := timed(old(), 600)
	unseen.Status.StartTime = nil
	slow := timed(small(), 60)
	slow.Spec.TerminationGracePeriodSeconds = new(int64(3600))
	for name, c := range map[string]struct {
		old, small *v1.Pod
		gets       bool
	}{
		"it does not say when it ends":                  {timed(old(), 600), small().Obj(), false},
		"it ends before":                                {timed(old(), 600), timed(small(), 300), true},
		"it ends just before":                           {timed(old(), 600), timed(small(), 516), true},
		"it may end a second after":                     {timed(old(), 600), timed(small(), 517), false},
		"it may take long to end":                       {timed(old(), 600), slow, false},
		"it is of a pod group":                          {timed(old(), 600), timed(small().Member("other"), 300), false},
		"nobody knows when the gang starts":             {old().Obj(), timed(small(), 1), false},
		"a pod is leaving, and may be gone at any time": {leaves, timed(small(), 1), false},
		"a pod should have ended, and has not":          {timed(old(), 0), timed(small(), 1), false},
		"no kubelet has seen the pod that has the room": {unseen, timed(small(), 516), true},
		"its deadline overflows a duration":             {timed(old(), 600), timed(small(), 1<<62), false},
	} {
		t.Run(name, func(t *testing.T) {
			now := epoch
			x := heldUntil(t, c.old, &now)
			if c.small.Spec.SchedulingGroup != nil {
				x.groups.Set(build.Gang("other", 1).Obj())
			}
			x.arrives(t, c.small)
			if got := x.on("small"); (got != "") != c.gets {
				t.Errorf("it is on %q, want a node: %v", got, c.gets)
			}
			told := ""
			for _, d := range x.decided(t) {
				if d.Pod == "default/small" {
					told = d.Backfills
				}
			}
			if (told == "default/g") != c.gets {
				t.Errorf("it is told that it might take room held for %q, want that of the gang: %v", told, c.gets)
			}
		})
	}
}

// The gang starts no later for a pod that had its room meanwhile, and nobody takes the room once that pod has ended.
func TestAGangStartsOnceThePodsHaveEndedThatHadItsRoom(t *testing.T) {
	now := epoch
	x := heldUntil(t, timed(old(), 600), &now)
	x.arrives(t, timed(small(), 300))
	node := x.on("small")
	if node == "" {
		t.Fatal("it waits")
	}
	x.arrives(t, build.Pod("other").UID("other").CPU("1").Obj())
	x.leaves(t, "small", node)
	if got := x.on("other"); got != "" {
		t.Errorf("a pod that does not say when it ends is on %s", got)
	}
	x.leaves(t, "old", "n-1")
	if got := x.on("a", "b", "c", "d"); strings.Contains(" "+got+" ", "  ") {
		t.Errorf("the gang is on %q, want all of it on nodes", got)
	}
}

// Pods that wait are tried once it is known that the gang starts late enough, also those behind one of their kind that runs for too long.
func TestWaitingPodsAreTriedOnceAGangStartsLater(t *testing.T) {
	now := epoch
	x := heldUntil(t, old().Obj(), &now)
	for _, name := range strings.Fields("long l1 l2 l3 l4 l5") {
		x.arrives(t, timed(build.Pod(name).UID(name).CPU("1"), 3600))
		slow := timed(build.Pod("slow-"+name).UID("slow-"+name).CPU("1"), 300)
		slow.Spec.TerminationGracePeriodSeconds = new(int64(3600))
		x.arrives(t, slow)
	}
	x.arrives(t, timed(small(), 300))
	x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: timed(old(), 600)})
	tries := 0
	again := func(after time.Duration) {
		tries++
		now = epoch.Add(after)
		group := build.Gang("g", 4).Annotation("try", fmt.Sprint(tries)).Obj()
		x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPodGroup, Object: group})
		x.reviewHold()
		x.turn(t)
	}
	if again(forecastEvery - 1); x.on("small") != "" {
		t.Error("the start is forecast again before its time")
	}
	if again(forecastEvery); x.on("small") == "" || x.on("long") != "" {
		t.Errorf("pods of 5 minutes and an hour are on %q and %q, want the first alone on a node", x.on("small"), x.on("long"))
	}
	want := "room for 3 pods of this pod group is held until it starts, from pods of priority 0 and below, except pods that end by " +
		epoch.Add(595*time.Second).UTC().Format(time.RFC3339)
	again(2 * forecastEvery)
	if notes := x.notes(t, "g"); !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
		t.Errorf("got notes %q, want %q", notes, want)
	}
	leaving := timed(old(), 600)
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: now.Add(time.Hour)}, []string{"test/keeps"}
	x.arrives(t, timed(build.Pod("wide").UID("wide").CPU("3"), 60))
	if note := x.explained(t, "wide", 0).GetNote(); note != "" {
		t.Errorf("a pod that may use the room is told %q", note)
	}
	x.leaves(t, "small", x.on("small"))
	x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: leaving})
	again(3 * forecastEvery)
	if notes := x.notes(t, "g"); !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "priority 0 and below, on") }) {
		t.Errorf("got notes %q, want no time: the gang may start at any", notes)
	}
	x.endHold("the test has it so")
	if got := x.reservation.forecast; got != (forecast{}) {
		t.Errorf("nobody holds room, and may start at %v", got.starts)
	}
}

func (x *gangScene) changes(t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	for _, p := range pods {
		x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: p})
	}
	x.turn(t)
}

// A new forecast is made every few seconds, though the gang is not tried: a pod is deleted by somebody, or is to end sooner.
func TestAForecastIsRenewedWithoutAnAttempt(t *testing.T) {
	deleted := timed(old(), 3600)
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: epoch.Add(90 * time.Second)}, []string{"test/keeps"}
	for name, changed := range map[string]*v1.Pod{"deleted": deleted, "to end sooner": timed(old(), 90)} {
		now := epoch
		x := heldUntil(t, timed(old(), 3600), &now)
		attempts := x.queue.Get("a").Attempts
		x.changes(t, changed)
		if got := x.reservation.wakes(); !got.Equal(epoch.Add(forecastEvery)) {
			t.Errorf("%s: the loop sleeps until %v, want no longer than a forecast holds", name, got)
		}
		now = epoch.Add(forecastEvery)
		x.reviewHold()
		if x.arrives(t, timed(small(), 3000)); x.on("small") != "" {
			t.Errorf("%s: a pod of 50 minutes has the room that the gang may start in soon", name)
		}
		if got := x.queue.Get("a").Attempts; got != attempts {
			t.Errorf("%s: the gang was tried %d times more", name, got-attempts)
		}
	}
}

// What a pod may use is told when it is decided, not when its batch begins: the gang before it may have pods leave for it since.
func TestAPodBehindTheGangInItsBatchGoesByTheNewHold(t *testing.T) {
	cfg := preempting()
	nodes := append(nodesOf("2", "n-0"), nodesOf("2", "n-1")...)
	x := playGang(t, cfg, build.Gang("g", 4).Obj(), nodes, append([]*v1.Pod{timed(old(), 3600)}, members("a", "b", "c", "d")...)...)
	x.cfg.QueueNow = cfg.QueueNow
	low := build.Pod("low").UID("low").CPU("1").Priority(-1).Node("n-1").Obj()
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: low})
	x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: timed(old(), 3600)})
	x.arrives(t, timed(small(), 300))
	if p := x.queue.Get("d"); x.on("small") != "" || p == nil || p.NominatedNode == "" {
		t.Errorf("a pod is on %q that is behind the gang, for which pods leave: %v", x.on("small"), p != nil && p.NominatedNode != "")
	}
}

// preempting has room held, and pods pushed out for gangs.
func preempting() SchedulerConfig {
	cfg := topologyConfig(1, true)
	cfg.Evictor, cfg.Groups.Preemption = &fakeEvictor{}, true
	cfg.GangReservation, cfg.Kubelets, cfg.MaxBackoff, cfg.QueueNow = true, true, -1, func() time.Time { return epoch }
	return cfg
}

// A pod that pushes others out is nominated, and starts once they have left: it gets no held room.
func TestAPodThatPreemptsGetsNoHeldRoom(t *testing.T) {
	cfg := preempting()
	nodes := append(nodesOf("2", "n-0"), nodesOf("1", "n-1", "n-2", "n-3")...)
	pods := []*v1.Pod{timed(build.Pod("victim").UID("victim").CPU("1").Priority(-1).Node("n-0"), 590),
		timed(build.Pod("old").UID("old").CPU("1").Node("n-3"), 600)}
	never := v1.PreemptNever
	for _, name := range strings.Fields("a b c d e") {
		p := member1(name).Obj()
		p.Spec.PreemptionPolicy = &never
		pods = append(pods, p)
	}
	x := playGang(t, cfg, build.Gang("g", 5).Obj(), nodes, pods...)
	x.arrives(t, timed(build.Pod("big").UID("big").CPU("2"), 300))
	list := x.decided(t)
	if d := list[len(list)-1]; d.Pod != "default/big" || d.Nominated != "" || x.reservation.holder != x.group {
		t.Errorf("room is held for %v, and got decision %+v, want no nomination", x.reservation.holder, d)
	}
}

// A pod is tried again once its user has it end soon enough, as the API allows for pods that wait.
func TestAPodIsTriedOnceItEndsSooner(t *testing.T) {
	now := epoch
	for name, p := range map[string]*v1.Pod{"no deadline": small().Obj(), "a long one": timed(small(), 7200)} {
		x := heldUntil(t, timed(old(), 3600), &now)
		if x.arrives(t, p); x.on("small") != "" {
			t.Fatalf("%s: it is on a node", name)
		}
		if x.changes(t, timed(small(), 300)); x.on("small") == "" {
			t.Errorf("%s: it waits, though it ends soon by now", name)
		}
	}
}

// What is added for a pod that ends is what a cluster without it has, in domains, slices and for several kinds of pods.
func TestRoomThatIsFreedIsThatWithoutThePod(t *testing.T) {
	kinds := func(x *gangScene) *vacated {
		return x.newVacated(&gangOutcome{s: x.Scheduler, group: x.groups.Get(x.group), members: x.membersOf(t), need: 1})
	}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 9))
		var nodes []*v1.Node
		var pods []*v1.Pod
		for i := range 6 {
			n := nodesOf(fmt.Sprint(2+rng.IntN(6)), fmt.Sprint("n-", i))[0]
			n.Labels = map[string]string{"rack": fmt.Sprint(i % 2), "host": n.Name}
			nodes = append(nodes, n)
			for j := range rng.IntN(3) {
				name := fmt.Sprint("old-", i, "-", j)
				pods = append(pods, timed(build.Pod(name).UID(name).CPU(fmt.Sprint(500*(1+rng.IntN(3)), "m")).Node(n.Name), int64(60*rng.IntN(5))))
			}
		}
		ends := len(pods)
		for i := range 45 {
			name := fmt.Sprint("m-", i)
			pods = append(pods, build.Pod(name).UID(name).CPU(fmt.Sprint(500*(2+i%3), "m")).Member("g").Obj())
		}
		group := build.Gang("g", 45)
		if rng.IntN(2) == 0 {
			group.Within("rack")
		}
		if rng.IntN(2) == 0 {
			group.Annotation(groups.SliceTopology, "host").Annotation(groups.SliceSize, "3")
		}
		cfg := topologyConfig(1, false)
		before, after := playGang(t, cfg, group.Obj(), nodes, pods...), playGang(t, cfg, group.Obj(), nodes, pods[ends:]...)
		got, want := kinds(before), kinds(after)
		got.addAll(nil)
		want.addAll(nil)
		for _, e := range before.state.FirstToEnd(epoch, mostEnding) {
			got.frees(&e)
		}
		if d := cmp.Diff(want.domains, got.domains, cmp.AllowUnexported(vacatedDomain{})); d != "" {
			t.Fatalf("seed %d: without the pods, and once they have ended (-want +got):\n%s", seed, d)
		}
		if len(want.domains) == 0 {
			t.Fatalf("seed %d: no domain has room", seed)
		}
	}
}

// Nobody knows when a gang starts that lacks something else than room, or for which pods are made to leave.
func TestTheStartIsUnknownWhereAGangLacksSomethingElse(t *testing.T) {
	cfg := SchedulerConfig{GangReservation: true, Kubelets: true, MaxBackoff: -1, QueueNow: func() time.Time { return epoch }}
	nodes := append(nodesOf("2", "n-0"), nodesOf("2", "n-1")...)
	pods := []*v1.Pod{timed(build.Pod("old").UID("old").CPU("500m").Node("n-1"), 600)}
	for _, name := range strings.Fields("a b c") { // one a node
		pods = append(pods, build.Pod(name).UID(name).CPU("500m").HostPort("", "TCP", 80).Member("g").Obj())
	}
	x := playGang(t, cfg, build.Gang("g", 3).Obj(), nodes, pods...)
	x.arrives(t, timed(build.Pod("small").UID("small").CPU("2"), 60))
	if got := x.on("small"); got != "" || x.reservation.holder != x.group {
		t.Errorf("room is held for %v, and a pod has it on %q", x.reservation.holder, got)
	}
	now := epoch
	x = heldUntil(t, timed(old(), 600), &now)
	if x.forecastFor(&gangOutcome{s: x.Scheduler, group: x.groups.Get(x.group)}); !x.reservation.forecast.starts.IsZero() {
		t.Error("it is known when a gang starts for which pods are made to leave")
	}
}

// The start is forecast for the first minute in which there is room without the pods that have ended by then, and for no sooner one.
func TestTheStartOfAGangIsForecast(t *testing.T) {
	known, racks, unknown := 0, 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		const nodes, need = 6, 7
		var list []*v1.Node
		for i := range nodes {
			for _, n := range nodesOf("4", fmt.Sprintf("n-%d", i)) {
				n.Labels = map[string]string{"rack": fmt.Sprint(i % 2)}
				list = append(list, n)
			}
		}
		inRack, says := rng.IntN(2) == 0, rng.IntN(4)
		type running struct {
			node, end int
		}
		var pods []*v1.Pod
		var run []running
		for i := range 3*nodes + rng.IntN(nodes+1) {
			r := running{i % nodes, 0}
			p := build.Pod(fmt.Sprint("old-", i)).UID(fmt.Sprint("old-", i)).CPU("1").Node(fmt.Sprint("n-", r.node))
			if rng.IntN(4) < says {
				r.end = 1 + rng.IntN(20)
				pods = append(pods, timed(p, int64(60*r.end)))
			} else {
				pods = append(pods, p.Obj())
			}
			run = append(run, r)
		}
		group := build.Gang("g", need)
		if inRack {
			group.Within("rack")
		}
		for i := range need {
			pods = append(pods, member1(fmt.Sprint("m-", i)).Obj())
		}
		cfg := topologyConfig(1, false)
		cfg.GangReservation, cfg.Kubelets, cfg.MaxBackoff, cfg.QueueNow = true, true, -1, func() time.Time { return epoch }
		x := playGang(t, cfg, group.Obj(), list, pods...)
		if x.reservation.holder != x.group {
			continue // it has started
		}
		fits := func(by int) bool {
			free := map[int]int{}
			for i := range nodes {
				domain := 0
				if inRack {
					domain = i % 2
				}
				free[domain] += 4
				for _, r := range run {
					if r.node == i && (r.end == 0 || r.end > by) {
						free[domain]--
					}
				}
			}
			return free[0] >= need || free[1] >= need
		}
		var want time.Time
		for by := 1; by <= 20 && want.IsZero(); by++ {
			if fits(by) {
				want = epoch.Truncate(time.Minute).Add(time.Duration(by) * time.Minute)
				known++
				if inRack {
					racks++
				}
			}
		}
		if want.IsZero() {
			unknown++
		}
		if got := x.reservation.forecast.starts; !got.Equal(want) {
			t.Errorf("seed %d: the gang may start at %v, want %v", seed, got, want)
		}
	}
	if known == 0 || racks == 0 || unknown == 0 {
		t.Errorf("%d starts were known, %d of gangs in one rack, and %d unknown", known, racks, unknown)
	}
}

// BenchmarkForecast is one of a gang that 50,000 nodes will not have room for, with 500,000 pods that say when they end.
func BenchmarkForecast(b *testing.B) {
	x := playGang(b, SchedulerConfig{GangReservation: true, Kubelets: true, QueueNow: func() time.Time { return epoch }},
		build.Gang("g", 4).Obj(), nodesOf("3", "n-0"), members("a", "b", "c", "d")...)
	for i := range 50_000 {
		if _, err := x.state.Cache.SetNode(nodesOf("64", fmt.Sprint("x-", i))[0]); err != nil {
			b.Fatal(err)
		}
		for j := range 10 {
			name := fmt.Sprint("p-", i, "-", j)
			p := timed(build.Pod(name).UID(name).CPU("6").Node(fmt.Sprint("x-", i)), int64((10*i+j)*7919%500_000))
			if _, err := x.state.Cache.SetPod(p); err != nil {
				b.Fatal(err)
			}
		}
	}
	of := x.newVacated(&gangOutcome{s: x.Scheduler, group: x.groups.Get(x.group), members: x.membersOf(b), need: 1 << 30})
	of.counts[0] = 1 << 30
	b.ReportAllocs()
	for b.Loop() {
		of := *of
		if at := x.startOf(&of, epoch); !at.IsZero() {
			b.Fatalf("it may start at %v", at)
		}
	}
}
