package compile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

// take is a PodUsage written short.
func take(milliCPU, memory, nonZeroMilliCPU, nonZeroMemory int64, scalars ...*pb.ScalarResource) *pb.PodUsage {
	return &pb.PodUsage{
		Requests:           &pb.Resources{MilliCpu: milliCPU, MemoryBytes: memory, Scalars: scalars},
		NonZeroMilliCpu:    nonZeroMilliCPU,
		NonZeroMemoryBytes: nonZeroMemory,
	}
}

func scalar(name string, quantity int64) *pb.ScalarResource {
	return &pb.ScalarResource{Name: name, Quantity: quantity}
}

// resized gives the pod's container main a status with the resources that it is
// actuated at and allocated.
func resized(p *v1.Pod, actuated, allocated v1.ResourceList) *v1.Pod {
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
		Name:               "main",
		Resources:          &v1.ResourceRequirements{Requests: actuated},
		AllocatedResources: allocated,
	})
	return p
}

// infeasible says that the kubelet will never do the pod's resize.
func infeasible(p *v1.Pod) *v1.Pod {
	p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodResizePending, Reason: v1.PodReasonInfeasible})
	return p
}

func cpu(q string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(q)}
}

func TestUsageCountsAsNodeInfoDoes(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want *pb.PodUsage
	}{
		"a container that names nothing takes nothing, and the defaults in the non-zero columns": {
			build.Pod("p").Container("a").Obj(),
			take(0, 0, 100, 200*mi),
		},
		"each container that names nothing has a default of its own": {
			build.Pod("p").Container("a").Container("b").CPU("1").Obj(),
			take(1000, 0, 1100, 400*mi),
		},
		"an explicit zero is no missing entry": {
			build.Pod("p").CPU("0").Memory("0").Obj(),
			take(0, 0, 0, 0),
		},
		"fractions are summed exactly and rounded up once: three times half a thousandth is two": {
			build.Pod("p").Container("a").CPU("500u").Memory("100m").
				Container("b").CPU("500u").Memory("100m").
				Container("c").CPU("500u").Memory("100m").Obj(),
			take(2, 1, 2, 1),
		},
		"the largest init container counts where it is more than the containers, resource by resource": {
			build.Pod("p").Container("a").CPU("1").Memory("3Gi").
				Init("i", "cpu", "2", "memory", "1Gi").
				Init("j", "cpu", "1500m", "memory", "2Gi").Obj(),
			take(2000, 3*gi, 2000, 3*gi),
		},
		"an init container runs beside the sidecars declared before it, not those after": {
			// i: 3 + sidecar 1 = 4. j: 5 alone would be more, but comes first: 5.
			// Containers and sidecars: 1 + 1 + 2 = 4. The most of them is 5.
			build.Pod("p").Container("a").CPU("1").Memory("0").
				Init("j", "cpu", "5", "memory", "0").
				Sidecar("s", "cpu", "1", "memory", "0").
				Init("i", "cpu", "3", "memory", "0").
				Sidecar("t", "cpu", "2", "memory", "0").Obj(),
			take(5000, 0, 5000, 0),
		},
		"the same with the init container after both sidecars": {
			// i: 3 + 1 + 2 = 6, containers and sidecars: 4.
			build.Pod("p").Container("a").CPU("1").Memory("0").
				Sidecar("s", "cpu", "1", "memory", "0").
				Sidecar("t", "cpu", "2", "memory", "0").
				Init("i", "cpu", "3", "memory", "0").Obj(),
			take(6000, 0, 6000, 0),
		},
		"an init container has defaults too": {
			// init: 100m and 200Mi by default; container: 50m, 100Mi.
			build.Pod("p").Container("a").CPU("50m").Memory("100Mi").Init("i").Obj(),
			take(50, 100*mi, 100, 200*mi),
		},
		"overhead is added, also to what nobody asks for": {
			build.Pod("p").Container("a").CPU("1").
				Overhead("cpu", "250m").Overhead("memory", "64Mi").Overhead("example.com/x", "2").Obj(),
			take(1250, 64*mi, 1250, 264*mi, scalar("example.com/x", 2)),
		},
		"requests of the pod override the sum of its containers, and overhead comes on top": {
			build.Pod("p").Container("a").CPU("1").Memory("1Gi").
				PodLevel("cpu", "500m").Overhead("cpu", "100m").Obj(),
			take(600, gi, 600, gi),
		},
		"a pod with requests of its own takes a default only for what is named at neither level": {
			// Memory is named by one of two containers: no default for the other.
			build.Pod("p").Container("a").Memory("1Gi").Container("b").PodLevel("cpu", "2").Obj(),
			take(2000, gi, 2000, gi),
		},
		"and takes it once for each container": {
			build.Pod("p").Container("a").Container("b").PodLevel("cpu", "2").Obj(),
			take(2000, 0, 2000, 400*mi),
		},
		"only cpu, memory and huge pages can be asked for by the pod": {
			build.Pod("p").Container("a").CPU("1").Memory("0").Request("nvidia.com/gpu", "1").
				PodLevel("nvidia.com/gpu", "4").PodLevel("hugepages-2Mi", "4Mi").Obj(),
			take(1000, 0, 1000, 0, scalar("hugepages-2Mi", 4*mi), scalar("nvidia.com/gpu", 1)),
		},
		"pod-level requests that are not supported do not stop the defaults": {
			build.Pod("p").Container("a").PodLevel("nvidia.com/gpu", "4").Obj(),
			take(0, 0, 100, 200*mi),
		},
		"what is no resource to a scheduler is not counted": {
			build.Pod("p").CPU("1").Memory("1").Request("gpu", "1").Request("requests.example.com/x", "1").
				Request("pods", "5").Request("example.com/-", "1").Obj(),
			take(1000, 1, 1000, 1),
		},
		"prefixed native resources, huge pages and attachable volumes are": {
			build.Pod("p").CPU("1").Memory("1").Request("x.kubernetes.io/y", "1").Request("kubernetes.io/z", "2").
				Request("hugepages-1Gi", "1Gi").Request("attachable-volumes-csi", "3").Obj(),
			take(1000, 1, 1000, 1, scalar("attachable-volumes-csi", 3), scalar("hugepages-1Gi", gi),
				scalar("kubernetes.io/z", 2), scalar("x.kubernetes.io/y", 1)),
		},
		"a resize that the kubelet has not done yet holds the old size": {
			resized(build.Pod("p").CPU("1").Memory("0").Obj(), cpu("3"), cpu("2")),
			take(3000, 0, 3000, 0),
		},
		"a larger size counts from when it is asked for": {
			resized(build.Pod("p").CPU("4").Memory("0").Obj(), cpu("3"), cpu("2")),
			take(4000, 0, 4000, 0),
		},
		"an infeasible resize holds what is allocated, whatever the spec asks for": {
			infeasible(resized(build.Pod("p").CPU("4").Obj(), cpu("1"), cpu("2"))),
			// The spec is not looked at, so memory has no entry and gets its default.
			take(2000, 0, 2000, 200*mi),
		},
		"allocated resources without actuated ones do not count": {
			func() *v1.Pod {
				p := build.Pod("p").CPU("1").Memory("0").Obj()
				p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", AllocatedResources: cpu("8")}}
				return p
			}(),
			take(1000, 0, 1000, 0),
		},
		"a plain init container's status does not count, a sidecar's does": {
			func() *v1.Pod {
				p := build.Pod("p").CPU("1").Memory("0").Init("i", "cpu", "1", "memory", "0").Sidecar("s", "cpu", "1", "memory", "0").Obj()
				big := &v1.ResourceRequirements{Requests: cpu("8")}
				p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "i", Resources: big}, {Name: "s", Resources: big}}
				return p
			}(),
			take(9000, 0, 9000, 0),
		},
		"the pod's own status counts where the pod has requests of its own": {
			func() *v1.Pod {
				p := build.Pod("p").CPU("1").Memory("0").PodLevel("cpu", "2").Obj()
				p.Status.Resources = &v1.ResourceRequirements{Requests: cpu("5")}
				p.Status.AllocatedResources = cpu("4")
				return p
			}(),
			take(5000, 0, 5000, 0),
		},
		"negative requests count as zero": {
			build.Pod("p").CPU("-1").Memory("-1Gi").Obj(),
			take(0, 0, 0, 0),
		},
		"an amount that no machine has is cut off, alone or in sum": {
			build.Pod("p").Container("a").CPU("1e2147483647").Memory("9223372036854775807").
				Container("b").CPU("1e18").Memory("8E").Container("c").CPU("1n").Memory("0").Obj(),
			take(MaxAmount, MaxAmount, MaxAmount, MaxAmount),
		},
		"as are thousandths that an int64 does not hold, though the CPUs are within bounds": {
			// 18446744073709552 CPUs and a half are 2^64 + 884 thousandths.
			build.Pod("p").CPU("18446744073709552.5").Memory("0").Obj(),
			take(MaxAmount, 0, MaxAmount, 0),
		},
		"the largest amounts that are counted are exact": {
			build.Pod("p").CPU("36028797018963967m").Memory("36028797018963967").Obj(),
			take(MaxAmount-1, MaxAmount-1, MaxAmount-1, MaxAmount-1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Usage(test.pod), protocmp.Transform()); diff != "" {
				t.Errorf("usage: want -, got +\n%s", diff)
			}
		})
	}
}

