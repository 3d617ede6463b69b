package coordinator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Answers hold over batches, whatever pods come and go, until a node changes or too much has.
func TestAnswersHoldUntilANodeChanges(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, BatchSize: 5}, 0)
	defer x.fanout.Close()
	x.Load(clusterOf(nodesOf("640", "a", "b", "c")), nil)
	come := func(name string, rounds int) {
		t.Helper()
		x.Deliver([]objects.Event{{Type: objects.Added, Kind: objects.KindPod, Pod: cores(name, "1")}})
		x.rounds = 0
		x.turn(t)
		if x.rounds != rounds {
			t.Errorf("pod %s: got %d rounds, want %d", name, x.rounds, rounds)
		}
	}
	bound := func(i int) *v1.Pod { return build.Pod(fmt.Sprint("bound-", i)).CPU("1").Node("a").Obj() }
	come("first", 1)
	come("like the first", 0)
	x.Deliver([]objects.Event{{Type: objects.Added, Kind: objects.KindNode, Node: nodesOf("64", "d")[0]}})
	come("after a node", 1)
	for i := range 20 {
		come(fmt.Sprintf("more than a batch, %d", i), 0)
	}
	x.Deliver([]objects.Event{{Type: objects.Added, Kind: objects.KindPod, Pod: bound(0)}})
	come("after a pod that another has bound", 0)
	x.Deliver([]objects.Event{{Type: objects.Deleted, Kind: objects.KindPod, Pod: bound(0)}})
	come("after that has left", 0)
	var many []objects.Event
	for i := range 300 {
		many = append(many, objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: bound(i)})
	}
	x.Deliver(many)
	come("after more changes than nodes", 1)
}

// Pods that may get one node only, as a DaemonSet's, are decided without asking anybody.
func TestPodsForANodeByName(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, BatchSize: 5}, 0)
	defer x.fanout.Close()
	x.Load(clusterOf(nodesOf("2", "a", "b", "c")), nil)
	var events []objects.Event
	for i, node := range []string{"a", "b", "c", "a", "b", "a", "gone"} {
		p := build.Pod(fmt.Sprint("p", i)).CPU("1").Obj()
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}},
		}}}
		events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
	}
	x.Deliver(events[:5])
	x.rounds = 0
	x.turn(t)
	if x.rounds != 0 {
		t.Errorf("five pods with a node each: got %d rounds, want none", x.rounds)
	}
	x.Deliver(events[5:])
	x.turn(t)
	var got []string
	for _, d := range x.decided(t) {
		got = append(got, d.Pod+" "+d.Node+d.Message)
	}
	want := []string{
		"default/p0 a", "default/p1 b", "default/p2 c", "default/p3 a", "default/p4 b",
		"default/p5 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
		"default/p6 0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Pods of one class wait for room. Since they were refused, something has come that refuses those with one of their labels: whoever is
// tried for all of them does not speak for the others any more.
func TestPodsOfOneClassWaitThatAreOfSeveralByNow(t *testing.T) {
	apart := build.Pod("apart").UID("apart").Apart(build.Around("kubernetes.io/hostname", "app=a")).Node("n").Obj()
	spread := build.Pod("spread").UID("spread").Apart(build.Around("rack", "app=a")).Node("n").Obj()
	unlabelled := build.Node("n").CPU("2").Memory("64Gi").Label("kubernetes.io/hostname", "n").Obj()
	for name, comes := range map[string][]any{
		"a pod": {apart},
		"a label of nodes that a pod's term names": {spread, build.Node("n").CPU("2").Memory("64Gi").Label("kubernetes.io/hostname", "n").Label("rack", "r").Obj()},
	} {
		full := build.Pod("full").UID("full").CPU("2").Node("n").Obj()
		runScenario(t, clusterOf([]*v1.Node{unlabelled}, full), nil, func(x *scenario) {
			for _, app := range []string{"a", "b"} {
				for i := range 3 {
					p := fmt.Sprint(app, i)
					x.deliver(objects.Added, build.Pod(p).UID(p).Label("app", app).CPU("1500m").Obj())
				}
			}
			for _, obj := range comes {
				x.deliver(objects.Modified, obj)
			}
			elapse(20 * time.Second)
			x.deliver(objects.Deleted, full)
			elapse(20 * time.Second)
			x.wantBinds(name, "b0@ n")
		})
	}
}
