package coordinator

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// manyLabels is how many labels the nodes of these tests have, and terms of pods name: more than rows are
// grouped by.
const manyLabels = 12

func label(i int) string { return fmt.Sprint("label-", i) }

// carrier is a pod whose terms about some pods name all labels.
func carrier(name, selector string, weight func(i int) int32) *build.PodBuilder {
	p := build.Pod(name).UID(name).CPU("100m")
	for i := range manyLabels {
		if w := weight(i); w > 0 {
			p.PreferNear(w, build.Around(label(i), selector))
		} else {
			p.PreferApart(-w, build.Around(label(i), selector))
		}
	}
	return p
}

func evenly(int) int32 { return 10 }

// drawCarriers makes pods of which some carry terms of many labels about others, and some of those repel
// others from nodes with a label's value.
func drawCarriers(t *rapid.T) scene {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 8))
	var s scene
	for i := range rapid.IntRange(4, 20).Draw(t, "nodes") {
		n := build.Node(fmt.Sprint("n", i)).CPU("2").Pods(fmt.Sprint(1 + r.IntN(8)))
		for k := range manyLabels {
			if r.IntN(8) > 0 {
				n.Label(label(k), fmt.Sprint(r.IntN(2+i)))
			}
		}
		s.nodes = append(s.nodes, n.Obj())
	}
	kinds := []*v1.Pod{
		build.Pod("web").CPU("100m").Label("app", "web").Obj(),
		build.Pod("db").CPU("500m").Label("app", "db").Obj(),
		carrier("near", "app=web", func(int) int32 { return int32(1 + r.IntN(100)) }).Label("app", "db").Obj(),
		carrier("apart", "app", func(int) int32 { return int32(-1 - r.IntN(100)) }).Label("app", "web").Obj(),
		carrier("alone", "app=db", func(i int) int32 { return int32(i - 5) }).Apart(build.Around(label(r.IntN(manyLabels)), "app=web")).Obj(),
	}
	for i := range rapid.IntRange(5, 60).Draw(t, "pods") {
		s.pending = append(s.pending, copyOf(kinds[r.IntN(len(kinds))], i))
	}
	return s
}

func TestABatchOfPodsThatCarryTermsOfManyLabels(t *testing.T) {
	pinned := 0.0
	rapid.Check(t, func(t *rapid.T) {
		x := checkScene(t, drawCarriers(t))
		pinned += x.counter("shardsched_pinned_classes_total")
	})
	want := 500.0
	if testing.Short() {
		want /= 5 // as many scenes
	}
	if pinned < want {
		t.Errorf("got %v classes with pinned sums, want %v or more", pinned, want)
	}
}

// An answer with pinned sums is held over batches as any other, also where the carriers wait; it is asked
// for anew where one of them is placed, and together with the others of the next batch.
func TestAnAnswerWithPinnedSumsHoldsUntilACarrierIsPlaced(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, BatchSize: 64}, 0)
	defer x.fanout.Close()
	all := &objects.Snapshot{}
	for i := range 40 {
		n := build.Node(fmt.Sprint("n", i)).CPU("64").Memory("64Gi")
		for k := range manyLabels {
			n.Label(label(k), fmt.Sprint(i*(k+3)%7))
		}
		all.Nodes = append(all.Nodes, n.Obj())
	}
	waits := carrier("waits", "app=web", evenly).CPU("1000").Obj()
	all.Pods = []*v1.Pod{waits}
	x.Load(all, nil)
	x.turn(t)
	made := 0
	come := func(pods ...*v1.Pod) (asked int) {
		t.Helper()
		var events []objects.Event
		for _, p := range pods {
			made++
			p = copyOf(p, made)
			events = append(events, podCame(p))
		}
		x.Deliver(events)
		before := x.asked
		x.turn(t)
		if err := x.err; err != nil {
			t.Fatal(err)
		}
		return x.asked - before
	}
	web, small := build.Pod("web").CPU("100m").Label("app", "web").Obj(), build.Pod("small").CPU("50m").Label("app", "web").Obj()
	other := carrier("other", "app=web", evenly).Obj()
	for _, step := range []struct {
		name          string
		pods          []*v1.Pod
		asked, rounds int
	}{
		{"the first pods", []*v1.Pod{web, small, web}, 2, 1},
		{"more of them", []*v1.Pod{web, small, web, small}, 0, 0},
		{"a carrier, whose terms they come to be subject to, and move", []*v1.Pod{web, other}, 3, 2},
		{"and the next of them", []*v1.Pod{web, small, web, small}, 2, 1},
		{"a carrier between them", []*v1.Pod{web, other, web, web}, 3, 3},
		{"a pod that they do not match", []*v1.Pod{build.Pod("db").CPU("300m").Label("app", "db").Obj()}, 1, 1},
		{"them again", []*v1.Pod{web, small}, 1, 1},
	} {
		rounds := x.rounds
		if got := come(step.pods...); got != step.asked || x.rounds-rounds != step.rounds {
			t.Errorf("%s: got %d classes asked in %d rounds, want %d in %d", step.name, got, x.rounds-rounds, step.asked, step.rounds)
		}
	}
}
