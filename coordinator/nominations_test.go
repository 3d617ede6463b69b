package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/nominees"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// firstOf schedules pods in batches of one, so that those behind the first wait with their
// nominations, and words the first pod's decision.
func firstOf(t *testing.T, nodes []*v1.Node, pods []*v1.Pod, others ...objects.Object) string {
	t.Helper()
	x := newTrial(t, SchedulerConfig{Shards: 2, BatchSize: 1}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: nodes, Pods: pods, Cluster: others}, nil)
	x.turn(t)
	d := x.decided(t)[0]
	if d.Node == "" {
		return d.Message
	}
	return fmt.Sprintf("%s of %d", d.Node, d.Feasible)
}

// inZones are nodes, each in the zone of its own name.
func inZones(cpu string, names ...string) []*v1.Node {
	out := nodesOf(cpu, names...)
	for _, n := range out {
		n.Labels = map[string]string{v1.LabelTopologyZone: n.Name, v1.LabelHostname: n.Name}
	}
	return out
}

func TestANominatedPodKeepsItsRoom(t *testing.T) {
	waits := func(name string) *build.PodBuilder { return build.Pod(name).Nominated("n") }
	first := func() *build.PodBuilder { return build.Pod("first") }
	const zone = v1.LabelTopologyZone
	for name, x := range map[string]struct {
		nodes []*v1.Node
		pods  []*v1.Pod
		want  string
	}{
		"nobody waits": {
			inZones("4", "n"), []*v1.Pod{first().CPU("2").Obj(), build.Pod("w").CPU("3").Obj()}, "n of 1",
		},
		"one of equal priority": {
			inZones("4", "n"), []*v1.Pod{first().CPU("2").Obj(), waits("w").CPU("3").Obj()},
			"0/1 nodes are available: 1 Insufficient cpu.",
		},
		"and there is another node": {
			inZones("4", "n", "m"), []*v1.Pod{first().CPU("2").Obj(), waits("w").CPU("3").Obj()}, "m of 1",
		},
		"one of lower priority": {
			inZones("4", "n"), []*v1.Pod{first().CPU("2").Priority(1).Obj(), waits("w").CPU("3").Obj()}, "n of 1",
		},
		"one that leaves enough": {
			inZones("4", "n"), []*v1.Pod{first().CPU("2").Obj(), waits("w").CPU("2").Obj()}, "n of 1",
		},
		"two that leave enough each": {
			inZones("4", "n"), []*v1.Pod{first().CPU("2").Obj(), waits("v").CPU("1500m").Obj(), waits("w").CPU("1500m").Obj()},
			"0/1 nodes are available: 1 Insufficient cpu.",
		},
		"of two one is of lower priority": {
			inZones("4", "n"), []*v1.Pod{first().CPU("2").Priority(1).Obj(), waits("v").CPU("1500m").Obj(), waits("w").CPU("1500m").Priority(1).Obj()},
			"n of 1",
		},
		"to a node that is not there": {
			inZones("4", "m"), []*v1.Pod{first().CPU("2").Obj(), waits("w").CPU("3").Obj()}, "m of 1",
		},
		"the message is that of the first look": {
			inZones("4", "n"), []*v1.Pod{first().CPU("5").HostPort("", "", 80).Obj(), waits("w").HostPort("", "", 80).Obj()},
			"0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
		},
		"a pod beside it that is refused": {
			inZones("4", "n"), []*v1.Pod{first().Apart(build.Around(zone, "app=db")).Obj(), waits("w").Label("app", "db").Obj()},
			"0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
		},
		"in the whole of its zone": {
			[]*v1.Node{build.Node("n").Zone("z").Obj(), build.Node("o").Zone("y").Obj()},
			[]*v1.Pod{first().Apart(build.Around(zone, "app=db")).Obj(), waits("w").Label("app", "db").Obj()},
			"o of 1",
		},
		"it refuses the pod itself, which looks at others": {
			inZones("4", "n"), []*v1.Pod{
				first().Label("app", "web").Apart(build.Around(zone, "app=none")).Obj(), waits("w").Apart(build.Around(zone, "app=web")).Obj(),
			},
			"0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
		},
		"it would refuse the pod itself, which nobody there does": { // the plugin skips
			inZones("4", "n"), []*v1.Pod{first().Label("app", "web").Obj(), waits("w").Apart(build.Around(zone, "app=web")).Obj()},
			"n of 1",
		},
		"it is not there yet to be near to": {
			inZones("4", "n"), []*v1.Pod{first().Near(build.Around(zone, "app=db")).Obj(), waits("w").Label("app", "db").Obj()},
			"0/1 nodes are available: 1 node(s) didn't match pod affinity rules.",
		},
		"it counts for the spread": {
			inZones("4", "n", "m"), []*v1.Pod{first().Label("app", "a").Spread(build.Hard(zone, 1, "app=a")).Obj(), waits("w").Label("app", "a").Obj()},
			"m of 1",
		},
		"it does not count for the spread elsewhere": { // the first look is at n alone
			inZones("4", "n", "m"), []*v1.Pod{
				build.Pod("present").Label("app", "a").Node("m").Obj(),
				first().Label("app", "a").Spread(build.Hard(zone, 1, "app=a")).Obj(), waits("w").Label("app", "b").Obj(),
			},
			"n of 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := firstOf(t, x.nodes, x.pods); got != x.want {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
		})
	}
}

