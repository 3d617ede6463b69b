package coordinator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Of a workload the pod is explained that is worst off: one that waits before one that is placed.
func TestAWorkloadIsExplainedByItsWorstPod(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	of := func(name, node, cpu string) *v1.Pod {
		b := build.Pod(name).Label("pod-template-hash", "5d4f").Owner("apps/v1", "ReplicaSet", "web-5d4f").CPU(cpu)
		if node != "" {
			b = b.Node(node)
		}
		return b.Obj()
	}
	x.Load(&objects.Snapshot{
		Nodes: nodesOf("8", "a", "b"),
		Pods:  append(manyPods(2*podsAtOnce, "a"), of("placed", "a", "0"), of("fits", "", "1"), of("large", "", "9")),
	}, nil)
	x.turn(t)
	explain := func(kind, name string) (*pb.ExplainResponse, error) {
		req := &pb.ExplainRequest{Namespace: "default", Kind: kind, Name: name}
		out, err := x.explainNow(req)
		if req.Kind != kind || req.Name != name {
			t.Errorf("the request was written to: %v", req)
		}
		return out, err
	}
	for kind, name := range map[string]string{"Deployment": "web", "ReplicaSet": "web-5d4f"} {
		out, err := explain(kind, name)
		if err != nil {
			t.Fatal(err)
		}
		if out.Workload != kind+" default/"+name || out.Pod != "default/large" || out.WorkloadPods != 3 || out.WorkloadPending != 1 || len(out.Causes) != 1 {
			t.Errorf("got %s of %q, %d pods, %d pending, causes %v; want large of 3, 1 pending", out.Pod, out.Workload, out.WorkloadPods, out.WorkloadPending, out.Causes)
		}
	}
	if _, err := explain("StatefulSet", "web"); status.Code(err) != codes.NotFound {
		t.Errorf("a workload without pods: got %v, want NOT_FOUND", err)
	}
	x.podGone(of("large", "", "9"))
	if out, err := explain("Deployment", "web"); err != nil || out.WorkloadPending != 0 || out.Node == "" {
		t.Errorf("all placed: got %v, %v; want one that has a node", out, err)
	}
}

func TestANodeIsExplained(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{build.Node("a").CPU("8").Memory("8Gi").Resource("gpu.example.com/gpu", "4").Taint("x=y:NoSchedule").Taint("old=:PreferNoSchedule").Label("b", "2").Label("a", "1").Unschedulable().Obj()},
		Pods:  []*v1.Pod{build.Pod("p").Node("a").CPU("2").Memory("4Gi").Owner("apps/v1", "ReplicaSet", "web-1").Obj(), build.Pod("q").Priority(7).Node("a").CPU("500m").Memory("4Gi").Obj()},
	}, nil)
	explain := func(name string) (*pb.ExplainNodeResponse, error) {
		e := observe.NewNodeExplanation(name, x.forWords(), x.state.RowOf)
		for !e.Read().Step() {
		}
		e.Read().End()
		return e.Answer()
	}
	out, err := explain("a")
	if err != nil {
		t.Fatal(err)
	}
	var amounts []string
	for _, a := range out.Amounts {
		amounts = append(amounts, strings.Join(strings.Fields(a.String()), " "))
	}
	if len(amounts) != 4 || out.Amounts[0].Resource != "cpu" || out.Amounts[0].Allocatable != 8000 || out.Amounts[0].Requested != 2500 || out.Pods != 2 {
		t.Errorf("got %q of %d pods, want cpu first, 2500 of 8000 requested", amounts, out.Pods)
	}
	wantLines(t, "keeps off", out.KeepsOff, "cordoned (spec.unschedulable)", "taint x=y:NoSchedule")
	wantLines(t, "stranded", out.Stranded, "69 % of cpu: memory is used up", "100 % of gpu.example.com/gpu: memory is used up")
	wantLines(t, "labels", out.Labels, "a=1", "b=2")
	wantLines(t, "taints", out.Taints, "x=y:NoSchedule", "old:PreferNoSchedule")
	row, _ := x.state.RowOf("a")
	if out.Shard != row.Shard {
		t.Errorf("got shard %d, want %d", out.Shard, row.Shard)
	}
	want := []*pb.NodePod{
		{Namespace: "default", Name: "q", Priority: 7, Requests: []*pb.ResourceQuantity{{Resource: "cpu", Quantity: 500}, {Resource: "memory", Quantity: 4 << 30}}},
		{Namespace: "default", Name: "p", Requests: []*pb.ResourceQuantity{{Resource: "cpu", Quantity: 2000}, {Resource: "memory", Quantity: 4 << 30}}, Controller: "ReplicaSet web-1"},
	}
	if d := cmp.Diff(want, out.OnNode, protocmp.Transform()); d != "" || out.PodsLeftOut != 0 {
		t.Errorf("on the node, %d left out (-want +got):\n%s", out.PodsLeftOut, d)
	}
	for i := range 300 { // each is larger than the one before
		x.state.SetPod(build.Pod(fmt.Sprintf("more-%03d", i)).Node("a").CPU(fmt.Sprintf("%dm", 1+i)).Obj())
	}
	if out, err = explain("a"); err != nil {
		t.Fatal(err)
	}
	if n := len(out.OnNode); n != 200 || out.PodsLeftOut != 102 || out.OnNode[0].Name != "q" || out.OnNode[1].Name != "p" || out.OnNode[199].Name != "more-102" {
		t.Errorf("got %d pods, %d left out, the first %v, the last %v; want 200, 102, q, more-102", n, out.PodsLeftOut, out.OnNode[0], out.OnNode[n-1])
	}
	if _, err := explain("none"); status.Code(err) != codes.NotFound {
		t.Errorf("a node that is not there: got %v, want NOT_FOUND", err)
	}
}

