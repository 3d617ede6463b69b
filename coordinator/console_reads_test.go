package coordinator

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// spreadCluster has two zones of two nodes, three pods of a ReplicaSet in zone a, and one that must be spread over zones and waits.
func spreadCluster() *objects.Snapshot {
	all := &objects.Snapshot{}
	for i, zone := range []string{"a", "a", "b", "b"} {
		name := fmt.Sprint("n", i)
		all.Nodes = append(all.Nodes, build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name).Label(v1.LabelTopologyZone, zone).Obj())
	}
	yes := true
	for i, node := range []string{"n0", "n0", "n1", ""} {
		p := build.Pod(fmt.Sprint("web-", i)).CPU("1").Label("app", "web")
		if node != "" {
			p = p.Node(node)
		}
		obj := p.Obj()
		obj.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "web", Controller: &yes}}
		for _, c := range []struct {
			key  string
			what v1.UnsatisfiableConstraintAction
			skew int32
		}{{v1.LabelTopologyZone, v1.DoNotSchedule, 2}, {v1.LabelHostname, v1.DoNotSchedule, 3}, {v1.LabelTopologyZone, v1.ScheduleAnyway, 1}} {
			obj.Spec.TopologySpreadConstraints = append(obj.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
				TopologyKey: c.key, MaxSkew: c.skew, WhenUnsatisfiable: c.what, LabelSelector: build.Selector("app=web"),
			})
		}
		all.Pods = append(all.Pods, obj)
	}
	most := intstr.FromInt32(1)
	all.Cluster = append(all.Cluster, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: build.Selector("app=web")},
	})
	return all
}

// An explanation tells what spread constraints count, which budgets count the pod, and of a workload where its pods are.
func TestAnExplanationTellsSpreadAndBudgets(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withoutPreemption()}, 0)
	defer x.fanout.Close()
	x.Load(spreadCluster(), nil)
	out, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: "web", Kind: "StatefulSet", NodeNameContains: "2"})
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.ExplainResponse{
		Spread: []*pb.SpreadConstraint{
			{
				TopologyKey: v1.LabelTopologyZone, MaxSkew: 2, WhenUnsatisfiable: "DoNotSchedule", MinDomains: 1, SelfMatch: true, DomainsTotal: 2,
				Domains: []*pb.SpreadDomain{{Name: "b", Nodes: 2, Domains: 1}, {Name: "a", Pods: 3, Nodes: 2, Domains: 1}},
			},
			{
				TopologyKey: v1.LabelHostname, MaxSkew: 3, WhenUnsatisfiable: "DoNotSchedule", MinDomains: 1, SelfMatch: true, DomainsTotal: 4,
				Domains: []*pb.SpreadDomain{{Nodes: 2, Domains: 2}, {Pods: 1, Nodes: 1, Domains: 1}, {Pods: 2, Nodes: 1, Domains: 1}},
			},
			{
				TopologyKey: v1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: "ScheduleAnyway", DomainsTotal: 2,
				Domains: []*pb.SpreadDomain{{Name: "b", Nodes: 2, Domains: 1}, {Name: "a", Pods: 3, Nodes: 2, Domains: 1}},
			},
		},
		Budgets: []*pb.DisruptionBudget{{Budget: "default/few", Expected: 4, Healthy: 3}},
		WorkloadMembers: []*pb.WorkloadPod{
			{Name: "web-3", Queue: "active"}, {Name: "web-0", Node: "n0", Zone: "a"}, {Name: "web-1", Node: "n0", Zone: "a"},
			{Name: "web-2", Node: "n1", Zone: "a"},
		},
	}
	got := &pb.ExplainResponse{Spread: out.Spread, Budgets: out.Budgets, WorkloadMembers: out.WorkloadMembers}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(out.Verdicts) != 1 || out.Verdicts[0].Node != "n2" || len(out.Verdicts[0].GetScored().GetPlugins()) == 0 {
		t.Errorf("nodes whose names contain 2: got %v", out.Verdicts)
	}
	if len(out.Filters) == 0 || out.Filters[len(out.Filters)-1] != "PodTopologySpread" {
		t.Errorf("got filters %v", out.Filters)
	}
}

// Pods that wait are counted by where they are.
func TestPendingPodsAreCountedByQueue(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 1, Profiles: withoutPreemption()}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: nodesOf("4", "n"), Pods: []*v1.Pod{
		build.Pod("huge").CPU("9").Obj(), build.Pod("huger").CPU("99").Obj(), build.Pod("gated").Gate("quota").Obj(),
	}}, nil)
	x.schedule(x.life, x.queue.PopBatch(8, nil))
	x.podSet(build.Pod("new").CPU("1").Obj())
	out := x.pendingNow(t, "")
	if d := cmp.Diff(&pb.QueueCounts{Active: 1, Unschedulable: 2, Gated: 1}, out.Queues, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(out.Gates) != 1 || out.Gates[0].Gate != "quota" || out.Gates[0].Pods != 1 {
		t.Errorf("got gates %v", out.Gates)
	}
}
