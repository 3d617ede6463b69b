package coordinator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/build"
	"github.com/shardsched/shardsched/coordinator/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// manyNodes are so many that an explanation takes several steps: some refuse, the others are in groups.
func manyNodes() []*v1.Node {
	var nodes []*v1.Node
	for i := range 2*rowsAtOnce + rowsAtOnce/2 {
		name := fmt.Sprintf("n%05d", i)
		nodes = append(nodes, build.Node(name).CPU(fmt.Sprint(1+i%4)).Memory("8Gi").Label(v1.LabelHostname, name).Label(v1.LabelTopologyZone, fmt.Sprint("z", i%3)).Obj())
	}
	return nodes
}

// A turn of the loop judges so many rows for explanations and no more, however many explanations there are, and
// an explanation in steps says what one without a pause says.
func TestExplanationsAreTakenInSteps(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: peaceful()}, 0)
	defer x.fanout.Close()
	x.Load(&store.Objects{Nodes: manyNodes(), Pods: []*v1.Pod{
		build.Pod("there").CPU("2").Label("a", "b").Node("n00003").Obj(),
		build.Pod("p").CPU("2").Label("a", "b").Apart(build.Around(v1.LabelHostname, "a=b")).Nominated("n00007").Obj(),
	}}, nil)
	want, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: "p", Top: 3})
	if err != nil {
		t.Fatal(err)
	}
	var flood [3]explanation
	for i := range flood {
		e := &flood[i]
		e.req = &pb.ExplainRequest{Namespace: "default", Name: "p", Top: 3}
		x.reads = append(x.reads, read{ctx: t.Context(), step: func() bool { return x.explain(e) }, done: make(chan struct{})})
	}
	looked := func() (rows int) {
		for i := range flood {
			if e := flood[i].x; e != nil {
				rows += 2*x.cache.Nodes() - 2*len(e.left) - len(e.grouped)
			}
		}
		return rows
	}
	turns := 0
	for ; len(x.reads) > 0; turns++ {
		before := looked()
		x.readSome()
		// A row in a group is looked at twice, and counts as one that waits for its second look in between.
		if n := looked() - before; n > 2*rowsAtOnce {
			t.Fatalf("turn %d: looked at %d rows, want %d at the most", turns, n, 2*rowsAtOnce)
		}
	}
	if least := len(flood) * 3; turns < least {
		t.Errorf("got %d turns, want %d or more", turns, least)
	}
	for i := range flood {
		if d := cmp.Diff(want, flood[i].out, protocmp.Transform()); d != "" || flood[i].err != nil {
			t.Errorf("explanation %d in steps (-at once +in steps): %v\n%s", i, flood[i].err, d)
		}
	}
}

// Nodes that come and go between two steps have an explanation begin anew, and given up in the end.
func TestAnExplanationBeginsAnewWhereNodesChange(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: peaceful()}, 0)
	defer x.fanout.Close()
	nodes := manyNodes()
	x.Load(&store.Objects{Nodes: nodes, Pods: []*v1.Pod{build.Pod("p").CPU("2").Obj()}}, nil)
	e := explanation{req: &pb.ExplainRequest{Namespace: "default", Name: "p"}}
	if x.explain(&e) {
		t.Fatal("got an answer at once, want one step of several")
	}
	x.nodeGone(nodes[1])
	for !x.explain(&e) {
	}
	if want := uint32(len(nodes) - 1); e.err != nil || e.out.Nodes != want || e.out.Feasible+e.out.Reasons[0].Nodes != want {
		t.Errorf("got %v, %v; want %d nodes in all", e.out, e.err, want)
	}
	e = explanation{req: e.req}
	for steps := 0; !x.explain(&e); steps++ {
		if steps > maxRestarts {
			t.Fatalf("goes on after %d steps", steps)
		}
		x.nodeSet(nodes[1])
		x.nodeGone(nodes[1])
	}
	if status.Code(e.err) != codes.Aborted || x.err != nil {
		t.Errorf("got %v, the loop's error %v; want ABORTED and none", e.err, x.err)
	}
}

// Of many explanations and summaries so many are taken as there are places, those of whom nobody waits are skipped,
// and places come free.
func TestReadsAreBounded(t *testing.T) {
	onStage(t, clusterOf(nodesOf("4", "n"), cores("p", "8")), nil, func(x *stage) {
		stuck := make(chan struct{})
		x.inbox.put(func() { <-stuck })
		ctx, give := context.WithCancel(x.ctx)
		calls := make(chan error, maxReads+1)
		for i := range maxReads {
			of := x.ctx
			if i == 0 {
				of = ctx
			}
			go func() {
				_, err := x.Explain(of, &pb.ExplainRequest{Namespace: "default", Name: "p"})
				calls <- err
			}()
		}
		synctest.Wait()
		if _, err := x.Summary(x.ctx); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("with all places taken: got %v, want RESOURCE_EXHAUSTED", err)
		}
		give()
		if err := <-calls; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: got %v, want %v", err, context.Canceled)
		}
		var judged bool
		gone, leave := context.WithCancel(x.ctx)
		leave()
		_ = x.read(read{ctx: gone, step: func() bool { judged = true; return true }})
		close(stuck)
		for range maxReads - 1 {
			if err := <-calls; err != nil {
				t.Errorf("got %v, want an explanation", err)
			}
		}
		synctest.Wait()
		if judged {
			t.Error("a read that nobody waits for was made")
		}
		if _, err := x.Summary(x.ctx); err != nil || len(x.readers) != 0 {
			t.Errorf("after all: got %v, %d places taken; want a summary and none", err, len(x.readers))
		}
	})
}
