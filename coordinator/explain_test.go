package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// rows is every row of every table, as text, but for what each pod counts for: counters come into
// use.
func (x *trial) rows() []string {
	var out []string
	for i := range x.state.NumShards() {
		x.state.Table(i).Snapshot(func(r *pb.SnapshotRow) bool {
			r = proto.CloneOf(r)
			for _, p := range r.Pods {
				if p.Leaving, p.Shared = nil, nil; p.Usage != nil {
					p.Usage.Counters = nil
				}
			}
			out = append(out, r.String())
			return true
		})
	}
	return out
}

// counted is every counter that some row has, as text.
func (x *trial) counted() map[uint32]string {
	out := map[uint32]string{}
	for i := range x.state.NumShards() {
		x.state.Table(i).Counters(func(c *pb.CounterColumn) bool {
			out[c.Counter] += fmt.Sprintf(" shard %d: %v", i, c)
			return true
		})
	}
	return out
}

// explainNow takes all steps of an explanation.
func (s *Scheduler) explainNow(req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	e, x := observe.NewExplanation(req), s.explainer()
	for !x.Step(e) {
	}
	return e.Answer()
}

// explained explains a pod of the namespace default.
func (x *trial) explained(t rapid.TB, name string, top uint32) *pb.ExplainResponse {
	t.Helper()
	return x.explainedIn(t, "default", name, top)
}

// explainedIn explains a pod and holds that nothing has changed by it.
func (x *trial) explainedIn(t rapid.TB, namespace, name string, top uint32) *pb.ExplainResponse {
	t.Helper()
	before, counted := x.rows(), x.counted()
	all, assumed := x.state.Pods()
	out, err := x.explainNow(&pb.ExplainRequest{Namespace: namespace, Name: name, Top: top})
	if err != nil {
		t.Fatalf("explain %s: %v", name, err)
	}
	if d := cmp.Diff(before, x.rows()); d != "" {
		t.Fatalf("tables after explaining %s (-before +after):\n%s", name, d)
	}
	for id, now := range x.counted() {
		if was, inUse := counted[id]; inUse && was != now { // others have come into use
			t.Fatalf("counter %d after explaining %s: got %s, want %s", id, name, now, was)
		}
	}
	if a, b := x.state.Pods(); a != all || b != assumed {
		t.Fatalf("pods after explaining %s: got %d, %d assumed; want %d, %d", name, a, b, all, assumed)
	}
	return out
}

// scores words the nodes that an explanation shows.
func scores(out *pb.ExplainResponse) []string {
	var lines []string
	for _, n := range out.Top {
		line := fmt.Sprintf("%s %d", n.Node, n.Score)
		if n.Chosen {
			line += " chosen"
		}
		total := int64(0)
		for _, p := range n.Plugins {
			total += p.Normalised * p.Weight
		}
		if total != n.Score {
			line += fmt.Sprintf(", but its plugins come to %d", total)
		}
		lines = append(lines, line)
	}
	return lines
}

func reasonsOf(out *pb.ExplainResponse) []string {
	var lines []string
	for _, r := range out.Reasons {
		lines = append(lines, fmt.Sprintf("%d %s: %s", r.Nodes, r.Plugin, r.Reason))
	}
	return lines
}

func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestAPlacedPodIsJudgedWithoutItself(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{build.Node("a").CPU("4").Memory("8Gi").Obj(), build.Node("b").CPU("2").Memory("8Gi").Obj()},
		Pods:  []*v1.Pod{build.Pod("p").CPU("4").Memory("8Gi").Obj()}, // fills a
	}, nil)
	x.turn(t)
	decided := x.decided(t)[0]
	out := x.explained(t, "p", 0)
	if out.Node != "a" || out.Nodes != 2 || out.Feasible != 1 || out.Decision.GetScore() != decided.Score || out.Queue != "" {
		t.Errorf("got node %q, %d of %d feasible, decision %v, queue %q; want a, 1 of 2, score %d, none", out.Node, out.Feasible, out.Nodes, out.Decision, out.Queue, decided.Score)
	}
	wantLines(t, "scores", scores(out), fmt.Sprintf("a %d chosen", decided.Score))
	wantLines(t, "reasons", reasonsOf(out), "1 NodeResourcesFit: Insufficient cpu")
	if len(out.Closest) != 1 || out.Closest[0].Node != "b" {
		t.Fatalf("closest: got %v, want b", out.Closest)
	}
	wantLines(t, "shortfalls of b", out.Closest[0].Shortfalls, "cpu: short by 2, too small even when empty (4 > 2)")
}

