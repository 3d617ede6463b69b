package coordinator

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// pendingNow takes all steps of a list of pending pods.
func (x *trial) pendingNow(t *testing.T, namespace string) *pb.ListPendingResponse {
	t.Helper()
	list, err := x.pending(&pb.ListPendingRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	for !list.Read().Step() {
	}
	list.Read().End()
	return list.Answer()
}

// Pods that lack the same of other numbers of nodes are told alike.
func TestResourcesAreToldInOneOrder(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer x.fanout.Close()
	node := func(name, cpu, memory string) *v1.Node { return build.Node(name).CPU(cpu).Memory(memory).Obj() }
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{node("big", "8", "8Gi"), node("cores", "8", "1Gi"), node("slow", "1", "8Gi"), node("tiny", "1", "1Gi")},
		Pods: []*v1.Pod{
			build.Pod("fills").Node("big").CPU("8").Memory("8Gi").Obj(), build.Pod("busy").Node("cores").CPU("6").Obj(),
			build.Pod("p").CPU("4").Memory("1Mi").Obj(), build.Pod("a").CPU("2").Memory("2Gi").Obj(), build.Pod("b").CPU("3").Memory("4Gi").Obj(),
		},
	}, nil)
	x.turn(t)
	causes := map[string]int{}
	for _, g := range x.pendingNow(t, "").Groups {
		causes[g.Causes[0].Cause] += int(g.Pods)
	}
	if want := "cpu or memory: full on every node that is big enough"; causes[want] != 3 || len(causes) != 1 {
		t.Errorf("got %v, want %q of 3 pods", causes, want)
	}
	closest := x.explained(t, "a", 0).Closest
	if len(closest) == 0 || closest[0].Node != "big" {
		t.Errorf("got %v, want the node first that is big enough", closest)
	}
}

// Pods of several workloads wait for several reasons, and each is told with the numbers of its own.
func TestPendingPodsAreGrouped(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2, Profiles: withPreemption()}, 0)
	defer x.fanout.Close()
	of := func(b *build.PodBuilder, workload string) *build.PodBuilder {
		return b.Namespace("shop").Label("pod-template-hash", "5d4f").Owner("apps/v1", "ReplicaSet", workload+"-5d4f")
	}
	pods := []*v1.Pod{
		build.Pod("fills").Node("a").CPU("7").Obj(),
		of(build.Pod("disk-1").NodeSelector("disk", "ssd"), "disk").Obj(), of(build.Pod("disk-2").NodeSelector("disk", "ssd"), "disk").Obj(),
		of(build.Pod("big-1").CPU("9"), "big").Obj(),
		build.Pod("full").CPU("2").Obj(),
		build.Pod("gated").Gate("example.com/quota").Obj(),
		build.Pod("claims").Claim("data").Obj(),
	}
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{
			build.Node("a").CPU("8").Memory("8Gi").Label("disk", "hdd").Obj(),
			build.Node("b").CPU("1").Memory("8Gi").Obj(),
			build.Node("c").CPU("8").Memory("8Gi").Taint("dedicated=gpu:NoSchedule").Obj(),
		},
		Cluster: []objects.Object{build.Claim("data", "nosuch").Obj()}, Pods: pods,
	}, nil)
	x.turn(t)
	var got []string
	out := x.pendingNow(t, "")
	for _, g := range out.Groups {
		text := fmt.Sprintf("%d %s %s/%s:", g.Pods, g.Kind, g.Namespace, g.Name)
		for _, c := range g.Causes {
			text += fmt.Sprintf(" [%d %s (%s)]", c.Nodes, c.Cause, c.Detail)
		}
		got = append(got, text)
	}
	slices.Sort(got)
	wantLines(t, "groups", got,
		"1 Deployment shop/big: [2 cpu: larger than any node (9 > 8)] [1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node)]",
		"1 Pod default/claims: [0 StorageClass nosuch does not exist (claim data)]",
		"1 Pod default/full: [2 cpu: too small, or big enough but full (2 of 3 nodes are big enough)] [1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node)]",
		"1 Pod default/gated: [0 scheduling gate example.com/quota ()]",
		"2 Deployment shop/disk: [2 no node has label disk=ssd (disk=hdd on 1, no disk on 2)] [1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node)]",
	)
	if out.Pods != 6 || out.Nodes != 3 {
		t.Errorf("got %d pods and %d nodes, want 6 and 3", out.Pods, out.Nodes)
	}
	if shop := x.pendingNow(t, "shop"); shop.Pods != 3 {
		t.Errorf("got %d pods of namespace shop, want 3", shop.Pods)
	}
}
