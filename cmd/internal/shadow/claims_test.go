package shadow

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// By its bind a pod's volume is on its node: no other node takes it any more.
func TestPodsWithVolumesAreJudgedBeforeTheirVolumes(t *testing.T) {
	all := nodes(build.Node("a").CPU("4").Memory("8Gi"), build.Node("b").CPU("8").Memory("16Gi"))
	claim := build.Claim("data", "made").Obj()
	all.Cluster = []objects.Object{build.WaitingClass("made", "example.com/maker"), claim}
	x := newRig(t, all)
	p := x.comes(build.Pod("p").CPU("1").Memory("1Gi").Claim("data").Obj())
	selected := claim.DeepCopy()
	selected.Annotations = map[string]string{storage.AnnSelectedNode: "a"}
	x.happens(objects.Modified, selected)
	x.after(2)
	x.want("lower 1")
	pv := build.Volume("pv", "made").On(v1.LabelHostname, "a").Bound(claim).Obj()
	bound := selected.DeepCopy()
	bound.Spec.VolumeName = "pv"
	x.happens(objects.Added, pv)
	x.happens(objects.Modified, bound)
	x.binds(p, "a")
	x.after(2)
	x.want("lower 1")
	if len(x.claimants) != 0 {
		t.Errorf("got %v, want no pod with claims left", x.claimants)
	}
}

// A claim of devices is allocated before the bind, and does not always say where to.
func TestPodsWithDevicesAreJudgedBeforeTheirDevices(t *testing.T) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpu", UID: "gpu"}}
	allocated := func(p *v1.Pod, node string) *resourcev1.ResourceClaim {
		c := claim.DeepCopy()
		c.Status.Allocation = &resourcev1.AllocationResult{}
		if node != "" {
			terms := build.Names(node)
			c.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{terms}}
		}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
		return c
	}
	name := "gpu"
	pod := func() *v1.Pod {
		p := build.Pod("p").CPU("1").Obj()
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
		return p
	}
	for _, c := range []struct {
		node string
		wait float64 // before the bind
		want string
	}{{"", 5, "; " + narrowed + " 1"}, {"", 0, "same 1"}, {"a", 5, "same 1"}} {
		all := nodes(build.Node("a").CPU("4"))
		all.Cluster = []objects.Object{claim}
		x := newRig(t, all)
		p := x.comes(pod())
		x.happens(objects.Modified, allocated(p, c.node))
		x.after(c.wait)
		x.binds(p, "a")
		x.after(2)
		x.want(c.want)
	}
	for _, s := range []*v1.NodeSelector{nil, {}, {NodeSelectorTerms: []v1.NodeSelectorTerm{build.Names("a", "b")}},
		{NodeSelectorTerms: []v1.NodeSelectorTerm{build.Labels(build.Match("a", v1.NodeSelectorOpIn, "b"))}}} {
		if got := nodeOf(s); got != "" {
			t.Errorf("%v: got node %q, want none", s, got)
		}
	}
}
