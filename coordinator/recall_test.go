package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A scheduler that observes decides nothing, whatever comes, and tells of pods what others have decided.
func TestAnObserverDecidesNothing(t *testing.T) {
	observe := func(cfg *SchedulerConfig) { cfg.Observe = true }
	fits, waits, fails := build.Pod("fits").CPU("1").Obj(), build.Pod("waits").CPU("100").Obj(), build.Pod("fails").CPU("1").Obj()
	runScenarioWith(t, observe, clusterOf(nodesOf("4", "a", "b"), fits, waits, fails), nil, func(x *scenario) {
		if err := x.Idle(x.ctx); err != nil {
			t.Fatal(err)
		}
		const refusal = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: " +
			"2 Preemption is not helpful for scheduling."
		past := Past{
			Decisions: []*pb.PastDecision{
				{Decision: &pb.Decision{Seq: 7, Pod: "default/waits", Uid: string(waits.UID), Message: refusal}, Attempt: 3, Time: timestamppb.Now()},
			},
			Refused: map[types.UID]Refusal{
				waits.UID: {Attempts: 3, Message: refusal, At: time.Now()},
				fails.UID: {Attempts: 1, Message: "the disk is on fire", Failed: true, At: time.Now()},
				"nobody":  {Attempts: 1, Message: "is not there"},
			},
		}
		if err := x.Recall(x.ctx, past); err != nil {
			t.Fatal(err)
		}
		// What would have a scheduler try pods again: a node, time, a change of the pods.
		x.deliver(objects.Added, build.Node("c").CPU("200").Obj())
		x.deliver(objects.Modified, x.update(fits, "2", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }))
		time.Sleep(time.Hour)
		synctest.Wait()
		x.wantBinds("after an hour")
		got, err := x.Explain(x.ctx, &pb.ExplainRequest{Namespace: "default", Name: "waits"})
		if err != nil {
			t.Fatal(err)
		}
		if got.Feasible != 1 || got.Queue != "unschedulable" || got.Attempts != 3 || got.Decision.GetSeq() != 7 || len(got.History) != 1 {
			t.Errorf("got %v\nwant one feasible node, the third attempt, and decision 7", got)
		}
		if w := got.GetWaits().GetPlugins(); len(w) != 1 || w[0].Plugin != "NodeResourcesFit" {
			t.Errorf("got %v, want it to wait for what NodeResourcesFit asks for", w)
		}
		pending, err := x.Pending(x.ctx, &pb.ListPendingRequest{})
		if err != nil {
			t.Fatal(err)
		}
		causes := map[string]string{}
		for _, g := range pending.Groups {
			causes[g.Name] = g.Causes[0].Plugin + " " + g.Causes[0].Cause
		}
		for name, want := range map[string]string{"fits": " not tried yet", "fails": " the disk is on fire"} {
			if causes[name] != want {
				t.Errorf("pod %s pends for %q, want %q", name, causes[name], want)
			}
		}
		if sum, err := x.Summary(x.ctx); err != nil || sum.Decisions != 7 || !sum.Idle || sum.PodsPending != 3 {
			t.Errorf("got %v, %v, want it idle after 7 decisions, with 3 pods", sum, err)
		}
	})
}
