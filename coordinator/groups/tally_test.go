package groups

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Whatever happens to pod groups, the tally is what counting all of them anew gives.
func TestTheTallyIsWhatCountingGives(t *testing.T) {
	g, r := New(All()), rand.New(rand.NewPCG(1, 2))
	pods := map[int]*v1.Pod{}
	for i := range 20_000 {
		name := fmt.Sprint("g", r.IntN(5))
		at := types.NamespacedName{Namespace: "ns", Name: name}
		n := r.IntN(40)
		p := pods[n]
		if p == nil {
			p = pod(fmt.Sprint("p", n), name, "")
			pods[n] = p
		}
		switch r.IntN(8) {
		case 0:
			g.Set(gang(name, 1+r.Int32N(9)))
		case 1:
			g.Remove(at)
		case 2, 3:
			g.PodSet(p, true)
		case 4:
			g.Assumed(p, "n1")
		case 5:
			g.Forgotten(p)
		case 6:
			g.PodGone(p)
			delete(pods, n)
		case 7:
			if x := g.Get(at); x != nil {
				x.SetVerdict(&Verdict{State: State(r.IntN(States)), Need: 1 + r.IntN(9), Fit: r.IntN(9)})
			}
		}
		var want Tally
		for x := range g.All() {
			want.States[x.state()]++
			if x.state() == Unschedulable {
				want.Deficit += max(x.verdict.Need, 1) - x.verdict.Fit
			}
		}
		if got := g.Tally(); got != want {
			t.Fatalf("after %d changes the tally is %+v, and not %+v", i+1, got, want)
		}
	}
}

func TestStanding(t *testing.T) {
	g := New(All())
	at := types.NamespacedName{Namespace: "ns", Name: "a"}
	is := func(want string) {
		t.Helper()
		if got := g.Get(at).Standing().Line(); got != want {
			t.Errorf("it stands at\n%s\nand not\n%s", got, want)
		}
	}
	p, q := pod("p", "a", ""), pod("q", "a", "")
	g.PodSet(p, true)
	is(`waiting for pods's pod group "a" to appear in scheduling queue: 1 exist; waits for PodGroup ns/a`)
	g.Set(gang("a", 2))
	is("waiting for minCount pods from a gang to appear in scheduling queue: 1 of 2 needed exist; waits for 1 more pod")
	g.PodSet(q, true)
	is("pod group is not tried yet: 2 of 2 needed exist; waits for its turn")
	held := q.DeepCopy()
	held.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/quota"}}
	g.PodSet(held, true)
	is("pod group is not tried yet: 2 of 2 needed exist; waits for the scheduling gates of 1 pod")
	g.Get(at).SetVerdict(&Verdict{State: Unschedulable, Exist: 2, Need: 2, Fit: 1})
	is("pod group is unschedulable: 1 of 2 needed fit (2 exist); waits for the scheduling gates of 1 pod")
	g.PodSet(q, true)
	is("pod group is unschedulable: 1 of 2 needed fit (2 exist); waits for room for 1 more")
	g.Get(at).SetVerdict(&Verdict{State: Unschedulable, Exist: 2, Need: 2, Fit: 1})
	g.PodSet(pod("r", "a", ""), true)
	is("pod group is unschedulable: 1 of 2 needed fit (3 exist); waits for room for 1 more")
	g.Assumed(p, "n1")
	g.Assumed(q, "n2")
	is("pod group is scheduled: 2 of 2 needed have nodes (3 exist)")
	g.Forgotten(q)
	is("pod group is unschedulable: 1 of 2 needed fit (3 exist, 1 have nodes); waits for room for 1 more")
	g.Set(gang("b", math.MaxInt32))
	at.Name = "b"
	is("minCount is 2147483647, at most 8192 pods are scheduled together: 0 of 2147483647 needed exist; " +
		"waits for a PodGroup with a smaller minCount")
}