// A pod that was deleted, and one that had to make room, can be asked about afterwards.
func TestPodsThatAreGoneAreExplained(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 1, Profiles: withPreemption()}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{
		Nodes: nodesOf("4", "a"),
		Pods:  []*v1.Pod{build.Pod("low").CPU("4").Obj()},
	}, nil)
	x.turn(t)
	waits := build.Pod("waits").CPU("9").Obj()
	x.podSet(waits)
	x.podSet(build.Pod("vip").CPU("4").Priority(10).Obj())
	x.turn(t)
	x.podGone(waits)
	for name, want := range map[string]string{
		"low":   "preempted by pod default/vip, which has a higher priority, on node a",
		"waits": "it was deleted, or has ended, before it had a node",
	} {
		out, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: name})
		if err != nil || out.Gone == nil || out.Note != want || len(out.History) == 0 || out.Nodes != 0 {
			t.Errorf("%s: got %v, %v; want it gone with its decisions, and %q", name, out, err, want)
		}
	}
}

// A pod that is pending in the place of one that was preempted says so; by which pod, and where, as long as that is remembered.
func TestAPodThatWasMadeAgainIsExplained(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 1, Profiles: withPreemption()}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: nodesOf("4", "a"), Pods: []*v1.Pod{build.Pod("low").CPU("4").Obj()}}, nil)
	x.turn(t)
	x.podSet(build.Pod("vip").CPU("4").Priority(10).Obj())
	x.turn(t)
	for name, want := range map[string]string{
		"low":   "it was made again in place of the pod of its name that was preempted by pod default/vip, which has a higher priority, on node a",
		"other": "it was made again in place of the pod of its name that was preempted by pod default/vip",
	} {
		again := build.Pod(name).UID("again-" + name).CPU("4").Obj()
		again.Annotations = map[string]string{objects.PreemptedBy: "default/vip"}
		x.podSet(again)
		x.turn(t)
		out, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: name})
		if err != nil || !strings.Contains(out.GetNote(), want) {
			t.Errorf("%s: got %q, %v; want %q in it", name, out.GetNote(), err, want)
		}
	}
}

// Of a pod that an earlier leader has placed, the explanation tells who and when, as the pod's condition or the API server does.
func TestAPodOfAnEarlierLeaderIsExplained(t *testing.T) {
	bound := metav1.NewTime(time.Unix(1000, 0))
	told := func(name, message string) *v1.Pod {
		p := build.Pod(name).Node("a").CPU("1").Obj()
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, Message: message, LastTransitionTime: bound}}
		return p
	}
	asked := 0
	x := newTrial(t, SchedulerConfig{Shards: 1, Before: "vm_b", ReadPod: func(_ context.Context, _, name string) (*v1.Pod, error) {
		asked++
		return told(name, ""), nil
	}}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: nodesOf("4", "a"), Pods: []*v1.Pod{told("signed", objects.DecidedBy("vm_a")), build.Pod("bare").Node("a").CPU("1").Obj(), build.Pod("own").CPU("1").Obj()}}, nil)
	x.turn(t)
	for name, want := range map[string]string{"signed": "vm_a", "bare": ""} {
		out, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if name == "bare" {
			if out.Arrival.GetTime() != nil {
				t.Fatalf("bare: got %v from the loop, want no time", out.Arrival)
			}
			x.readArrival(t.Context(), out, types.NamespacedName{Namespace: "default", Name: name})
		}
		if a := out.Arrival; a.GetDecidedBy() != want || !a.GetTime().AsTime().Equal(bound.Time) || a.GetLeaderBefore() != "vm_b" || a.GetLeadingSince() == nil {
			t.Errorf("%s: got %v, want %q at %v after vm_b", name, a, want, bound)
		}
	}
	if out, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: "own"}); err != nil || out.Node == "" || out.Arrival != nil {
		t.Errorf("own: got %v, %v; want its decision alone", out.GetArrival(), err)
	}
	if asked != 1 {
		t.Errorf("the API server was asked %d times, want once", asked)
	}
}

// However many explanations are asked for, so many wait for the API server at once.
func TestSoManyExplanationsAskTheAPIServer(t *testing.T) {
	asked, answer := make(chan struct{}, 2*arrivalsAtOnce), make(chan struct{})
	x := newTrial(t, SchedulerConfig{Shards: 1, ReadPod: func(context.Context, string, string) (*v1.Pod, error) {
		asked <- struct{}{}
		<-answer
		return build.Pod("p").Node("a").Obj(), nil
	}}, 0)
	defer x.fanout.Close()
	var wg sync.WaitGroup
	read := func() {
		x.readArrival(t.Context(), &pb.ExplainResponse{Node: "a", Arrival: &pb.Arrival{}}, types.NamespacedName{Namespace: "default", Name: "p"})
	}
	for range arrivalsAtOnce {
		wg.Go(read)
	}
	for range arrivalsAtOnce {
		<-asked
	}
	read() // returns, with all of the others still waiting
	if len(asked) != 0 {
		t.Errorf("%d asked at once, want %d", arrivalsAtOnce+len(asked), arrivalsAtOnce)
	}
	close(answer)
	wg.Wait()
	if read(); len(asked) != 1 {
		t.Errorf("after the others: asked %d times, want once", len(asked))
	}
}