func TestAPodOnAnAbsentNodeIsToldSo(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer x.fanout.Close()
	other := build.Pod("other").Node("gone").Obj()
	other.Spec.SchedulerName = "another"
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{build.Node("a").CPU("4").Memory("8Gi").Obj()},
		Pods:  []*v1.Pod{build.Pod("stray").Node("gone").Obj(), other, build.Pod("p").Node("a").Obj()},
	}, nil)
	for name, want := range map[string]string{
		"p":     "",
		"stray": "node gone does not exist (any more)",
		"other": "node gone does not exist (any more); its schedulerName is another, and this scheduler's are default-scheduler: only that one can tell why it is where it is",
	} {
		if out := x.explained(t, name, 0); out.Note != want {
			t.Errorf("%s: got note %q, want %q", name, out.Note, want)
		}
	}
}

func TestAPodsNodeIsShownThoughOthersAreBetter(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer x.fanout.Close()
	all := objects.Snapshot{Pods: []*v1.Pod{build.Pod("p").CPU("1").Node("worst").Obj(), build.Pod("other").CPU("2").Node("worst").Obj()}}
	for _, name := range []string{"worst", "b", "c", "d", "e", "f", "g"} {
		all.Nodes = append(all.Nodes, build.Node(name).CPU("4").Memory("8Gi").Obj())
	}
	x.Load(&all, nil)
	for _, top := range []uint32{1, 5, 6, 7, 100} {
		out := x.explained(t, "p", top)
		last := out.Top[len(out.Top)-1]
		if want := min(int(top)+1, 7); len(out.Top) != want || !last.Chosen || last.Node != "worst" || out.Feasible != 7 {
			t.Errorf("top %d: got %v of %d, want %d nodes, the last of them worst", top, scores(out), out.Feasible, want)
		}
	}
	if out := x.explained(t, "p", 0); len(out.Top) != defaultTop+1 {
		t.Errorf("by default: got %v, want %d nodes", scores(out), defaultTop+1)
	}
}

func TestTheClosestNodes(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3}, 0)
	defer x.fanout.Close()
	all := objects.Snapshot{
		Nodes: []*v1.Node{
			build.Node("closed").CPU("64").Memory("64Gi").Unschedulable().Obj(),
			build.Node("tainted").CPU("64").Memory("64Gi").Taint("x:NoSchedule").Obj(),
			build.Node("lacks-both").CPU("7").Memory("1Gi").Obj(),
			build.Node("lacks-a-little").CPU("7500m").Memory("64Gi").Obj(),
			build.Node("lacks-much").CPU("1").Memory("64Gi").Obj(),
		},
		Pods: []*v1.Pod{build.Pod("p").CPU("8").Memory("2Gi").Obj()},
	}
	for i := range 200 {
		all.Nodes = append(all.Nodes, build.Node(fmt.Sprintf("full-%03d", i)).CPU("1").Memory("1Gi").Pods("0").Obj())
	}
	x.Load(&all, nil)
	x.turn(t)
	for _, top := range []uint32{1, 3, 4, 250} {
		out := x.explained(t, "p", top)
		var got []string
		for _, c := range out.Closest {
			got = append(got, c.Node)
		}
		want := []string{"lacks-a-little", "lacks-both", "lacks-much"}
		for i := range 200 {
			want = append(want, fmt.Sprintf("full-%03d", i))
		}
		want = append(want, "tainted", "closed")
		wantLines(t, fmt.Sprintf("closest %d", top), got, want[:min(int(top), len(want))]...)
		if c := out.Closest[0]; c.Plugin != "NodeResourcesFit" || !slices.Equal(c.Reasons, []string{"Insufficient cpu"}) || !slices.Equal(c.Shortfalls, []string{"cpu: short by 500m, too small even when empty (8 > 7500m)"}) {
			t.Errorf("closest: got %v, want what lacks 500m", c)
		}
		wantLines(t, "reasons", reasonsOf(out),
			"203 NodeResourcesFit: Insufficient cpu",
			"201 NodeResourcesFit: Insufficient memory",
			"200 NodeResourcesFit: Too many pods",
			"1 NodeUnschedulable: node(s) were unschedulable",
			"1 TaintToleration: node(s) had untolerated taint(s)")
		if out.Queue != "unschedulable" || out.Attempts != 1 || out.Decision.GetMessage() == "" || out.Feasible != 0 {
			t.Errorf("got queue %q after %d attempts, decision %v, %d feasible; want unschedulable, 1, one with a message, 0", out.Queue, out.Attempts, out.Decision, out.Feasible)
		}
	}
}

