package coordinator

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// kinPod is a pod of one of several apps that ask for the same but for their own labels.
func kinPod(name string, kind int, app string) *build.PodBuilder {
	b := build.Pod(name).UID(name).Label("app", app).CPU("500m").Memory("256Mi")
	of := "app=" + app
	switch kind {
	case 0:
		b.Spread(build.Hard(v1.LabelTopologyZone, 1, of), build.Soft(v1.LabelHostname, 1, of))
	case 1:
		b.Spread(build.Soft(v1.LabelTopologyZone, 1, of), build.Soft(v1.LabelHostname, 2, of))
	case 2:
		b.Apart(build.Around(v1.LabelHostname, of))
	case 3:
		b.PreferNear(30, build.Around(v1.LabelTopologyZone, of)).PreferApart(70, build.Around(v1.LabelHostname, of))
	case 4:
		b.Near(build.Around(v1.LabelTopologyZone, of))
	case 5:
		b.Spread(build.Hard(v1.LabelHostname, 1, of)).PreferApart(10, build.Around(v1.LabelTopologyZone, of))
	}
	return b
}

// kinStory is a random story of pods of few families that come, end and wait, and of nodes that change.
func kinStory(seed uint64) (load *objects.Snapshot, batches [][]objects.Event) {
	r := rand.New(rand.NewPCG(seed, 0))
	load = &objects.Snapshot{}
	nodes := 4 + r.IntN(24)
	node := func(i int) *v1.Node {
		b := build.Node(fmt.Sprint("n", i)).CPU(fmt.Sprint(1+r.IntN(5))).Memory("64Gi").Label(v1.LabelHostname, fmt.Sprint("n", i))
		if r.IntN(12) > 0 {
			b.Zone(fmt.Sprint("z", r.IntN(3)))
		}
		if r.IntN(6) == 0 {
			b.Taint("slow:PreferNoSchedule")
		}
		return b.Obj()
	}
	for i := range nodes {
		load.Nodes = append(load.Nodes, node(i))
	}
	var there []*v1.Pod
	kinds, apps := []int{r.IntN(6), r.IntN(6)}, 2+r.IntN(6)
	for k := range r.IntN(30) {
		app := r.IntN(apps)
		p := kinPod(fmt.Sprint("there-", k), kinds[app%2], fmt.Sprint("app-", app)).Node(fmt.Sprint("n", r.IntN(nodes))).Obj()
		there = append(there, p)
		load.Pods = append(load.Pods, p)
	}
	for b := range 12 {
		var events []objects.Event
		for k := range 1 + r.IntN(12) {
			app := r.IntN(apps)
			pod := kinPod(fmt.Sprintf("p-%d-%d", b, k), kinds[app%2], fmt.Sprint("app-", app))
			if r.IntN(40) == 0 {
				pod.Priority(10)
			}
			events = append(events, podCame(pod.Obj()))
		}
		for range r.IntN(4) {
			if len(there) == 0 {
				break
			}
			i := r.IntN(len(there))
			events = append(events, objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: there[i]})
			there = append(there[:i], there[i+1:]...)
		}
		if r.IntN(5) == 0 {
			events = append(events, objects.Event{Type: objects.Modified, Kind: objects.KindNode, Node: node(r.IntN(nodes))})
		}
		batches = append(batches, events)
	}
	return load, batches
}

// Classes that share an answer decide as those that are asked by themselves.
func TestFamiliesDecideAsTheirClasses(t *testing.T) {
	decided, shared := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		seed, batch, candidates := rapid.Uint64().Draw(r, "seed"), rapid.IntRange(1, 12).Draw(r, "batch"), rapid.IntRange(0, 6).Draw(r, "candidates")
		decide := func(size int) []observe.DecisionLine {
			load, batches := kinStory(seed)
			s := newTrial(t, SchedulerConfig{Shards: 2, BatchSize: batch, answerLimits: answers.Limits{Sharers: size}}, candidates)
			defer s.fanout.Close()
			s.Load(load, nil)
			for _, events := range batches {
				s.Deliver(events)
				s.turn(t)
				shared += s.answers.Kept().Views
			}
			return s.decided(t)
		}
		apart, together := decide(1<<30), decide(2)
		if d := cmp.Diff(apart, together); d != "" {
			r.Fatalf("decisions (-by themselves +by families):\n%s", d)
		}
		decided += len(together)
	})
	if decided < 1000 || shared < 200 {
		t.Errorf("%d decisions, %d times a class had a family", decided, shared)
	}
}
