package coordinator

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// observer makes a scheduler that only observes, of a snapshot.
func observer(t rapid.TB, all *objects.Snapshot, candidates int) *trial {
	t.Helper()
	x := newTrial(t, SchedulerConfig{Shards: 3, Observe: true, Profiles: withPreemption()}, candidates)
	x.Load(all, nil)
	return x
}

// TestAJudgementIsAnExplanation holds judgements of all nodes, in random clusters that change by what was bound elsewhere, to
// explanations, which judge every row by itself, and that nothing comes of them.
func TestAJudgementIsAnExplanation(t *testing.T) {
	refused, better := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		c := build.Crowd(r, build.CrowdSize{Nodes: rapid.IntRange(1, 8).Draw(t, "nodes"), Present: rapid.IntRange(0, 8).Draw(t, "present"),
			Pending: rapid.IntRange(1, 8).Draw(t, "pending"), Kinds: rapid.IntRange(1, 3).Draw(t, "kinds"), Nominated: 20,
			Claims: rapid.Bool().Draw(t, "claims")})
		pods := slices.Concat(c.Present, c.Pending)
		x := observer(t, &objects.Snapshot{Nodes: c.Nodes, Pods: pods, Cluster: c.Others}, rapid.IntRange(0, 3).Draw(t, "candidates"))
		defer x.fanout.Close()
		for _, p := range c.Pending {
			want := x.explainedAll(t, p)
			before := x.rows()
			var chosen string
			for _, v := range want.Verdicts {
				got, err := x.judge(t.Context(), p.UID, v.Node, false)
				if err != nil {
					if want.Note == "" {
						t.Fatalf("judge pod %s: %v, and its explanation has no note", p.Name, err)
					}
					break
				}
				if got.Passes != (v.Scored != nil) || v.Scored != nil && got.NodeScore != v.Scored.Score {
					t.Fatalf("pod %s on node %s: got %+v, want %v", p.Name, v.Node, got, v)
				}
				own := p.Status.NominatedNodeName != "" && got.Node == p.Status.NominatedNodeName && got.Feasible == 1
				if !own && (got.Feasible != int(want.Feasible) || got.Nodes != int(want.Nodes)) {
					t.Fatalf("pod %s: %d of %d nodes feasible, want %d of %d", p.Name, got.Feasible, got.Nodes, want.Feasible, want.Nodes)
				}
				if best := want.Top; !own && (len(best) == 0) != (got.Node == "") || !own && len(best) > 0 && got.Score != best[0].Score {
					t.Fatalf("pod %s: the best is %s with %d, want %v", p.Name, got.Node, got.Score, best)
				}
				if chosen = got.Node; v.Scored == nil {
					refused++
				} else if got.Score > got.NodeScore {
					better++
				}
			}
			if !slices.Equal(before, x.rows()) {
				t.Fatalf("tables have changed by judging pod %s", p.Name)
			}
			if x.queue.Get(p.UID) == nil || x.seq != 0 {
				t.Fatalf("pod %s is not pending any more, after decision %d", p.Name, x.seq)
			}
			// Another scheduler binds it, as we would or anywhere.
			if to := chosen; to != "" || len(c.Nodes) > 0 && r.IntN(2) == 0 {
				if to == "" || r.IntN(3) == 0 {
					to = c.Nodes[r.IntN(len(c.Nodes))].Name
				}
				bound := p.DeepCopy()
				bound.Spec.NodeName = to
				x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: bound})
			}
		}
	})
	if refused == 0 || better == 0 {
		t.Errorf("%d nodes were refused and %d were worse than the best, want some of both", refused, better)
	}
}

// explainedAll explains what becomes of a pod on each node.
func (x *trial) explainedAll(t rapid.TB, p *v1.Pod) *pb.ExplainResponse {
	t.Helper()
	out, err := x.explainNow(&pb.ExplainRequest{Namespace: p.Namespace, Name: p.Name, AllNodes: true})
	if err != nil {
		t.Fatalf("explain %s: %v", p.Name, err)
	}
	return out
}

func TestAJudgementTellsVictimsAndLetsThemBe(t *testing.T) {
	low := build.Pod("low").CPU("3").Node("a").Priority(1).Obj()
	high := build.Pod("high").CPU("2").Priority(10).Obj()
	x := observer(t, &objects.Snapshot{Nodes: []*v1.Node{build.Node("a").CPU("4").Obj()}, Pods: []*v1.Pod{low, high}}, 0)
	defer x.fanout.Close()
	for _, preempts := range []bool{false, true, true} {
		got, err := x.judge(t.Context(), high.UID, "a", preempts)
		if err != nil {
			t.Fatal(err)
		}
		if got.Node != "" || got.Passes || got.Feasible != 0 || got.Message == "" {
			t.Errorf("got %+v, want no node", got)
		}
		if victim := got.Nominated == "a" && len(got.Victims) == 1 && got.Victims[0] == low; victim != preempts {
			t.Errorf("got node %q and victims %v, want pod low on node a: %v", got.Nominated, got.Victims, preempts)
		}
	}
	if all, _ := x.state.Pods(); all != 1 || x.queue.Get(high.UID).Nomination() != "" {
		t.Errorf("%d pods are on nodes, and pod high is nominated to %q, want all as it was", all, x.queue.Get(high.UID).Nomination())
	}
}

func TestWhatIsNotJudged(t *testing.T) {
	pods := []*v1.Pod{build.Pod("there").Node("a").Obj(), build.Pod("leaving").Terminating().Obj(), build.Pod("p").Obj()}
	x := observer(t, &objects.Snapshot{Pods: pods}, 0)
	defer x.fanout.Close()
	for i, want := range []error{ErrNotPending, ErrLeaving, nil} {
		if _, err := x.judge(t.Context(), pods[i].UID, "a", false); !errors.Is(err, want) {
			t.Errorf("pod %s: got %v, want %v", pods[i].Name, err, want)
		}
	}
	if _, err := x.judge(t.Context(), "nobody", "a", false); !errors.Is(err, ErrNotPending) {
		t.Errorf("got %v, want %v", err, ErrNotPending)
	}
	if got, err := x.judge(t.Context(), pods[2].UID, "a", true); err != nil || got.Message != noNodes {
		t.Errorf("without nodes: got %+v, %v", got, err)
	}
	decides := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer decides.fanout.Close()
	if _, err := decides.Judge(t.Context(), "p", "a", false); err == nil {
		t.Error("a scheduler that decides judges, too")
	}
}