func TestWhatIsNotEvaluatedHasANote(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer x.fanout.Close()
	foreign := build.Pod("foreign").Node("a").Obj()
	foreign.Spec.SchedulerName = "another"
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{build.Node("a").CPU("4").Label("k", "v").Obj(), build.Node("b").CPU("4").Label("k", "w").Obj()},
		Pods: []*v1.Pod{
			foreign,
			build.Pod("gated").Gate("wait").Obj(),
			build.Pod("contradicts").Required(build.Term{MatchFields: []v1.NodeSelectorRequirement{
				build.Match("metadata.name", v1.NodeSelectorOpIn, "a"), build.Match("metadata.name", v1.NodeSelectorOpIn, "b"),
			}}).Obj(),
			build.Pod("wrong").Preferred(1, build.Labels(build.Match("k", v1.NodeSelectorOpIn, "-10"))).Obj(),
		},
	}, nil)
	x.turn(t)
	for name, want := range map[string]struct {
		note     string
		feasible uint32
	}{
		"foreign":     {"its schedulerName is another, and this scheduler's are default-scheduler: only that one can tell why it is where it is", 0},
		"gated":       {"waiting for scheduling gates: [wait]", 2},
		"contradicts": {"pod affinity terms conflict", 0},
		"wrong":       {x.history.Last("pod-wrong").GetMessage(), 2},
	} {
		out := x.explained(t, name, 0)
		if out.Nodes == 0 != (name == "foreign") {
			t.Errorf("%s: got %d nodes judged; want none for another scheduler's pod, all for ours", name, out.Nodes)
		}
		if out.Note != want.note || out.Feasible != want.feasible || out.Note == "" {
			t.Errorf("%s: got note %q, %d feasible; want %q, %d", name, out.Note, out.Feasible, want.note, want.feasible)
		}
	}
	_, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: "nobody"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("a pod that is not there: got %v, want NOT_FOUND", err)
	}
}

// Pods that take no room and wait for nobody here are told apart from those that do not exist.
func TestPodsOfOthersAreExplained(t *testing.T) {
	foreign, early := build.Pod("foreign").Obj(), build.Pod("early").Node("a").Obj()
	foreign.Spec.SchedulerName = "another"
	known := map[string]*v1.Pod{"default/foreign": foreign, "default/early": early}
	x := newTrial(t, SchedulerConfig{Shards: 1, PodNamed: func(namespace, name string) *v1.Pod { return known[namespace+"/"+name] }}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: []*v1.Node{build.Node("a").Obj()}}, nil)
	for name, want := range map[string]struct{ note, node string }{
		"foreign": {"its schedulerName is another, and this scheduler's are default-scheduler: only that one can tell why it is where it is", ""},
		"early":   {"news of it is on its way to the scheduler: ask again", "a"},
	} {
		if out := x.explained(t, name, 0); out.Note != want.note || out.Node != want.node {
			t.Errorf("%s: got note %q, node %q; want %q, %q", name, out.Note, out.Node, want.note, want.node)
		}
	}
	if _, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("a pod that is not there: got %v, want NOT_FOUND", err)
	}
}

// Where nobody tells of such pods as they come, the store is asked, off the loop.
func TestPodsThatTheStoreKeepsAreExplained(t *testing.T) {
	foreign, ended := build.Pod("foreign").Obj(), build.Pod("ended").Node("a").Phase(v1.PodSucceeded).Obj()
	foreign.Spec.SchedulerName = "another"
	kept := map[string]*v1.Pod{"default/foreign": foreign, "default/ended": ended}
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		cfg.PodKept = func(_ context.Context, namespace, name string) (*v1.Pod, error) {
			if name == "broken" {
				return nil, errors.New("etcd is away")
			}
			return kept[namespace+"/"+name], nil
		}
	}, clusterOf(nodesOf("4", "a")), nil, func(x *scenario) {
		explain := func(name string) (*pb.ExplainResponse, error) {
			return x.Explain(x.ctx, &pb.ExplainRequest{Namespace: "default", Name: name})
		}
		for name, want := range map[string]string{
			"foreign": "its schedulerName is another, and this scheduler's are default-scheduler: only that one can tell why it is where it is",
			"ended":   "it has ended (Succeeded), and takes no room",
		} {
			if out, err := explain(name); err != nil || out.Note != want {
				t.Errorf("%s: got %q, %v; want %q", name, out.GetNote(), err, want)
			}
		}
		if _, err := explain("nobody"); status.Code(err) != codes.NotFound {
			t.Errorf("a pod that is not there: got %v, want NOT_FOUND", err)
		}
		if _, err := explain("broken"); err == nil || err.Error() != "etcd is away" {
			t.Errorf("a store that fails: got %v, want its error", err)
		}
	})
}

