package cache

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func newNode(name string) *v1.Node { return build.Node(name).CPU("8").Memory("32Gi").Obj() }

func newPod(name, cpu string) *build.PodBuilder { return build.Pod(name).CPU(cpu) }

// on puts a pod on a node, as it is seen there.
func on(t *testing.T, c *Cache, p *v1.Pod, nodeName string) {
	t.Helper()
	seen := p.DeepCopy()
	seen.Spec.NodeName = nodeName
	if _, err := c.SetPod(seen); err != nil {
		t.Fatal(err)
	}
}

func assume(t *testing.T, c *Cache, p *v1.Pod, nodeName string, decision uint64) {
	t.Helper()
	if err := c.Assume(p, nodeName, compile.Usage(p), decision); err != nil {
		t.Fatal(err)
	}
}

func setNode(t *testing.T, c *Cache, n *v1.Node) {
	t.Helper()
	if _, err := c.SetNode(n); err != nil {
		t.Fatal(err)
	}
}

func removeNode(t *testing.T, c *Cache, name string) {
	t.Helper()
	if _, err := c.RemoveNode(name); err != nil {
		t.Fatal(err)
	}
}

// used words what the pods of a node add up to.
func used(c *Cache, nodeName string) string {
	row, ok := c.RowOf(nodeName)
	if !ok {
		return "no row"
	}
	out := "an empty row"
	c.Table(int(row.Shard)).Snapshot(func(r *pb.SnapshotRow) bool {
		if r.GetRow() == row.Index {
			s := r.GetTotals()
			out = fmt.Sprintf("%d pods, %dm, decision %d", s.GetPods(), s.GetRequested().GetMilliCpu(), s.GetLastDecision())
		}
		return true
	})
	return out
}

func want(t *testing.T, c *Cache, when, nodeName, usage string) {
	t.Helper()
	if got := used(c, nodeName); got != usage {
		t.Errorf("%s: node %s: got %s, want %s", when, nodeName, got, usage)
	}
}

func wantPod(t *testing.T, c *Cache, when string, uid types.UID, nodeName string, assumed bool) {
	t.Helper()
	if _, node, isAssumed := c.Pod(uid); node != nodeName || isAssumed != assumed {
		t.Errorf("%s: pod %s: got node %q, assumed %t; want %q, %t", when, uid, node, isAssumed, nodeName, assumed)
	}
}

func TestLifeOfAPromise(t *testing.T) {
	c := New(3)
	setNode(t, c, newNode("a"))
	p := newPod("p", "2").Obj()

	assume(t, c, p, "a", 7)
	want(t, c, "assumed", "a", "1 pods, 2000m, decision 7")
	wantPod(t, c, "assumed", p.UID, "a", true)

	generation := c.Table(ShardOf("a", 3)).Generation()
	on(t, c, p, "a")
	want(t, c, "confirmed", "a", "1 pods, 2000m, decision 7")
	wantPod(t, c, "confirmed", p.UID, "a", false)
	if got := c.Table(ShardOf("a", 3)).Generation(); got != generation {
		t.Errorf("a pod that is seen where it was assumed: got generation %d, want %d: nothing to tell the workers", got, generation)
	}
	if forgot, err := c.Forget(p.UID); forgot || err != nil {
		t.Errorf("forget a confirmed pod: got %t, %v; want it left alone", forgot, err)
	}

	if _, _, err := c.RemovePod(p.UID); err != nil {
		t.Fatal(err)
	}
	want(t, c, "removed", "a", "0 pods, 0m, decision 7")
	if all, assumed := c.Pods(); all != 0 || assumed != 0 {
		t.Errorf("pods after all: got %d, %d assumed; want none", all, assumed)
	}
}

func TestAForgottenPromiseGivesItsRoomBack(t *testing.T) {
	c := New(1)
	setNode(t, c, newNode("a"))
	p := newPod("p", "2").HostPort("", "", 80).Obj()
	assume(t, c, p, "a", 1)
	if forgot, err := c.Forget(p.UID); !forgot || err != nil {
		t.Fatalf("forget: got %t, %v; want an assumed pod forgotten", forgot, err)
	}
	want(t, c, "forgotten", "a", "0 pods, 0m, decision 1")
	assume(t, c, p, "a", 2)
	want(t, c, "assumed again", "a", "1 pods, 2000m, decision 2")
}

func TestAPodSeenElsewhereLeavesItsPromise(t *testing.T) {
	c := New(2)
	setNode(t, c, newNode("a"))
	setNode(t, c, newNode("b"))
	p := newPod("p", "2").Obj()
	assume(t, c, p, "a", 1)
	on(t, c, p, "b")
	want(t, c, "after", "a", "0 pods, 0m, decision 1")
	want(t, c, "after", "b", "1 pods, 2000m, decision 0")
	wantPod(t, c, "after", p.UID, "b", false)
}

func TestAPodThatShrinksOnItsNode(t *testing.T) {
	c := New(1)
	setNode(t, c, newNode("a"))
	on(t, c, newPod("p", "4").Obj(), "a")
	on(t, c, newPod("p", "1").Obj(), "a")
	want(t, c, "after", "a", "1 pods, 1000m, decision 0")
}