// What SameUsage says of two objects of one pod has to hold; it need not see all that are alike.
func TestObjectsOfTheSameUsageAreSeen(t *testing.T) {
	p := build.Pod("p").CPU("1").HostPort("", "", 80).Obj()
	more := resource.MustParse("2")
	for _, x := range []struct {
		what   string
		change func(p *v1.Pod)
		same   bool
	}{
		{"a node and a phase", func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", v1.PodRunning }, true},
		{"statuses without resources", func(p *v1.Pod) { p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main"}} }, true},
		{"a copy of its containers", func(p *v1.Pod) { *p = *p.DeepCopy(); p.Labels = map[string]string{"a": "b"} }, true},
		{"another port", func(p *v1.Pod) { *p = *p.DeepCopy(); p.Spec.Containers[0].Ports[0].HostPort = 81 }, false},
		{"other containers", func(p *v1.Pod) { p.Spec.Containers = build.Pod("p").CPU("2").Obj().Spec.Containers }, false},
		{"an init container", func(p *v1.Pod) { p.Spec.InitContainers = build.Pod("p").CPU("2").Obj().Spec.Containers }, false},
		{"overhead", func(p *v1.Pod) { p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: more} }, false},
		{"resources of the pod", func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: more}}
		}, false},
		{"a resize", func(p *v1.Pod) {
			r := v1.ResourceList{v1.ResourceCPU: more}
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", Resources: &v1.ResourceRequirements{Requests: r}, AllocatedResources: r}}
		}, false},
	} {
		now := *p
		x.change(&now)
		if got := SameUsage(p, &now); got != x.same || SameUsage(&now, p) != x.same {
			t.Errorf("%s: got %t, want %t", x.what, got, x.same)
		}
		if got := proto.Equal(Usage(p), Usage(&now)); got != x.same {
			t.Errorf("%s: got equal usages %t, want %t", x.what, got, x.same)
		}
	}
}