// A pod's own node is tried first and wins without a comparison; what keeps it away from
// there is not the end.
func TestAPodsOwnNodeIsTriedFirst(t *testing.T) {
	big := []*v1.Pod{build.Pod("present").CPU("3").Node("n").Obj()} // m is better
	for name, x := range map[string]struct {
		pods []*v1.Pod
		want string
	}{
		"another is better":             {[]*v1.Pod{build.Pod("p").CPU("1").Nominated("n").Obj()}, "n of 1"},
		"it has no room":                {[]*v1.Pod{build.Pod("p").CPU("2").Nominated("n").Obj()}, "m of 1"},
		"it is not there":               {[]*v1.Pod{build.Pod("p").CPU("1").Nominated("gone").Obj()}, "m of 2"},
		"it waits for another, too":     {[]*v1.Pod{build.Pod("p").CPU("1").Nominated("n").Obj(), build.Pod("w").CPU("1").Nominated("n").Obj()}, "m of 1"},
		"the pod has to be elsewhere":   {[]*v1.Pod{build.Pod("p").NodeSelector(v1.LabelHostname, "m").Nominated("n").Obj()}, "m of 1"},
		"its score is that of it alone": {[]*v1.Pod{build.Pod("p").CPU("1").Nominated("n").Preferred(5, build.Labels(build.Match(v1.LabelHostname, v1.NodeSelectorOpIn, "m"))).Obj()}, "n of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := firstOf(t, inZones("4", "n", "m"), append(x.pods, big...)); got != x.want {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
		})
	}
}

// The volumes of a nominated pod count against the limit of its node, those that it has
// in common with the pod at hand once.
func TestTheVolumesOfANominatedPod(t *testing.T) {
	bound := func(name string) []objects.Object {
		c := build.Claim(name, "").Bound("pv-" + name).Obj()
		return []objects.Object{c, build.Volume("pv-"+name, "").CSI("d", name).Bound(c).Obj()}
	}
	for name, x := range map[string]struct {
		limit                 int32
		present, waits, first string // the claims of each; "": none
		want                  string
	}{
		"it has too many itself, and they share":  {1, "", "b a", "a", "n of 1"},
		"it has too many itself, and one more":    {1, "", "b a", "c", "0/1 nodes are available: 1 node(s) exceed max volume count."},
		"there is room for one":                   {1, "", "a", "b", "0/1 nodes are available: 1 node(s) exceed max volume count."},
		"there is room for both":                  {2, "", "a", "b", "n of 1"},
		"both use the same":                       {1, "", "a", "a", "n of 1"},
		"which is attached there":                 {1, "a", "a", "a", "n of 1"},
		"the one that waits shares what is there": {2, "a", "a", "b", "n of 1"},
		"the one at hand shares what is there":    {1, "a", "b", "a", "n of 1"},
		"nobody shares":                           {2, "a", "b", "c", "0/1 nodes are available: 1 node(s) exceed max volume count."},
		"a driver that nobody used so far":        {0, "", "a", "b", "0/1 nodes are available: 1 node(s) exceed max volume count."},
	} {
		t.Run(name, func(t *testing.T) {
			others := []objects.Object{build.CSINode("n", "d", x.limit)}
			for _, c := range []string{"a", "b", "c"} {
				others = append(others, bound(c)...)
			}
			pods := []*v1.Pod{build.Pod("first").Claim(x.first).Obj(), build.Pod("w").Claim(strings.Fields(x.waits)...).Nominated("n").Obj()}
			if x.present != "" {
				pods = append(pods, build.Pod("present").Claim(x.present).Node("n").Obj())
			}
			if got := firstOf(t, inZones("4", "n"), pods, others...); got != x.want {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
		})
	}
}

// So many nodes wait for others that none of the candidates of an answer is left.
func TestMoreVetoesThanCandidates(t *testing.T) {
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := range 4 * answers.SparePods {
		name := fmt.Sprintf("n%d", i)
		nodes = append(nodes, build.Node(name).CPU("4").Memory("8Gi").Obj())
		pods = append(pods, build.Pod("w"+name).CPU("4").Priority(1).NodeSelector("is", "nowhere").Nominated(name).Obj())
	}
	nodes = append(nodes, build.Node("left").CPU("2").Memory("8Gi").Obj())
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: nodes, Pods: append(pods, build.Pod("p").CPU("1").Obj())}, nil)
	x.turn(t)
	lines := x.decided(t)
	if last := lines[len(lines)-1]; last.Pod != "default/p" || last.Node != "left" || last.Feasible != 1 {
		t.Errorf("got %v, want default/p on the only node that waits for nobody", last)
	}
}

