package coordinator

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// taken is a claim that has a device of a node, reserved for a pod of its name.
func taken(name, node, device string) *resourcev1.ResourceClaim {
	c := gpuClaim(name)
	c.Status = resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "r", Driver: "gpu.example.com", Pool: node, Device: device},
		}}},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod-of-" + name, UID: "u"}},
	}
	return c
}

// deviceLines words what an explanation says of devices.
func deviceLines(out *pb.ExplainResponse) (lines []string) {
	for _, c := range out.Shortages {
		lines = append(lines, fmt.Sprintf("%d nodes, %d devices: %s %s: %s", c.Nodes, c.Devices, c.Claim, c.Request, c.Cause))
	}
	for _, n := range out.Closest {
		for _, r := range n.GetDevices().GetRequests() {
			lines = append(lines, fmt.Sprintf("%s %v: %d of %d, %d of %d", n.Node, n.Shortfalls, r.Found, r.Wanted, r.InClass, r.Devices))
			for _, d := range r.Nearest {
				lines = append(lines, fmt.Sprintf("  %s/%s/%s: %s", d.Driver, d.Pool, d.Device, d.Cause))
			}
		}
		if note := n.GetDevices().GetNote(); note != "" {
			lines = append(lines, n.Node+": "+note)
		}
	}
	return lines
}

func TestWhatKeepsDevicesFromAClaim(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	tainted := gpus("d", 1)
	tainted.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoExecute}}
	two := gpuClaim("two")
	two.Spec.Devices.Requests[0].Exactly.Count = 2
	x.Load(&objects.Snapshot{
		Nodes: nodesOf("8", "a", "b", "c", "d", "none"),
		Cluster: []objects.Object{
			gpuClass(), gpus("a", 2), gpus("b", 2), gpus("c", 2), tainted, two,
			taken("of-a", "a", "gpu-0"), taken("of-b", "b", "gpu-0"), taken("first", "c", "gpu-0"), taken("second", "c", "gpu-1"),
		},
		Pods: []*v1.Pod{using(cores("p", "1"), "two")},
	}, nil)
	wantLines(t, "two devices", deviceLines(x.explained(t, "p", 0)),
		"3 nodes, 4 devices: default/two r: in use",
		"1 nodes, 1 devices: default/two r: taint broken:NoExecute is not tolerated",
		"1 nodes, 0 devices: default/two r: the node has no devices",
		"a [claim default/two, request r: 1 of 2 devices]: 1 of 2, 2 of 2",
		"  gpu.example.com/a/gpu-0: in use by claim default/of-a (pod default/pod-of-of-a)",
		"b [claim default/two, request r: 1 of 2 devices]: 1 of 2, 2 of 2",
		"  gpu.example.com/b/gpu-0: in use by claim default/of-b (pod default/pod-of-of-b)",
		"c [claim default/two, request r: 0 of 2 devices]: 0 of 2, 2 of 2",
		"  gpu.example.com/c/gpu-0: in use by claim default/first (pod default/pod-of-first)",
		"  gpu.example.com/c/gpu-1: in use by claim default/second (pod default/pod-of-second)",
		"d [claim default/two, request r: 0 of 2 devices]: 0 of 2, 1 of 1",
		"  gpu.example.com/d/gpu-0: taint broken:NoExecute is not tolerated",
		"none [claim default/two, request r: 0 of 2 devices]: 0 of 2, 0 of 0",
	)
	named, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: "p", Top: 1, NodeNames: []string{"d"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := named.Verdicts[0].GetRefused().GetDevices().GetRequests(); len(named.Closest) != 1 || len(got) != 1 || len(got[0].Nearest) != 1 {
		t.Errorf("got %v for the node that was asked for, want its device", got)
	}
}

// A node whose devices can't be searched for says why.
func TestWhySearchFailsThePod(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer x.fanout.Close()
	bad := gpuClaim("bad")
	bad.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: `device.attributes["gpu.example.com"].model == "x"`,
	}}}
	x.Load(&objects.Snapshot{
		Nodes: nodesOf("8", "a", "b"), Cluster: []objects.Object{gpuClass(), gpus("a", 1), bad}, Pods: []*v1.Pod{using(cores("p", "1"), "bad")},
	}, nil)
	wantLines(t, "an expression that fails", deviceLines(x.explained(t, "p", 0)),
		"1 nodes, 0 devices: default/bad r: the node has no devices",
		"a: claim default/bad: selector #0: CEL runtime error: no such key: model",
		"b [claim default/bad, request r: 0 of 1 devices]: 0 of 1, 0 of 0")
}

// A claim that has its devices is for some nodes; others are refused for it.
func TestWhatClaimsRefuseBesideDevices(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer x.fanout.Close()
	c := taken("c", "a", "gpu-0")
	c.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"a"}},
	}}}}
	x.Load(&objects.Snapshot{
		Nodes: nodesOf("8", "a", "b"), Cluster: []objects.Object{gpuClass(), gpus("a", 2), c}, Pods: []*v1.Pod{using(cores("p", "1"), "c")},
	}, nil)
	out := x.explained(t, "p", 0)
	if len(out.Closest) != 1 || len(out.Shortages) != 0 {
		t.Fatalf("got %v, want b alone, and no shortage", out)
	}
	wantLines(t, "b", out.Closest[0].Shortfalls, "claim default/c: its devices are for other nodes")
}

// Whoever has to act next is told, where a pod's claims can't be looked at.
func TestWhoActsNextAboutClaims(t *testing.T) {
	going, other := gpuClaim("going"), gpuClaim("others")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{}, []string{"x"}
	other.Spec.Devices.Requests[0].Exactly.DeviceClassName = "tpu"
	byTemplate := func(p *v1.Pod, claim *string) *v1.Pod {
		template := "shape"
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
		if claim != nil {
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: claim}}
		}
		return p
	}
	missing, shared := "p4-gpu", "shared"
	const template = "kube-controller-manager makes the claim from ResourceClaimTemplate default/shape once that is there; without Kubernetes shardsched does"
	x := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer x.fanout.Close()
	pods := []*v1.Pod{
		using(cores("p0", "1"), "nothing"), using(cores("p1", "1"), "going"), using(cores("p2", "1"), "others"),
		byTemplate(cores("p3", "1"), nil), byTemplate(cores("p4", "1"), &missing), byTemplate(cores("p5", "1"), &shared),
	}
	x.Load(&objects.Snapshot{Nodes: nodesOf("8", "a"), Cluster: []objects.Object{gpuClass(), gpus("a", 1), going, other, gpuClaim("shared")}, Pods: pods}, nil)
	for i, want := range []string{
		`could not find ResourceClaim "default/nothing"; nobody makes ResourceClaim default/nothing for the pod: it has to be created`,
		`resourceclaim "going" is being deleted; ResourceClaim default/going goes once the pods that it is reserved for have ended; then it has to be created anew`,
		`request r: device class tpu does not exist; DeviceClass tpu has to be created: by an administrator, or with the driver that serves it`,
		`pod "default/p3": ResourceClaim not created yet; ` + template,
		`could not find ResourceClaim "default/p4-gpu"; ` + template,
		`ResourceClaim default/shared was not created for Pod default/p5 (Pod is not owner); ` +
			`ResourceClaim default/shared is another pod's: where that is gone, delete the claim, and it is made for this pod`,
	} {
		if got := x.explained(t, fmt.Sprintf("p%d", i), 0).Note; got != want {
			t.Errorf("p%d: got %q, want %q", i, got, want)
		}
	}
}
