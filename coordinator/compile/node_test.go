package compile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestNodeKeepsWhatRulesRead(t *testing.T) {
	n := build.Node("a").CPU("3500m").Memory("8Gi").EphemeralStorage("100Gi").Pods("64").
		Resource("nvidia.com/gpu", "8").Resource("hugepages-2Mi", "0").Resource("gpu", "9").
		Label("zone", "z1").Label("disk", "ssd").Label("empty", "").
		Taint("dedicated=db:NoSchedule").Taint("a:PreferNoSchedule").Taint("b=:NoExecute").
		Unschedulable().
		Image(500, "repo/x:v1", "repo/x@sha256:0").Image(7, "busybox", "repo/x:v1").Obj()
	want := &pb.Node{
		Name:          "a",
		Unschedulable: true,
		Labels:        []*pb.Label{{Key: "disk", Value: "ssd"}, {Key: "empty"}, {Key: "zone", Value: "z1"}},
		Taints: []*pb.Taint{
			{Key: "dedicated", Value: "db", Effect: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE},
			{Key: "a", Effect: pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE},
			{Key: "b", Effect: pb.TaintEffect_TAINT_EFFECT_NO_EXECUTE},
		},
		Allocatable: &pb.Resources{
			MilliCpu: 3500, MemoryBytes: 8 * gi, EphemeralStorageBytes: 100 * gi,
			Scalars: []*pb.ScalarResource{scalar("nvidia.com/gpu", 8)},
		},
		AllowedPods: 64,
		// Names as the node gives them: "busybox" is not the pod's "busybox:latest".
		Images: []string{"busybox", "repo/x:v1", "repo/x@sha256:0"},
	}
	if diff := cmp.Diff(want, Node(n), protocmp.Transform()); diff != "" {
		t.Errorf("node: want -, got +\n%s", diff)
	}
}

func TestNodeDoesWithoutTheAbsurd(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	n := build.Node("a").CPU("-4").Memory("1e2147483647").Pods("-1").
		Label(long, "v").Label("k", long).Label("", "v").Label("ok", "yes").
		Taint("k=v:Evict").Taint("=v:NoSchedule").Taint(long+":NoSchedule").
		Image(1, long, "", "ok:v1").Obj()
	want := &pb.Node{
		Name:        "a",
		Labels:      []*pb.Label{{Key: "ok", Value: "yes"}},
		Allocatable: &pb.Resources{MemoryBytes: MaxAmount},
		Images:      []string{"ok:v1"},
	}
	got := Node(n)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("node: want -, got +\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("validate: want no error, got %v", err)
	}
}

func TestNodeCountsAllocatableNotCapacity(t *testing.T) {
	n := build.Node("a").CPU("4").Obj()
	delete(n.Status.Allocatable, v1.ResourceCPU)
	if got := Node(n).Allocatable.MilliCpu; got != 0 {
		t.Errorf("cpu of a node that has capacity only: want 0, got %d", got)
	}
}

func TestScalarResourceNames(t *testing.T) {
	// A domain that is valid by itself, but too long with the prefix that a quota
	// puts before it.
	longDomain := strings.Repeat("a.", 122) + "com"
	for name, want := range map[v1.ResourceName]struct{ scalar, extended bool }{
		"nvidia.com/gpu":                   {true, true},
		"example.com/a/b":                  {false, false}, // not a qualified name
		"example.com/":                     {false, false},
		"requests.nvidia.com/gpu":          {false, false},
		"gpu":                              {false, false},
		"":                                 {false, false},
		"kubernetes.io/batch":              {true, false},
		"node.kubernetes.io/x":             {true, false},
		"hugepages-2Mi":                    {true, false},
		"hugepages":                        {false, false},
		"attachable-volumes-aws-ebs":       {true, false},
		"cpu":                              {false, false},
		"Example.com/Gpu":                  {false, false}, // a domain is lower case
		v1.ResourceName(longDomain + "/x"): {false, false},
	} {
		if got := isScalar(name); got != want.scalar {
			t.Errorf("%q is scalar: want %v, got %v", name, want.scalar, got)
		}
		if got := isExtended(name); got != want.extended {
			t.Errorf("%q is extended: want %v, got %v", name, want.extended, got)
		}
	}
}
