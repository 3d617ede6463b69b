package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// withoutPreemption is the default profile without PostFilter plugins: nobody is preempted, and messages end
// with what filters say.
func withoutPreemption() map[string]*compile.Profile {
	c := rules.DefaultConfig(v1.DefaultSchedulerName)
	c.PostFilters = nil
	p, err := rules.NewProfile(c)
	if err != nil {
		panic(err)
	}
	return map[string]*compile.Profile{v1.DefaultSchedulerName: p}
}

// withPreemption is the default profile.
func withPreemption() map[string]*compile.Profile {
	return map[string]*compile.Profile{v1.DefaultSchedulerName: rules.DefaultProfile(v1.DefaultSchedulerName)}
}

// TestPreemptionScripts runs golden scripts. A line of a "run" block is a node or a pod; "run"
// decides, where victims go at once, and its decisions are printed in order:
//
//	node NAME cpu=N [label=K=V] [taint=K]…
//	claim NAME
//	pod NAME cpu=N [priority=N] [node=NODE] [nominated=NODE] [label=K=V] [start=SECONDS] [port=N]
//	    [never] [leaving] [apart=K=V] [spread=K=V] [evenly] [selector=K=V] [claim=NAME]
//
// Each script is run over shards and sizes of batches; the outcome must not depend on them.
func TestPreemptionScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/preemption", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown directive %s, expected run", d.Cmd)
			}
			want := runPreemption(t, d.Input, 1, 1)
			for _, x := range [][2]int{{1, 512}, {3, 2}, {7, 512}} {
				if got := runPreemption(t, d.Input, x[0], x[1]); got != want {
					t.Errorf("%s: with %d shards and batches of %d: got\n%swant\n%s", d.Pos, x[0], x[1], got, want)
				}
			}
			return want
		})
	})
}

func runPreemption(t *testing.T, script string, shards, batch int) string {
	all := &objects.Snapshot{}
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "node":
			all.Nodes = append(all.Nodes, scriptNode(t, words[1], words[2:]))
		case "pod":
			all.Pods = append(all.Pods, scriptPod(t, words[1], words[2:]))
		case "claim":
			all.Cluster = append(all.Cluster, scriptClaim(words[1])...)
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	x := newTrial(t, SchedulerConfig{Shards: shards, BatchSize: batch, Profiles: withPreemption()}, 0)
	defer x.fanout.Close()
	x.Load(all, nil)
	x.turn(t)
	var out strings.Builder
	for _, d := range x.decided(t) {
		switch {
		case d.Nominated != "":
			fmt.Fprintf(&out, "%s -> nominated to %s, victims %s\n", d.Pod, d.Nominated, strings.Join(d.Victims, " "))
		case d.Node != "":
			fmt.Fprintf(&out, "%s -> %s\n", d.Pod, d.Node)
			continue
		}
		fmt.Fprintf(&out, "%s: %s\n", d.Pod, d.Message)
	}
	return out.String()
}

// scriptClaim is a claim that is bound, and for one pod alone.
func scriptClaim(name string) []objects.Object {
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{storage.AnnBindCompleted: "yes"}},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: name, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	}
	volume := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{Namespace: "default", Name: name, UID: claim.UID}},
		Status:     v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
	}
	return []objects.Object{claim, volume}
}

func scriptNode(t *testing.T, name string, words []string) *v1.Node {
	n := build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name)
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "cpu":
			n.CPU(v)
		case "label":
			key, value, _ := strings.Cut(v, "=")
			n.Label(key, value)
		case "taint":
			n.Taint(v + ":NoSchedule")
		default:
			t.Fatalf("node %s: unknown word %q", name, w)
		}
	}
	return n.Obj()
}

func scriptPod(t *testing.T, name string, words []string) *v1.Pod {
	b := build.Pod(name)
	var after []func(*v1.Pod)
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "cpu":
			b.CPU(v)
		case "priority":
			n, err := strconv.ParseInt(v, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			b.Priority(int32(n))
		case "node":
			b.Node(v)
		case "nominated":
			b.Nominated(v)
		case "label":
			key, value, _ := strings.Cut(v, "=")
			b.Label(key, value)
		case "start":
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			after = append(after, func(p *v1.Pod) { at := metav1.Unix(n, 0); p.Status.StartTime = &at })
		case "port":
			n, err := strconv.ParseInt(v, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			b.HostPort("", "", int32(n))
		case "never":
			after = append(after, func(p *v1.Pod) { never := v1.PreemptNever; p.Spec.PreemptionPolicy = &never })
		case "leaving":
			b.Terminating()
			after = append(after, func(p *v1.Pod) {
				p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
			})
		case "terminating":
			b.Terminating()
		case "apart":
			b.Apart(build.Around(v1.LabelHostname, v))
		case "near":
			b.Near(build.Around(v1.LabelTopologyZone, v))
		case "spread":
			b.Spread(build.Hard(v1.LabelHostname, 1, v))
		case "evenly":
			b.Spread(build.Hard(v1.LabelHostname, 1, ""))
		case "selector":
			key, value, _ := strings.Cut(v, "=")
			b.NodeSelector(key, value)
		case "claim":
			b.Claim(v)
		default:
			t.Fatalf("pod %s: unknown word %q", name, w)
		}
	}
	p := b.Obj()
	for _, f := range after {
		f(p)
	}
	return p
}

