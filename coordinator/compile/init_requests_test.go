package compile

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Pods of many init containers ask for what the library says, and may use what it says.
func TestResourcesOfManyInitContainersAreTheLibrarys(t *testing.T) {
	names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "hugepages-2Mi", "example.com/a", "example.com/b"}
	list := func(t *rapid.T, label string) v1.ResourceList {
		out := v1.ResourceList{}
		for _, name := range names {
			if n := rapid.Int64Range(-1, 5).Draw(t, label); n >= 0 {
				out[name] = *resource.NewMilliQuantity(n*500, resource.DecimalSI)
			}
		}
		return out
	}
	always := v1.ContainerRestartPolicyAlways
	containers := func(t *rapid.T, prefix string, atLeast, most int) (out []v1.Container, statuses []v1.ContainerStatus) {
		for i := range rapid.IntRange(atLeast, most).Draw(t, prefix) {
			c := v1.Container{Name: fmt.Sprint(prefix, i)}
			c.Resources.Requests, c.Resources.Limits = list(t, "requests"), list(t, "limits")
			if prefix == "init" && rapid.Bool().Draw(t, "sidecar") {
				c.RestartPolicy = &always
			}
			if rapid.IntRange(0, 3).Draw(t, "status") == 0 {
				statuses = append(statuses, v1.ContainerStatus{
					Name: c.Name, AllocatedResources: list(t, "allocated"), Resources: &v1.ResourceRequirements{Requests: list(t, "actuated")},
				})
			}
			out = append(out, c)
		}
		return out, statuses
	}
	rapid.Check(t, func(t *rapid.T) {
		p := &v1.Pod{}
		p.Spec.Containers, p.Status.ContainerStatuses = containers(t, "main", 1, 3)
		p.Spec.InitContainers, p.Status.InitContainerStatuses = containers(t, "init", fewInitContainers-2, fewInitContainers+8)
		if rapid.Bool().Draw(t, "overhead") {
			p.Spec.Overhead = list(t, "overhead")
		}
		if rapid.Bool().Draw(t, "as a whole") {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: list(t, "as a whole"), Limits: list(t, "limits as a whole")}
		}
		if rapid.Bool().Draw(t, "infeasible") {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonInfeasible}}
		}
		before := p.DeepCopy()
		held := helper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
		nonZero := held
		nonZero.NonMissingContainerRequests = defaults()
		for _, o := range []helper.PodResourcesOptions{{}, {SkipPodLevelResources: true, NonMissingContainerRequests: defaults()}, held, nonZero} {
			if got, want := podRequests(p, o), helper.PodRequests(before, o); !equality.Semantic.DeepEqual(got, want) {
				t.Fatalf("%+v: got %v, want %v", o, got, want)
			}
		}
		if got, want := Limits(p), helper.PodLimits(before, helper.PodResourcesOptions{}); !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("limits: got %v, want %v", got, want)
		}
		if !equality.Semantic.DeepEqual(p, before) {
			t.Fatalf("the pod is another now: %+v, was %+v", p, before)
		}
	})
}

// The pod is the informers': what it requests as a whole stays as it is when the overhead is added.
func TestCountingChangesNoPod(t *testing.T) {
	list := func(memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
	}
	for _, resized := range []bool{false, true} {
		p := build.Pod("p").Container("a").Obj()
		p.Spec.Overhead = list("120Mi")
		p.Spec.Resources = &v1.ResourceRequirements{Requests: list("1.5Gi"), Limits: list("2.5Gi")}
		if resized {
			p.Status.Resources = &v1.ResourceRequirements{Requests: list("3.5Gi"), Limits: list("4.5Gi")}
			p.Status.AllocatedResources = list("2.25Gi")
		}
		want := p.DeepCopy()
		requestsOf(p)
		Limits(p)
		if !equality.Semantic.DeepEqual(p, want) {
			t.Errorf("resized %t: got %v and %v, want %v and %v", resized, p.Spec.Resources, p.Status, want.Spec.Resources, want.Status)
		}
	}
}
