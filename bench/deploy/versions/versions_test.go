package versions

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

const notServed = "the API server does not serve resource.k8s.io/v1, so that resource claims can not be allocated"

// devices are one of a node, its class, and a claim.
func devices() []runtime.Object {
	class, slice, claim, node := &resourcev1.DeviceClass{}, &resourcev1.ResourceSlice{}, &resourcev1.ResourceClaim{}, "n"
	class.Name, slice.Name, claim.Name, claim.Namespace = "gpu", "gpus", "gpu", "default"
	slice.Spec = resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: "pool", Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
	}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}
	return []runtime.Object{class, slice, claim}
}

// claiming is a pod that has the claim gpu.
func claiming(name string) *v1.Pod {
	claim, p := "gpu", build.Pod(name).CPU("10m").Obj()
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	return p
}

// TestKindsThatAreNotServed is about an API server without resource.k8s.io/v1, as those before 1.34, that serves the kinds later, as one
// that is upgraded.
func TestKindsThatAreNotServed(t *testing.T) {
	off, never := "--runtime-config=resource.k8s.io/v1=false", os.Getenv("TESTBED_KUBERNETES") == "v1.33"
	if never { // without its gate, it drops the claims of pods
		off = "--feature-gates=DynamicResourceAllocation=true"
	}
	r := rig.New(t, testbed.Config{APIServerArgs: []string{off}})
	r.Create(build.Node("n").CPU("4").Pods("100").Obj())
	// An API server may take longer to start than the leases of other tests last.
	const long = "leaderElection: {leaseDuration: 400s, renewDeadline: 350s, retryPeriod: 500ms}"
	ours := r.Coordinator(testbed.Scheduler{Config: long}) // ready: nothing is waited for that is not there
	standby := r.Coordinator(testbed.Scheduler{Name: "standby", Config: long})
	r.Create(claiming("claiming"), build.Pod("plain").CPU("10m").Obj()) // the watch that tells of the bind has told of the claiming one
	r.Bound("default/plain")
	if got := r.Pods.Get("default/claiming"); len(got.Spec.ResourceClaims) == 0 {
		t.Fatal("the API server drops the claims of pods, want one that keeps them")
	}
	if got, want := r.Unschedulable("default/claiming"), "0/1 nodes are available: "+notServed; !strings.HasPrefix(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, p := range []*testbed.SchedulerProcess{ours, standby} {
		if got := told(p); len(got) != 1 || !strings.Contains(got[0], "resourceclaims") || !strings.Contains(got[0], "resource.k8s.io/v1") {
			t.Errorf("%s: got the lines %q, want one that names kinds and version", p.Name, got)
		}
	}

	if lines := testbed.Denied(r.Audited()); len(lines) > 0 {
		t.Errorf("denied: %q", lines)
	}
	if never {
		return
	}
	r.Must(r.APIServer.RestartWith(r.Context(), "--runtime-config=resource.k8s.io/v1=true"))
	r.Create(devices()...)
	r.Bound("default/claiming") // by the same leader: an upgrade of the API server ends no term
	c, err := r.Admin.ResourceV1().ResourceClaims("default").Get(r.Context(), "gpu", metav1.GetOptions{})
	if err != nil || c.Status.Allocation == nil {
		t.Errorf("got %v, %v, want a claim with a device", c, err)
	}
	if !ours.Running() {
		t.Errorf("the leader has ended: %v", ours.Err())
	}
}

// told are the lines of a coordinator's log that tell of kinds that are not served.
func told(p *testbed.SchedulerProcess) []string {
	return slices.DeleteFunc(p.Tail(10000), func(line string) bool { return !strings.Contains(line, "does not serve") })
}

// TestAGateThatIsOff is about a pod that asks for a device by an extended resource, where the API server's DRAExtendedResource is off,
// as before 1.36.
func TestAGateThatIsOff(t *testing.T) {
	r := rig.New(t, testbed.Config{APIServerArgs: []string{"--feature-gates=DRAExtendedResource=false"}})
	r.Create(build.Node("n").CPU("4").Pods("100").Obj())
	r.Create(devices()...)
	r.Coordinator(testbed.Scheduler{})
	const resource = v1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "gpu")
	p := build.Pod("extended").CPU("10m").Request(string(resource), "1").Obj()
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{resource: p.Spec.Containers[0].Resources.Requests[resource]}
	r.Create(p)
	r.Until("have a condition that names the gate", func(p *v1.Pod) bool {
		if p == nil {
			return false
		}
		c := testbed.ScheduledCondition(p)
		return c != nil && c.Reason == v1.PodReasonSchedulerError && strings.Contains(c.Message, "DRAExtendedResource is off")
	}, "default/extended")
	r.Await("the claim that was made for it is gone", func(ctx context.Context) (string, bool) {
		list, err := r.Admin.ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprint(len(list.Items)), len(list.Items) == 1 // gpu alone
	})
	if testbed.IsBound(r.Pods.Get("default/extended")) {
		t.Error("the pod is bound, and its kubelet would give it no device")
	}
}
