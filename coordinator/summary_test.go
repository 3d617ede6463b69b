package coordinator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// summaryNow takes all steps of a summary.
func (s *Scheduler) summaryNow() *pb.Summary {
	x := s.newSummary()
	for step := x.Read().Step; !step(); {
	}
	return x.Report()
}

func TestSummaryOfAScheduler(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3}, 0)
	defer x.fanout.Close()
	oldest := time.Date(2001, 1, 2, 3, 4, 5, 0, time.UTC)
	old := build.Pod("held").Gate("example.com/wait").Obj()
	old.CreationTimestamp = metav1.NewTime(oldest)
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{
			build.Node("small").CPU("2").Memory("4Gi").Obj(),
			build.Node("gpu").CPU("8").Memory("8Gi").Resource("nvidia.com/gpu", "4").Obj(),
			build.Node("closed").CPU("8").Memory("8Gi").Unschedulable().Obj(),
		},
		Pods: []*v1.Pod{
			build.Pod("old").CPU("1").Node("small").Obj(),
			build.Pod("done").CPU("2").Node("small").Phase(v1.PodSucceeded).Obj(), // takes nothing any more
			build.Pod("failed").CPU("1").Phase(v1.PodFailed).Obj(),                // is not to be scheduled
			build.Pod("elsewhere").CPU("1").Node("unknown").Obj(),
			build.Pod("b-too-large").CPU("100").Obj(),
			build.Pod("a-too-large").CPU("90").Obj(),
			old,
			build.Pod("fits").CPU("4").Request("nvidia.com/gpu", "1").Obj(),
		},
	}, nil)
	x.turn(t)
	x.rest()
	sum := x.summaryNow()
	if sum.Nodes != 3 || sum.Shards != 3 || sum.PodsPresent != 2 || sum.PodsBound != 1 || sum.PodsPending != 3 || sum.Decisions != 3 || !sum.Idle || sum.Classes != 3 {
		t.Errorf("got nodes %d, shards %d, present %d, bound %d, pending %d, decisions %d, idle %t, classes %d; want 3, 3, 2, 1, 3, 3, true, 3",
			sum.Nodes, sum.Shards, sum.PodsPresent, sum.PodsBound, sum.PodsPending, sum.Decisions, sum.Idle, sum.Classes)
	}
	var reasons []string
	for _, r := range sum.PendingReasons {
		reasons = append(reasons, fmt.Sprintf("%d %s (%s)", r.Pods, r.Reason, r.Example))
	}
	if d := cmp.Diff([]string{
		"2 Insufficient cpu, node(s) were unschedulable (default/a-too-large)",
		"1 waiting for scheduling gates (default/held)",
	}, reasons); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	var usage []string
	for _, u := range sum.Utilisation {
		usage = append(usage, fmt.Sprintf("%s %d/%d %v", u.Resource, u.Requested, u.Allocatable, u.NodesByDecile))
	}
	pulse := observe.NewPulse(x.queue, func() (uint64, uint64) { return 7, 6 })
	for !pulse.Read().Step() {
	}
	if pulse.Decided != 7 || pulse.Bound != 6 || pulse.Pending != 3 || !pulse.Oldest.Equal(oldest) {
		t.Errorf("got decided %d, bound %d, pending %d, oldest of %v; want 7, 6, 3, %v", pulse.Decided, pulse.Bound, pulse.Pending, pulse.Oldest, oldest)
	}
	if d := cmp.Diff([]string{
		"cpu 5000/18000 [1 0 0 0 0 2 0 0 0 0]",
		"memory 0/21474836480 [3 0 0 0 0 0 0 0 0 0]",
		"pods 2/330 [3 0 0 0 0 0 0 0 0 0]",
		"nvidia.com/gpu 1/4 [0 0 1 0 0 0 0 0 0 0]",
	}, usage); d != "" {
		t.Errorf("utilisation (-want +got):\n%s", d)
	}
	if !slices.ContainsFunc(sum.Plugins, pluginNamed("NodeResourcesFit")) || sum.SubmitToBound.Count != 1 || sum.Rounds == 0 {
		t.Errorf("got plugins %v, %d times from submit to bound, %d rounds; want NodeResourcesFit among them, 1, some", sum.Plugins, sum.SubmitToBound.Count, sum.Rounds)
	}
}

func pluginNamed(name string) func(*pb.PluginLatency) bool {
	return func(l *pb.PluginLatency) bool { return l.Plugin == name }
}

func TestSummaryCountsWhoIsPreempted(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2, Profiles: withPreemption()}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{build.Node("n").CPU("2").Memory("4Gi").Obj()},
		Pods: []*v1.Pod{
			build.Pod("a").CPU("1").Node("n").Obj(),
			build.Pod("b").CPU("1").Node("n").Obj(),
			build.Pod("high").CPU("2").Priority(10).Obj(),
		},
	}, nil)
	for range 3 {
		x.turn(t)
		x.rest()
	}
	if sum := x.summaryNow(); sum.PodsPreempted != 2 || sum.PodsPresent != 2 {
		t.Errorf("got %d preempted, %d there before; want 2, 2", sum.PodsPreempted, sum.PodsPresent)
	}
}

// Devices count by driver, those of a replaced generation not at all, and claims by whether they have devices.
func TestSummaryOfDevices(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	newer, nic := gpus("b", 3), gpus("a", 1)
	newer.Name, newer.UID, newer.Spec.Pool.Generation = "b-2", "slice-b-2", 2
	nic.Name, nic.UID, nic.Spec.Driver = "nic", "slice-nic", "nic.example.com"
	x.Load(&objects.Snapshot{
		Nodes: nodesOf("8", "a", "b"),
		Cluster: []objects.Object{
			gpuClass(), gpus("a", 2), gpus("b", 2), newer, nic, taken("has", "a", "gpu-0"), gpuClaim("gets"), gpuClaim("waits"),
		},
		Pods: []*v1.Pod{using(cores("p", "1"), "gets")},
	}, nil)
	x.turn(t)
	x.rest()
	sum := x.summaryNow()
	var got []string
	for _, d := range sum.Devices {
		got = append(got, fmt.Sprintf("%s: %d of %d", d.Driver, d.InUse, d.Devices))
	}
	wantLines(t, "devices", got, "gpu.example.com: 2 of 5", "nic.example.com: 0 of 1")
	if sum.ClaimsAllocated != 2 || sum.ClaimsWaiting != 1 {
		t.Errorf("got %d claims with devices, %d waiting; want 2, 1", sum.ClaimsAllocated, sum.ClaimsWaiting)
	}
}