func TestPodsOutliveTheirNode(t *testing.T) {
	c := New(2)
	bound, assumed := newPod("bound", "1").Obj(), newPod("assumed", "2").Obj()
	on(t, c, bound, "a")
	assume(t, c, assumed, "a", 5)
	want(t, c, "before the node is known", "a", "no row")

	setNode(t, c, newNode("a"))
	want(t, c, "when the node comes", "a", "2 pods, 3000m, decision 0")
	removeNode(t, c, "a")
	want(t, c, "when the node is gone", "a", "no row")
	if n := c.Node("a"); n != nil || c.Nodes() != 0 {
		t.Errorf("a node that is gone: got %v and %d nodes, want none", n, c.Nodes())
	}

	if _, err := c.Forget(assumed.UID); err != nil {
		t.Fatal(err)
	}
	setNode(t, c, newNode("a"))
	want(t, c, "when the node is back", "a", "1 pods, 1000m, decision 0")
}

func TestRowsAreUsedAgain(t *testing.T) {
	c := New(1)
	for i := range 10 {
		setNode(t, c, newNode(fmt.Sprintf("n%d", i)))
	}
	freed := map[uint32]bool{}
	for _, name := range []string{"n3", "n7"} {
		row, _ := c.RowOf(name)
		freed[row.Index] = true
		on(t, c, newPod("on-"+name, "1").Obj(), name)
		removeNode(t, c, name)
	}
	for _, name := range []string{"x", "y"} {
		setNode(t, c, newNode(name))
		row, _ := c.RowOf(name)
		if !freed[row.Index] {
			t.Errorf("node %s: got row %d, want one of those that were freed: %v", name, row.Index, freed)
		}
		delete(freed, row.Index)
		want(t, c, "new node in an old row", name, "0 pods, 0m, decision 0")
	}
	setNode(t, c, newNode("z"))
	if row, _ := c.RowOf("z"); row.Index != 10 {
		t.Errorf("node z: got row %d, want 10: no other is free", row.Index)
	}
}

func TestAHeartbeatTellsTheWorkersNothing(t *testing.T) {
	c := New(1)
	setNode(t, c, newNode("a"))
	beat := newNode("a")
	beat.Annotations = map[string]string{"seen": "now"}
	before := c.Table(0).Generation()
	old, err := c.SetNode(beat)
	if err != nil || old == nil {
		t.Fatalf("SetNode: got %v, %v; want the object before", old, err)
	}
	if got := c.Table(0).Generation(); got != before {
		t.Errorf("generation: got %d, want %d", got, before)
	}
	if c.Node("a") != beat {
		t.Errorf("object: got another, want the newest")
	}
}

func TestFind(t *testing.T) {
	c := New(1)
	assume(t, c, newPod("p", "1").Namespace("x").UID("1").Obj(), "a", 1)
	on(t, c, newPod("p", "1").Namespace("y").UID("2").Obj(), "b")
	for _, x := range []struct {
		namespace, name string
		want            types.UID
	}{{"x", "p", "1"}, {"y", "p", "2"}, {"z", "p", ""}, {"x", "q", ""}} {
		if got, left := c.Find(x.namespace, x.name, 10, 10); got != x.want || left != 0 {
			t.Errorf("%s/%s: got %q, %d left; want %q, none", x.namespace, x.name, got, left, x.want)
		}
	}
}

// A pod that is there all the while is found in steps, though others go.
func TestFindInSteps(t *testing.T) {
	c := New(1)
	for i := range 10 {
		on(t, c, newPod(fmt.Sprint("p", i), "1").UID(fmt.Sprint(i)).Obj(), "a")
	}
	below := 100
	for _, x := range []struct {
		goes types.UID
		want types.UID
		left int
	}{{"9", "", 7}, {"1", "", 4}, {"", "", 1}, {"", "0", 0}} {
		var got types.UID
		if got, below = c.Find("default", "p0", below, 3); got != x.want || below != x.left {
			t.Errorf("got %q, %d left; want %q, %d", got, below, x.want, x.left)
		}
		if x.goes != "" {
			if _, _, err := c.RemovePod(x.goes); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAPodCanNotBeAssumedTwice(t *testing.T) {
	c := New(1)
	p := newPod("p", "1").Obj()
	assume(t, c, p, "a", 1)
	err := c.Assume(p, "b", compile.Usage(p), 2)
	if err == nil || !strings.Contains(err.Error(), "default/p: it is on node a already") {
		t.Errorf("got %v, want an error that names the pod and node a", err)
	}
	wantPod(t, c, "after", p.UID, "a", true)
}

func TestPodsThatAskForMoreThanAnIntegerHoldsAreTakenIn(t *testing.T) {
	const many = 600 // a quarter of them are more than 62 bits together
	c := New(1)
	absurd := func(i int) *v1.Pod { return newPod(fmt.Sprintf("p%d", i), "36e12").Obj() }
	for i := range many / 2 {
		on(t, c, absurd(i), "n")
	}
	setNode(t, c, newNode("n")) // the node comes after some of them
	for i := many / 2; i < many; i++ {
		on(t, c, absurd(i), "n")
	}
	if got := used(c, "n"); !strings.HasPrefix(got, fmt.Sprintf("%d pods, 46", many)) {
		t.Errorf("got %s, want %d pods and about 2^62 thousandths of a core", got, many)
	}
	removeNode(t, c, "n")
	setNode(t, c, newNode("n"))
	for i := range many {
		if _, _, err := c.RemovePod(absurd(i).UID); err != nil {
			t.Fatal(err)
		}
	}
	want(t, c, "without them", "n", "0 pods, 0m, decision 0")
}