func TestUsageLeavesThePodAlone(t *testing.T) {
	p := build.Pod("p").CPU("1e2147483647").Memory("-5").Overhead("cpu", "1").Obj()
	Usage(p)
	q := p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory]
	if got := q.Value(); got != -5 {
		t.Errorf("the pod's own memory request: want -5, got %d", got)
	}
}

func TestHostPorts(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	p := build.Pod("p").HostPort("", "", 80).HostPort("10.0.0.1", v1.ProtocolUDP, 53).
		HostPort("0.0.0.0", v1.ProtocolTCP, 80). // the same as the first
		HostPort("", "", 0).HostPort("", "", -1).HostPort("", "", 70000).HostPort("", "QUIC", 443).Obj()
	port := func(n int32) []v1.ContainerPort { return []v1.ContainerPort{{HostPort: n}} }
	p.Spec.InitContainers = []v1.Container{
		{Name: "plain", Ports: port(1111)},
		{Name: "sidecar", Ports: port(2222), RestartPolicy: &always},
	}
	want := []*pb.HostPort{
		{Ip: "0.0.0.0", Protocol: pb.Protocol_PROTOCOL_TCP, Port: 80},
		{Ip: "0.0.0.0", Protocol: pb.Protocol_PROTOCOL_TCP, Port: 2222},
		{Ip: "10.0.0.1", Protocol: pb.Protocol_PROTOCOL_UDP, Port: 53},
	}
	if diff := cmp.Diff(want, Usage(p).HostPorts, protocmp.Transform()); diff != "" {
		t.Errorf("host ports: want -, got +\n%s", diff)
	}
}

func TestPriority(t *testing.T) {
	if got := Priority(build.Pod("p").Obj()); got != 0 {
		t.Errorf("priority of a pod without one: want 0, got %d", got)
	}
	if got := Priority(build.Pod("p").Priority(-7).Obj()); got != -7 {
		t.Errorf("priority: want -7, got %d", got)
	}
}