// What an explanation says of a pod is what the scheduler decides right after.
func TestAnExplanationForeseesTheDecision(t *testing.T) {
	for name, draw := range map[string]func(*rapid.T) scene{
		"few kinds":      drawScene,
		"neighbours":     func(t *rapid.T) scene { return drawCrowd(t, 0, false) },
		"nominated ones": func(t *rapid.T) scene { return drawCrowd(t, 30, false) },
		"claims":         func(t *rapid.T) scene { return drawCrowd(t, 10, true) },
		"more keys than fit": func(t *rapid.T) scene {
			s := drawSpread(t)
			s.pending = s.pending[:min(len(s.pending), 4)]
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkForesight(t, draw(t)) })
		})
	}
}

// checkForesight explains pods, some of the scene's, before they are decided, and after.
func checkForesight(t *rapid.T, s scene) {
	s.pending = s.pending[:min(len(s.pending), 10)]
	x := newTrial(t, SchedulerConfig{Shards: rapid.IntRange(1, 3).Draw(t, "shards"), BatchSize: 1}, 0)
	defer x.fanout.Close()
	x.Load(s.load(), nil)
	for _, p := range x.queue.PopBatch(len(s.pending), nil) {
		out := x.explainedIn(t, p.Obj.Namespace, p.Obj.Name, 2)
		batch, err := x.prepareAll([]*queue.Pod{p})
		if err == nil {
			err = x.ask(quiet(), batch)
		}
		if err != nil {
			t.Fatal(err)
		}
		a := batch[0]
		if !x.decide(quiet(), &a) {
			t.Fatalf("decide %s: %v", p.Obj.Name, x.err)
		}
		x.dispatch()
		past := x.history.Past(p.Obj.UID)
		d := past[0].Decision
		compareForesight(t, p.Obj, out, d)
		compareTop(t, p.Obj, out.Top, past[0].Top)
		if d.Node == "" || p.Obj.Status.NominatedNodeName != "" || len(p.Obj.Spec.Volumes) > 0 {
			continue // there is no score to compare, or the claims are other ones now
		}
		if again := x.explainedIn(t, p.Obj.Namespace, p.Obj.Name, 1); again.Top[0].Score != d.Score || again.Feasible != d.Feasible {
			t.Fatalf("%s: decided score %d of %d feasible, explained afterwards as %d of %d", d.Pod, d.Score, d.Feasible, again.Top[0].Score, again.Feasible)
		}
	}
}

// compareTop compares the nodes that were foreseen as the best with those that the decision
// remembers.
func compareTop(t *rapid.T, p *v1.Pod, foreseen, remembered []*pb.ScoredNode) {
	if len(remembered) == 0 || p.Status.NominatedNodeName != "" {
		return // it is not spelled out, or another node was taken
	}
	if !remembered[0].Chosen {
		t.Fatalf("%s: the best node of the decision is %v, which was not chosen", p.Name, remembered[0])
	}
	for i := range min(len(foreseen), len(remembered)) {
		got := proto.CloneOf(remembered[i])
		got.Chosen = false
		if d := cmp.Diff(foreseen[i], got, protocmp.Transform()); d != "" {
			t.Fatalf("%s: node %d (-foreseen +remembered):\n%s", p.Name, i, d)
		}
	}
}

// compareForesight compares what was foreseen with what was decided.
func compareForesight(t *rapid.T, p *v1.Pod, out *pb.ExplainResponse, d *pb.Decision) {
	if own := "nominated to node " + p.Status.NominatedNodeName + ", which takes it: no other is tried"; strings.Contains(out.Note, own) {
		if d.Node != p.Status.NominatedNodeName || d.Feasible != 1 {
			t.Fatalf("%s: foreseen on %s alone, decided %v", d.Pod, p.Status.NominatedNodeName, d)
		}
		return
	}
	if d.Node != "" {
		if top := out.Top[0]; out.Feasible != d.Feasible || out.Nodes != d.Nodes || top.Node != d.Node || top.Score != d.Score {
			t.Fatalf("%s: foreseen %v of %d, %d nodes; decided %v", d.Pod, scores(out), out.Feasible, out.Nodes, d)
		}
		return
	}
	if out.Note != "" {
		if !strings.Contains(d.Message, out.Note) {
			t.Fatalf("%s: foreseen %q, decided %q", d.Pod, out.Note, d.Message)
		}
		return
	}
	counts := map[string]int{}
	for _, r := range out.Reasons {
		counts[r.Reason] += int(r.Nodes)
	}
	if want := answers.FitError(int(d.Nodes), counts); d.Message != want || out.Feasible != 0 {
		t.Fatalf("%s: foreseen %d feasible, %q; decided %q", d.Pod, out.Feasible, want, d.Message)
	}
}