// Pods with a claim find the same nominees, one after the other, but on nodes whose nominated pods attach volumes.
func TestPodsWithClaimsShareNominees(t *testing.T) {
	const nodes = 8
	all, names := &objects.Snapshot{}, []string{"c", "w"}
	for _, name := range names {
		c := build.Claim(name, "").Bound("pv-" + name).Obj()
		all.Cluster = append(all.Cluster, c, build.Volume("pv-"+name, "").CSI("d", name).Bound(c).Obj())
	}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		all.Nodes = append(all.Nodes, build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name).Obj())
		w := build.Pod("w"+name).CPU("4").NodeSelector("is", "nowhere").Apart(build.Around(v1.LabelHostname, "app=shy")).Nominated(name)
		if i == 0 {
			w.Claim("w")
		}
		all.Pods = append(all.Pods, w.Obj())
	}
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	x.Load(all, nil)
	x.turn(t)
	find := func(name string) nominees.List {
		p := build.Pod(name).CPU("1").Claim("c").Obj()
		class, err := x.guard.ClassOf(p, x.cfg.Profiles[p.Spec.SchedulerName])
		if err != nil {
			t.Fatal(err)
		}
		return x.nominees.Of(p, class, nil)
	}
	x.Deliver([]objects.Event{podCame(build.Pod("before").CPU("8").Obj())}) // attempts nominate the pods anew
	x.turn(t)
	first := find("p")
	x.Deliver([]objects.Event{podCame(build.Pod("other").CPU("8").Obj())})
	x.turn(t)
	second := find("q")
	if len(first) != nodes || len(second) != nodes {
		t.Fatalf("got %d nominees, then %d, want %d each", len(first), len(second), nodes)
	}
	for i := range nodes {
		if shared := first[i] == second[i]; shared != (i > 0) {
			t.Errorf("node %s: got the same nominee: %v, want it but where pods that attach volumes are nominated", x.state.Table(int(first[i].Row.Shard)).Name(first[i].Row.Index), shared)
		}
	}
	x.queue.Nominated("n0")[0].Obj.Spec.Volumes = nil // nobody tells, so nobody looks
	if find("s")[0] == find("t")[0] {
		t.Error("the volumes of nominated pods are looked at again where no nomination has changed")
	}
	x.Deliver([]objects.Event{podCame(build.Pod("more").CPU("8").NodeSelector("is", "nowhere").Apart(build.Around(v1.LabelHostname, "app=shy")).Nominated("n1").Obj())})
	x.turn(t)
	if third := find("r"); third[1] == second[1] || third[2] != second[2] {
		t.Errorf("a pod more is nominated to n1: its nominee is the same: %v, n2's: %v, want only n2's",
			third[1] == second[1], third[2] == second[2])
	}
}

// A promised node goes and comes back in a row of its own, between batches that a sweep lies between: the promise is kept on
// the node as it is now.
func TestAPromisedNodeThatComesBack(t *testing.T) {
	large := build.Pod("large").UID("large").CPU("4").Priority(10).NodeSelector("is", "nowhere").Nominated("n").Obj()
	n, m := build.Node("n").CPU("4").Memory("8Gi").Obj(), build.Node("m").CPU("3").Memory("8Gi").Obj()
	x := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: []*v1.Node{n, m}, Pods: []*v1.Pod{large}}, nil)
	come := func(name string) {
		x.Deliver([]objects.Event{podCame(build.Pod(name).UID(name).CPU("500m").Obj())})
		x.turn(t)
	}
	sweeps := func() {
		x.sweeps.at = time.Time{}
		x.sweep(time.Now())
	}
	sweeps()
	come("a")
	x.Deliver([]objects.Event{{Type: objects.Deleted, Kind: objects.KindNode, Node: n}, {Type: objects.Added, Kind: objects.KindNode, Node: build.Node("o").CPU("100m").Obj()}, {Type: objects.Added, Kind: objects.KindNode, Node: n}})
	sweeps()
	come("b")
	for _, d := range x.decided(t) {
		if d.Pod != "default/large" && d.Node != "m" {
			t.Errorf("got %v, want it on m: n is promised", d)
		}
	}
}
