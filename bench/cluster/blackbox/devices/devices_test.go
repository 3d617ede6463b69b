package devices

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// story is a part of the cluster, and what is to come of it.
type story struct {
	name string
	// nodes is how many it has: see node.
	nodes int
	// objects are there before the scheduler, pods are created when it runs.
	objects []runtime.Object
	pods    []*v1.Pod
	check   func(*bed)
}

// bed is the rig in one story.
type bed struct {
	*rig.Rig
	story
	// others is how many nodes the other stories have.
	others int
}

// hasty is the profile that waits two seconds for devices to become ready.
const hasty = `
- schedulerName: hasty
  pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 2s}}]
`

func TestDevices(t *testing.T) {
	r := rig.New(t, testbed.Config{})
	r.Controllers("resourceclaim", "garbagecollector")
	stories := allStories()
	total := 0
	for i := range stories {
		s := &stories[i]
		for _, o := range s.objects {
			if _, ok := o.(*v1.Node); ok {
				total++
			}
		}
		total += s.nodes
		for n := range s.nodes {
			name := node(s.name, n)
			r.Create(build.Node(name).CPU("64").Memory("64Gi").Resource("pods", "1000").Zone(s.name).Label(v1.LabelHostname, name).Obj())
		}
		r.Create(class(s.name))
		r.Create(s.objects...)
	}
	r.Start(hasty)
	for _, s := range stories {
		for _, p := range s.pods {
			r.Create(p)
		}
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			sub := *r
			sub.Cluster = &testbed.Cluster{Bed: r.Bed, T: t}
			s.check(&bed{&sub, s, total - s.nodes})
		})
	}
	r.CheckWrites("update resourceclaims ", "update resourceclaims/status ", "create resourceclaims ", "patch resourceclaims/status ")
}

// node names a story's node.
func node(story string, n int) string { return fmt.Sprintf("%s-%d", story, n) }

// driver names a story's driver.
func driver(story string) string { return story + ".example" }

// class has all devices of a story's driver.
func class(story string) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{}
	c.Name = story
	c.Spec.Selectors = matching(fmt.Sprintf("device.driver == %q", driver(story)))
	return c
}

func matching(expression string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

// slice offers devices on a node, whose name its pool has. What it is called may be changed before it is created.
func slice(story string, n int, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	name := node(story, n)
	s := &resourcev1.ResourceSlice{}
	s.Name = name
	s.Spec = resourcev1.ResourceSliceSpec{
		Driver: driver(story), NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}, Devices: devices,
	}
	return s
}

// named are plain devices.
func named(names ...string) (devices []resourcev1.Device) {
	for _, name := range names {
		devices = append(devices, resourcev1.Device{Name: name})
	}
	return devices
}

// one asks for a device of a story's class, as far as change says nothing else.
func one(story string, change ...func(*resourcev1.ExactDeviceRequest)) resourcev1.ResourceClaimSpec {
	exactly := &resourcev1.ExactDeviceRequest{DeviceClassName: story}
	for _, f := range change {
		f(exactly)
	}
	return asking(resourcev1.DeviceRequest{Name: "r", Exactly: exactly})
}

func asking(requests ...resourcev1.DeviceRequest) (spec resourcev1.ResourceClaimSpec) {
	spec.Devices.Requests = requests
	return spec
}

func claim(name string, spec resourcev1.ResourceClaimSpec) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{Spec: spec}
	c.Name, c.Namespace = name, "default"
	return c
}

func template(name string, spec resourcev1.ResourceClaimSpec) *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}}
	t.Name, t.Namespace = name, "default"
	return t
}

// pod can go to a story's nodes only.
func pod(story, name string) *build.PodBuilder {
	return build.Pod(name).CPU("10m").NodeSelector(v1.LabelTopologyZone, story)
}

// with is a pod that has claims by their names.
func with(p *build.PodBuilder, claims ...string) *v1.Pod {
	for i, c := range claims {
		p.Obj().Spec.ResourceClaims = append(p.Obj().Spec.ResourceClaims, v1.PodResourceClaim{Name: fmt.Sprint("c", i), ResourceClaimName: &c})
	}
	return p.Obj()
}

// from is a pod that has a claim of a template.
func from(p *build.PodBuilder, template string) *v1.Pod {
	p.Obj().Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &template}}
	return p.Obj()
}

// waits waits until a pod is unschedulable for the reasons that its story's nodes have, each with their number. It returns
// all of the message.
func (b *bed) waits(pod string, reasons ...string) string {
	b.T.Helper()
	return testbed.ScheduledCondition(b.Waits("default/"+pod, b.available(reasons...))).Message
}

func (b *bed) available(reasons ...string) string {
	all := append(slices.Clone(reasons), fmt.Sprintf("%d node(s) didn't match Pod's node affinity/selector", b.others))
	slices.Sort(all)
	return fmt.Sprintf("0/%d nodes are available: %s.", b.others+b.nodes, strings.Join(all, ", "))
}

// told is what becomes of a pod that no devices are found for, and that no preemption helps.
func (b *bed) told(reasons ...string) string {
	all := b.others + b.nodes
	return fmt.Sprintf("%s still not schedulable, preemption: 0/%d nodes are available: %d Preemption is not helpful for scheduling.", b.available(reasons...), all, all)
}

// claim is a claim as it is now; nil: there is none.
func (b *bed) claim(ctx context.Context, name string) *resourcev1.ResourceClaim {
	b.T.Helper()
	c, err := b.Admin.ResourceV1().ResourceClaims("default").Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	b.Must(err)
	return c
}

// untilClaim waits until a claim is as it should be.
func (b *bed) untilClaim(name, what string, met func(*resourcev1.ResourceClaim) bool) (c *resourcev1.ResourceClaim) {
	b.T.Helper()
	b.Await("claim "+name+" "+what, func(ctx context.Context) (string, bool) {
		c = b.claim(ctx, name)
		if c == nil {
			return "no claim", met(nil)
		}
		return fmt.Sprint(c.Finalizers, c.Status), met(c)
	})
	return c
}

func isGone(c *resourcev1.ResourceClaim) bool { return c == nil }

// isFree tells whether a claim has neither devices nor what keeps it from going.
func isFree(c *resourcev1.ResourceClaim) bool {
	return c != nil && c.Status.Allocation == nil && len(c.Status.ReservedFor) == 0 && len(c.Finalizers) == 0
}

// devicesOf are the devices of a claim, as request/pool/device with blanks between; empty: it has none.
func devicesOf(c *resourcev1.ResourceClaim) string {
	if c == nil || c.Status.Allocation == nil {
		return ""
	}
	var all []string
	for _, r := range c.Status.Allocation.Devices.Results {
		all = append(all, r.Request+"/"+r.Pool+"/"+r.Device)
	}
	return strings.Join(all, " ")
}

// has checks the devices of a claim.
func (b *bed) has(claim, devices string) {
	b.T.Helper()
	if got := devicesOf(b.claim(b.T.Context(), claim)); got != devices {
		b.T.Errorf("claim %s: got %q, want %q", claim, got, devices)
	}
}

// generated is the name of the claim that was made of a pod's template.
func (b *bed) generated(pod string) string {
	b.T.Helper()
	p := b.Pods.Get("default/" + pod)
	if p == nil || len(p.Status.ResourceClaimStatuses) != 1 || p.Status.ResourceClaimStatuses[0].ResourceClaimName == nil {
		b.T.Fatalf("pod %s: want the name of its claim in its status, got %v", pod, p)
	}
	return *p.Status.ResourceClaimStatuses[0].ResourceClaimName
}