// fakeEvictor is an Evictor which the test answers for.
type fakeEvictor struct {
	mu   sync.Mutex
	told []objects.Eviction
	done []func(error)
}

func (a *fakeEvictor) Evict(_ context.Context, e objects.Eviction, done func(error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told, a.done = append(a.told, e), append(a.done, done)
}

// orders are the evictions so far, in words.
func (a *fakeEvictor) orders() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, e := range a.told {
		words := []string{e.Preemptor.Name, "on", e.Node + ":"}
		for _, v := range e.Victims {
			words = append(words, v.Name)
		}
		for _, l := range e.Lower {
			words = append(words, "-"+l.Name)
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// report ends the newest eviction.
func (a *fakeEvictor) report(err error) {
	a.mu.Lock()
	done := a.done[len(a.done)-1]
	a.mu.Unlock()
	done(err)
	synctest.Wait()
}

// preemptOn plays a scenario where preemption is carried out by a fakeEvictor.
func preemptOn(t *testing.T, nodes []*v1.Node, pods []*v1.Pod, play func(x *scenario, a *fakeEvictor, g *recordingReporter)) {
	t.Helper()
	a, g := &fakeEvictor{}, &recordingReporter{}
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		cfg.Profiles, cfg.Evictor, cfg.Reporter = withPreemption(), a, g
	}, clusterOf(nodes, pods...), nil, func(x *scenario) { play(x, a, g) })
}

// pending is a pod of the queue as the loop sees it.
func (x *scenario) pending(t *testing.T, name string) (place queue.Place, gate, nominated string) {
	t.Helper()
	err := x.call(x.ctx, func() {
		if p := x.queue.Find("default", name); p != nil {
			place, gate, nominated = p.Place(), p.Gated, p.NominatedNode
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return place, gate, nominated
}

func (x *scenario) wantPending(t *testing.T, when, name string, place queue.Place, gate, nominated string) {
	t.Helper()
	if p, g, n := x.pending(t, name); p != place || g != gate || n != nominated {
		t.Errorf("%s: %s is %q, gated by %q, nominated to %q; want %q, %q, %q", when, name, p, g, n, place, gate, nominated)
	}
}

// A preemptor waits while its victims are told to leave, is gated where one leaves meanwhile, and
// tried when all are told.
func TestAPreemptorWaitsForItsVictimsToBeTold(t *testing.T) {
	victims := []*v1.Pod{build.Pod("a").CPU("2").Priority(1).Node("n").Obj(), build.Pod("b").CPU("2").Priority(2).Node("n").Obj()}
	p := build.Pod("p").CPU("4").Priority(10).Obj()
	preemptOn(t, nodesOf("4", "n"), append(slices.Clone(victims), p), func(x *scenario, a *fakeEvictor, g *recordingReporter) {
		if got, want := a.orders(), []string{"p on n: b a"}; !slices.Equal(got, want) {
			t.Fatalf("evictions: got %q, want %q", got, want)
		}
		x.wantPending(t, "decided", "p", queue.Unschedulable, "", "n")
		x.deliver(objects.Deleted, victims[1])
		x.wantPending(t, "one has left", "p", queue.Gated, rules.DefaultPreemption, "n")
		x.deliver(objects.Deleted, victims[0])
		x.wantPending(t, "both have", "p", queue.Gated, rules.DefaultPreemption, "n")
		a.report(nil)
		elapse(2 * time.Second) // its backoff
		g.want(t, "told", "p@3 Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. -> n", "p scheduled on n")
	})
}

// Victims that can not be told have the preemptor tried again: it preempts anew.
func TestAPreemptionThatFails(t *testing.T) {
	preemptOn(t, nodesOf("4", "n"), []*v1.Pod{
		build.Pod("a").CPU("4").Priority(1).Node("n").Obj(), build.Pod("p").CPU("4").Priority(10).Obj(),
	}, func(x *scenario, a *fakeEvictor, _ *recordingReporter) {
		a.report(errors.New("no"))
		elapse(time.Minute)
		if got, want := a.orders(), []string{"p on n: a", "p on n: a"}; !slices.Equal(got, want) {
			t.Errorf("evictions: got %q, want %q", got, want)
		}
	})
}

// The nominated node is deleted while its victims leave: the preemptor finds another.
func TestTheNominatedNodeIsDeleted(t *testing.T) {
	nodes := nodesOf("4", "m", "n")
	a1, b := build.Pod("a").CPU("4").Priority(1).Node("n").Obj(), build.Pod("b").CPU("4").Priority(5).Node("m").Obj()
	preemptOn(t, nodes, []*v1.Pod{a1, b, build.Pod("p").CPU("4").Priority(10).Obj()}, func(x *scenario, a *fakeEvictor, _ *recordingReporter) {
		a.report(nil)
		x.wantPending(t, "decided", "p", queue.Unschedulable, "", "n")
		x.Deliver([]objects.Event{{Type: objects.Deleted, Kind: objects.KindNode, Node: nodes[1]}})
		x.deliver(objects.Deleted, a1)
		elapse(time.Minute)
		if got, want := a.orders(), []string{"p on n: a", "p on m: b"}; !slices.Equal(got, want) {
			t.Errorf("evictions: got %q, want %q", got, want)
		}
		x.wantPending(t, "in the end", "p", queue.Unschedulable, "", "m")
	})
}

// A victim is on its way out by itself: nobody is told anything, and nobody waits for it.
func TestAVictimThatEndsByItself(t *testing.T) {
	ending := build.Pod("a").CPU("4").Priority(1).Node("n").Terminating().Obj()
	preemptOn(t, nodesOf("4", "n"), []*v1.Pod{ending, build.Pod("p").CPU("4").Priority(10).Obj()}, func(x *scenario, a *fakeEvictor, g *recordingReporter) {
		if got := a.orders(); len(got) > 0 {
			t.Errorf("evictions: got %q, want none", got)
		}
		x.wantPending(t, "decided", "p", queue.Unschedulable, "", "n")
		x.deliver(objects.Deleted, ending)
		elapse(2 * time.Second)
		g.want(t, "told", "p@2 Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. -> n", "p scheduled on n")
	})
}

// The next leader knows of a nomination that nobody has written but to the journal: it keeps the
// room for the preemptor.
func TestANominationSurvivesAFailover(t *testing.T) {
	a1 := build.Pod("a").CPU("4").Priority(1).Node("n").Terminating().Obj()
	p := build.Pod("p").CPU("4").Priority(10).Obj()
	var entry *pb.QueueEntry
	preemptOn(t, nodesOf("4", "n"), []*v1.Pod{a1, p}, func(x *scenario, _ *fakeEvictor, _ *recordingReporter) {
		if err := x.call(x.ctx, func() { entry = x.queue.Entry(x.queue.Get(p.UID)) }); err != nil {
			t.Fatal(err)
		}
	})
	if entry.GetNominatedNode() != "n" {
		t.Fatalf("journal entry: got %v, want it nominated to n", entry)
	}
	ledger := map[types.UID]*pb.QueueEntry{p.UID: entry}
	a, g := &fakeEvictor{}, &recordingReporter{}
	runScenarioWith(t, func(cfg *SchedulerConfig) { cfg.Profiles, cfg.Evictor, cfg.Reporter = withPreemption(), a, g },
		clusterOf(nodesOf("4", "n"), a1, p), ledger, func(x *scenario) {
			x.deliver(objects.Added, build.Pod("low").CPU("1").Priority(5).Obj())
			x.deliver(objects.Deleted, a1)
			elapse(30 * time.Second)
			heard := g.heard()
			if !slices.Contains(heard, "p scheduled on n") || slices.Contains(heard, "low scheduled on n") {
				t.Errorf("told %q, want p on n and low nowhere", heard)
			}
		})
}

// Many preemptors of one class share dry runs, spread over the nodes, and each looks at few
// rows beyond those.
func TestManyPreemptorsOfOneClass(t *testing.T) {
	const nodes, preemptors = 300, 200
	all := &objects.Snapshot{}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		all.Nodes = append(all.Nodes, build.Node(name).CPU("4").Memory("8Gi").Obj())
		all.Pods = append(all.Pods, build.Pod("v"+name).CPU("4").Priority(1).Node(name).Obj())
	}
	for i := range preemptors {
		all.Pods = append(all.Pods, build.Pod(fmt.Sprintf("p%d", i)).CPU("4").Priority(10).Obj())
	}
	a := &fakeEvictor{}
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withPreemption(), Evictor: a}, 0)
	defer x.fanout.Close()
	x.Load(all, nil)
	x.turn(t)
	nominated := map[string]string{}
	for _, d := range x.decided(t) {
		if other := nominated[d.Nominated]; d.Nominated == "" || other != "" {
			t.Fatalf("%s is nominated to %q, as is %q", d.Pod, d.Nominated, other)
		}
		nominated[d.Nominated] = d.Pod
	}
	if len(nominated) != preemptors || len(a.told) != preemptors {
		t.Errorf("%d pods are nominated and %d evictions begun, want %d", len(nominated), len(a.told), preemptors)
	}
	if n := x.counter("shardsched_preemption_dry_runs_total"); n != 1 {
		t.Errorf("%v dry runs, want 1 for all", n)
	}
	// Each row once, and the row of each nomination once more for those behind it.
	if n := x.counter("shardsched_preemption_rows_total"); n > nodes+preemptors {
		t.Errorf("%v rows were looked at, want %d at the most", n, nodes+preemptors)
	}
}
