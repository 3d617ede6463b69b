package devices

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

const resourceName = "example.com/gpu"

// extendedStories are about extended resources that devices serve.
func extendedStories() []story {
	explicit := class("explicit")
	explicit.Name = "explicit-2"
	name := resourceName
	explicit.Spec.ExtendedResourceName = &name
	const implicit = resourcev1.ResourceDeviceClassPrefix + "implicit"
	return []story{
		{
			name: "explicit", nodes: 1, objects: objects(explicit, slice("explicit", 0, named("a", "b", "c")...)),
			pods:  pods(extending("explicit", "explicit", resourceName, "2")),
			check: func(b *bed) { checkExtended(b, resourceName) },
		},
		{
			name: "implicit", nodes: 1, objects: objects(slice("implicit", 0, named("a", "b", "c")...)), pods: pods(extending("implicit", "implicit", implicit, "2")),
			check: func(b *bed) { checkExtended(b, implicit) },
		},
		{
			// A node that tells of the resource is served by its device plugin, another is not.
			name: "plugin", nodes: 1, objects: objects(build.Node("plugin").CPU("1").Resource("pods", "10").Resource(resourceName, "1").Zone("plugin").Obj()),
			check: func(b *bed) {
				b.Create(extending("plugin", "plugin", resourceName, "1"))
				b.Goes("default/plugin", "plugin")
				if got := b.Pods.Get("default/plugin").Status.ExtendedResourceClaimStatus; got != nil {
					b.T.Errorf("got %v, want no claim", got)
				}
			},
		},
		{
			name: "unmapped", nodes: 1, pods: pods(extending("unmapped", "unmapped", "example.com/unmapped", "1")),
			check: func(b *bed) { b.waits("unmapped", "1 Insufficient example.com/unmapped") },
		},
	}
}

// extending is a pod that asks for devices by an extended resource.
func extending(story, name, resource, quantity string) *v1.Pod {
	p := pod(story, name).Request(resource, quantity).Obj()
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceName(resource): p.Spec.Containers[0].Resources.Requests[v1.ResourceName(resource)]}
	return p
}

// checkExtended is about a pod of the story's name that asks for two of three devices.
func checkExtended(b *bed, resource string) {
	b.Bound("default/" + b.name)
	p := b.Pods.Get("default/" + b.name)
	status := p.Status.ExtendedResourceClaimStatus
	// Beside the resource a container asks for cpu, which is before it in one case and behind it in the other.
	request := "container-0-request-1"
	if status == nil || !slices.Equal(status.RequestMappings, []v1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: resource, RequestName: request}}) {
		b.T.Fatalf("got %v, want the claim of the container's request", status)
	}
	c := b.claim(b.T.Context(), status.ResourceClaimName)
	if got, want := devicesOf(c), fmt.Sprintf("%[1]s/%[2]s/a %[1]s/%[2]s/b", request, node(b.name, 0)); got != want {
		b.T.Errorf("got devices %q, want %q", got, want)
	}
	if c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" || len(c.OwnerReferences) != 1 || c.OwnerReferences[0].UID != p.UID {
		b.T.Errorf("got a claim with annotations %v, of %v, want one for extended resources of the pod", c.Annotations, c.OwnerReferences)
	}
	again := extending(b.name, b.name+"-2", resource, "2")
	b.Create(again)
	b.waits(again.Name, noDevice)
	b.Delete("default/" + b.name)
	b.untilClaim(c.Name, "is gone", isGone)
	b.Bound("default/" + again.Name)
}
