package compile

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
)

// Where no container takes a default, there is nothing to add up again.
func TestDefaultsAreNotAskedForWhereNoContainerTakesOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	list := func() v1.ResourceList {
		out := v1.ResourceList{}
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage} {
			if r.IntN(8) > 0 {
				out[name] = *resource.NewQuantity(r.Int64N(3), resource.DecimalSI)
			}
		}
		return out
	}
	containers := func(n int, policies ...*v1.ContainerRestartPolicy) (out []v1.Container) {
		for i := range n {
			out = append(out, v1.Container{Name: string(rune('a' + i)), RestartPolicy: policies[r.IntN(len(policies))]})
			out[i].Resources.Requests = list()
		}
		return out
	}
	always, named := v1.ContainerRestartPolicyAlways, 0
	for i := range 3000 {
		p := &v1.Pod{}
		p.Spec.Containers, p.Spec.InitContainers = containers(1+r.IntN(2), nil), containers(r.IntN(3), nil, &always)
		if r.IntN(4) == 0 {
			p.Spec.Overhead = list()
		}
		if r.IntN(4) == 0 {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: list()}
		}
		if r.IntN(4) == 0 {
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "a", Resources: &v1.ResourceRequirements{Requests: list()}, AllocatedResources: list()}}
		}
		if namesDefaults(p) {
			named++
		}
		held := heldRequests(p)
		want := held
		if missing := missingDefaults(p, held); len(missing) > 0 {
			want = helper.PodRequests(p, helper.PodResourcesOptions{
				UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true, NonMissingContainerRequests: missing,
			})
		}
		if got := heldNonZero(p, held); !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("pod %d: got %v, want %v\n%+v\n%+v", i, got, want, p.Spec, p.Status)
		}
	}
	if named < 300 || named > 2700 {
		t.Errorf("of 3000 pods %d name all that there are defaults of: both kinds are to be looked at", named)
	}
}
