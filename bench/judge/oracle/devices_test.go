package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

const driver = "gpu.example.com"

// gpus is a node's slice, a pool of its own, with devices that have a model.
func gpus(node string, models ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: ptr.To(node), Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
	}}
	for i, model := range models {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: ptr.To(model)}}})
	}
	return s
}

// shared has a slice reach all nodes.
func shared(s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	s.Spec.NodeName, s.Spec.AllNodes = nil, ptr.To(true)
	return s
}

func deviceClass(name, expression string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}}}
}

// gpuClass has all devices of the driver.
func gpuClass() *resourcev1.DeviceClass { return deviceClass("gpu", `device.driver == "`+driver+`"`) }

// modelClass has those of a model.
func modelClass(model string) *resourcev1.DeviceClass {
	return deviceClass(model, `device.attributes["`+driver+`"].model == "`+model+`"`)
}

// requesting is a claim of a request for each class, which may have a count behind a star, be all, or
// be alternatives with bars between.
func requesting(name string, classes ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	for i, text := range classes {
		r := resourcev1.DeviceRequest{Name: fmt.Sprintf("r%d", i)}
		if alternatives := strings.Split(text, "|"); len(alternatives) > 1 {
			for _, class := range alternatives {
				r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
					Name: class, DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
				})
			}
		} else {
			r.Exactly = exactly(text)
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r)
	}
	return c
}

func exactly(text string) *resourcev1.ExactDeviceRequest {
	class, count, counted := strings.Cut(text, "*")
	class, all := strings.CutPrefix(class, "all ")
	r := &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}
	if counted {
		r.Count = int64(count[0] - '0')
	}
	if all {
		r.AllocationMode, r.Count = resourcev1.DeviceAllocationModeAll, 0
	}
	return r
}

// allocated is a claim that has a device of a node.
func allocated(c *resourcev1.ResourceClaim, node, device string) *resourcev1.ResourceClaim {
	c.Finalizers = []string{resourcev1.Finalizer}
	c.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
			Request: c.Spec.Devices.Requests[0].Name, Driver: driver, Pool: node, Device: device,
		}}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}},
		}}}},
	}
	return c
}

func alter[T any](obj T, f func(T)) T {
	f(obj)
	return obj
}

// claiming is a pod with claims.
func claiming(name string, claims ...string) *v1.Pod {
	p := build.Pod(name).Obj()
	for _, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: c, ResourceClaimName: ptr.To(c)})
	}
	return p
}

// templated is a pod with a claim of a template, which is made under a name; "": not yet.
func templated(name, claim string) *v1.Pod {
	p := build.Pod(name).Obj()
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: ptr.To("template")}}
	if claim != "" {
		p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: ptr.To(claim)}}
	}
	return p
}

func owned(c *resourcev1.ResourceClaim, pod string) *resourcev1.ResourceClaim {
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID("pod-" + pod), Controller: ptr.To(true)}}
	return c
}

// tellDevices spells a verdict with the devices that the pod gets on each node, and why it has to wait.
func tellDevices(t *testing.T, o *Oracle, v *Verdict) string {
	t.Helper()
	var out strings.Builder
	for _, node := range slices.Sorted(maps.Keys(v.Feasible)) {
		claims, err := o.Allocations(t.Context(), v, node)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s:", node)
		for _, c := range claims {
			fmt.Fprintf(&out, " %s[%s]", c.Name, strings.Join(deviceNames(c), " "))
		}
		if score := v.Feasible[node].Plugin("DynamicResources"); score.Raw > 0 {
			fmt.Fprintf(&out, " scores %d, %d", score.Raw, score.Weighted)
		}
		out.WriteString("\n")
	}
	if v.Err == nil {
		return out.String()
	}
	p, err := o.Preempt(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + v.Text(p) + "\n"
}

func deviceNames(c *resourcev1.ResourceClaim) (out []string) {
	for _, r := range c.Status.Allocation.Devices.Results {
		out = append(out, strings.Join([]string{r.Request, r.Pool, r.Device}, "/"))
	}
	return out
}

// deviceCase is objects beside three nodes, a pod, and what upstream says.
type deviceCase struct {
	name    string
	objects []Object
	pod     *v1.Pod
	want    string
}

func holdDevices(t *testing.T, config string, cases []deviceCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := newTest(t, config, append(append(three(), c.objects...), c.pod)...)
			got := o.Gated(t.Context(), c.pod)
			if got != "" {
				got += "\n"
			} else {
				got = tellDevices(t, o, judge(t, o, c.pod))
			}
			if want := strings.ReplaceAll(strings.TrimPrefix(c.want, "\n"), "\t", ""); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

const (
	unhelpful   = ", preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.\n"
	allRefused  = "0/3 nodes are available: 3 cannot allocate all claims. still not schedulable" + unhelpful
	fatalPrefix = `running "DynamicResources" filter plugin: `
)

// The claims that a pod has, and what holds it back until it has them.
func TestClaimsResolved(t *testing.T) {
	deleted := requesting("c", "gpu")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	none := templated("p", "")
	none.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "c"}}
	inventory := []Object{gpuClass(), gpus("a", "big"), gpus("b", "big", "big")}
	with := func(objects ...Object) []Object { return append(slices.Clone(inventory), objects...) }
	holdDevices(t, "", []deviceCase{
		{"a claim by name", with(requesting("c", "gpu")), claiming("p", "c"), `
			a: c[r0/a/gpu-0]
			b: c[r0/b/gpu-0]
		`},
		{"a claim of a template", with(owned(requesting("c", "gpu"), "p")), templated("p", "c"), `
			a: c[r0/a/gpu-0]
			b: c[r0/b/gpu-0]
		`},
		{"one that is not made yet", inventory, templated("p", ""), "pod \"default/p\": ResourceClaim not created yet\n"},
		{"one that there is no need to make", inventory, none, "a:\nb:\nc:\n"},
		{"one that is missing", inventory, claiming("p", "c"), "could not find ResourceClaim \"default/c\"\n"},
		{"one that is being deleted", with(deleted), claiming("p", "c"), "resourceclaim \"c\" is being deleted\n"},
		{"one of another pod", with(owned(requesting("c", "gpu"), "x")), templated("p", "c"),
			"ResourceClaim default/c was not created for Pod default/p (Pod is not owner)\n"},
		{"a class that is missing", []Object{gpus("a", "big"), requesting("c", "gpu")}, claiming("p", "c"),
			"0/3 nodes are available: request r0: device class gpu does not exist. no new claims to deallocate" + unhelpful},
		{"one of an alternative", with(requesting("c", "gpu|none")), claiming("p", "c"),
			"0/3 nodes are available: request r0/none: device class none does not exist. no new claims to deallocate" + unhelpful},
	})
}

// What a search for devices finds, and what ends it.
func TestDevicesFound(t *testing.T) {
	tainted := gpus("a", "big")
	tainted.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	tolerant := requesting("c", "gpu")
	tolerant.Spec.Devices.Requests[0].Exactly.Tolerations = []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
	admin := requesting("c", "gpu")
	admin.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
	alike := requesting("c", "gpu*2")
	alike.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: ptr.To(resourcev1.FullyQualifiedName(driver + "/model"))}}
	updated := gpus("b", "big")
	updated.Spec.Pool.ResourceSliceCount = 2
	twice := gpus("b", "big", "big")
	twice.Spec.Devices[1].Name = "gpu-0"
	classes := []Object{gpuClass(), modelClass("big"), modelClass("small")}
	with := func(objects ...Object) []Object { return append(slices.Clone(classes), objects...) }
	holdDevices(t, "", []deviceCase{
		{"too few", with(gpus("a", "big"), gpus("b", "big", "big"), requesting("c", "gpu*2")), claiming("p", "c"), "b: c[r0/b/gpu-0 r0/b/gpu-1]\n"},
		{"none left", with(gpus("a", "big"), requesting("c", "gpu"), allocated(requesting("x", "gpu"), "a", "gpu-0")), claiming("p", "c"), allRefused},
		{"all that there are", with(gpus("a", "big", "small"), requesting("c", "all gpu")), claiming("p", "c"), "a: c[r0/a/gpu-0 r0/a/gpu-1]\n"},
		{"of one model", with(gpus("a", "small", "big"), gpus("b", "small"), requesting("c", "big")), claiming("p", "c"), "a: c[r0/a/gpu-1]\n"},
		{"two claims together", with(gpus("a", "big"), gpus("b", "big", "small"), requesting("c", "gpu"), requesting("d", "big")), claiming("p", "c", "d"),
			"b: c[r0/b/gpu-1] d[r0/b/gpu-0]\n"},
		{"alike", with(gpus("a", "big", "small"), gpus("b", "big", "small", "small"), alike), claiming("p", "c"), "b: c[r0/b/gpu-1 r0/b/gpu-2]\n"},
		{"a taint", with(tainted, requesting("c", "gpu")), claiming("p", "c"), allRefused},
		{"one that is tolerated", with(tainted, tolerant), claiming("p", "c"), "a: c[r0/a/gpu-0]\n"},
		{"what is in use, for an admin", with(gpus("a", "big"), admin, allocated(requesting("x", "gpu"), "a", "gpu-0")), claiming("p", "c"), "a: c[r0/a/gpu-0]\n"},
		{"a device for every node", with(shared(gpus("net", "big")), requesting("c", "gpu")), claiming("p", "c"), `
			a: c[r0/net/gpu-0]
			b: c[r0/net/gpu-0]
			c: c[r0/net/gpu-0]
		`},
		{"the first alternative that there is", with(gpus("a", "small"), gpus("b", "big"), requesting("c", "big|small")), claiming("p", "c"), `
			a: c[r0/small/a/gpu-0] scores 7, 174
			b: c[r0/big/b/gpu-0] scores 8, 200
		`},
		{"an invalid pool", with(gpus("a", "small"), twice, requesting("c", "big")), claiming("p", "c"),
			"0/3 nodes are available: 1 invalid resource pools were encountered, 2 cannot allocate all claims. still not schedulable" + unhelpful},
		{"a pool that is being updated", with(updated, requesting("c", "gpu")), claiming("p", "c"), allRefused},
		{"all of it", with(gpus("a", "big"), updated, requesting("c", "all gpu")), claiming("p", "c"),
			"a: c[r0/a/gpu-0]\n" + fatalPrefix + "claim default/c, request r0: asks for all devices, but resource pool gpu.example.com/b is currently being updated\n"},
		{"an expression that does not compile", []Object{deviceClass("gpu", "device.nothing"), gpus("b", "big"), requesting("c", "gpu")}, claiming("p", "c"),
			fatalPrefix + "class gpu: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:7: undefined field 'nothing'\n | device.nothing\n | ......^\n"},
		{"one that fails", []Object{deviceClass("gpu", `device.attributes["`+driver+`"].none == "x"`), gpus("b", "big"), requesting("c", "gpu")}, claiming("p", "c"),
			fatalPrefix + "class gpu: selector #0: CEL runtime error: no such key: none\n"},
		{"two errors: of the first node by name", with(alter(gpus("a", "big"), func(s *resourcev1.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }), updated, requesting("c", "all gpu")),
			claiming("p", "c"), fatalPrefix + "claim default/c, request r0: asks for all devices, but resource pool gpu.example.com/a is currently being updated\n"},
	})
}

// Devices that share counters, or are shared.
func TestDevicesShared(t *testing.T) {
	half := func(name string) resourcev1.Device {
		return resourcev1.Device{Name: name, ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: "memory", Counters: map[string]resourcev1.Counter{
			"bytes": {Value: resource.MustParse("6Gi")},
		}}}}
	}
	counters := gpus("a")
	counters.Name, counters.Spec.Pool.ResourceSliceCount = "a-counters", 2
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "memory", Counters: map[string]resourcev1.Counter{"bytes": {Value: resource.MustParse("10Gi")}}}}
	parts := gpus("a")
	parts.Spec.Pool.ResourceSliceCount = 2
	parts.Spec.Devices = []resourcev1.Device{half("gpu-0"), half("gpu-1"), {Name: "whole"}}
	capacity := gpus("a", "big")
	capacity.Spec.Devices[0].AllowMultipleAllocations = ptr.To(true)
	capacity.Spec.Devices[0].Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}}
	asking := func(name, size string) *resourcev1.ResourceClaim {
		c := requesting(name, "gpu")
		c.Spec.Devices.Requests[0].Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(size)}}
		return c
	}
	share := func(c *resourcev1.ResourceClaim, size string) *resourcev1.ResourceClaim {
		r := &allocated(c, "a", "gpu-0").Status.Allocation.Devices.Results[0]
		r.ShareID = ptr.To(types.UID("3d6a5b1e-0000-4000-8000-000000000000"))
		r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(size)}
		return c
	}
	holdDevices(t, "", []deviceCase{
		{"counters", []Object{gpuClass(), counters, parts, requesting("c", "gpu*2")}, claiming("p", "c"), "a: c[r0/a/gpu-0 r0/a/whole]\n"},
		{"counters that are short", []Object{gpuClass(), counters, parts, requesting("c", "gpu"), allocated(requesting("x", "gpu"), "a", "gpu-0")}, claiming("p", "c"), "a: c[r0/a/whole]\n"},
		{"capacity", []Object{gpuClass(), capacity, asking("c", "4Gi"), share(asking("x", "6Gi"), "6Gi")}, claiming("p", "c"), "a: c[r0/a/gpu-0]\n"},
		{"capacity that is short", []Object{gpuClass(), capacity, asking("c", "5Gi"), share(asking("x", "6Gi"), "6Gi")}, claiming("p", "c"), allRefused},
		{"a share for two requests", []Object{gpuClass(), capacity, asking("c", "5Gi"), asking("d", "5Gi")}, claiming("p", "c", "d"), "a: c[r0/a/gpu-0] d[r0/a/gpu-0]\n"},
	})
}

// Claims that are allocated already.
func TestClaimsAllocated(t *testing.T) {
	conditions := func(c *resourcev1.ResourceClaim, condition string, at time.Time) *resourcev1.ResourceClaim {
		a := allocated(c, "b", "gpu-0").Status.Allocation
		a.AllocationTimestamp = &metav1.Time{Time: at}
		a.Devices.Results[0].BindingConditions, a.Devices.Results[0].BindingFailureConditions = []string{"ready"}, []string{"failed"}
		if condition != "" {
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: driver, Pool: "b", Device: "gpu-0", Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue}}}}
		}
		return c
	}
	inUse := func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "x", UID: "x"}}
		return c
	}
	long, soon := time.Unix(1, 0), time.Now().Add(time.Hour)
	inventory := []Object{gpuClass(), gpus("b", "big")}
	with := func(objects ...Object) []Object { return append(slices.Clone(inventory), objects...) }
	const elsewhere = "0/3 nodes are available: 3 resourceclaim not available on the node. "
	holdDevices(t, "", []deviceCase{
		{"where the devices are", with(allocated(requesting("c", "gpu"), "b", "gpu-0")), claiming("p", "c"), "b:\n"},
		{"in use by others, too", with(inUse(allocated(requesting("c", "gpu"), "b", "gpu-0"))), claiming("p", "c"), "b:\n"},
		{"on a node that is gone", with(allocated(requesting("c", "gpu"), "x", "gpu-0")), claiming("p", "c"), elsewhere + "deallocation of ResourceClaim completed" + unhelpful},
		{"in use there", with(inUse(allocated(requesting("c", "gpu"), "x", "gpu-0"))), claiming("p", "c"), elsewhere + "still not schedulable" + unhelpful},
		{"ready", with(conditions(requesting("c", "gpu"), "ready", long)), claiming("p", "c"), "b:\n"},
		{"not ready yet", with(conditions(requesting("c", "gpu"), "", soon)), claiming("p", "c"), "b:\n"},
		{"not ready in time", with(conditions(requesting("c", "gpu"), "", long)), claiming("p", "c"), elsewhere + "deallocation of ResourceClaim completed" + unhelpful},
		{"failed", with(conditions(requesting("c", "gpu"), "failed", soon)), claiming("p", "c"), elsewhere + "deallocation of ResourceClaim completed" + unhelpful},
	})
}

// Extended resources that devices stand for.
func TestExtendedResources(t *testing.T) {
	const name = "example.com/gpu"
	named := gpuClass()
	named.Spec.ExtendedResourceName = ptr.To(name)
	plugin := node("c", "").Resource(name, "2").Obj()
	asking := func(resource, count string) *v1.Pod { return build.Pod("p").Request(resource, count).Obj() }
	stale := requesting("made", "gpu")
	stale.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	inventory := []Object{gpus("a", "big"), gpus("b", "big", "big"), plugin}
	with := func(objects ...Object) []Object { return append(slices.Clone(inventory), objects...) }
	cases := []deviceCase{
		{"by its name, or from a device plugin", with(named), asking(name, "2"), `
			b: <extended-resources>[container-0-request-0/b/gpu-0 container-0-request-0/b/gpu-1]
			c:
		`},
		{"by the class's", with(named), asking("deviceclass.resource.kubernetes.io/gpu", "1"), `
			a: <extended-resources>[container-0-request-0/a/gpu-0]
			b: <extended-resources>[container-0-request-0/b/gpu-0]
		`},
		{"of no class", with(gpuClass()), asking(name, "2"), "c:\n"},
		{"too many", with(named), asking(name, "3"), "0/3 nodes are available: 1 Insufficient example.com/gpu, 2 cannot allocate all claims. still not schedulable" + unhelpful},
		{"left over from an earlier attempt", with(named, owned(stale, "p")), asking(name, "1"),
			"0/3 nodes are available: 3 cannot schedule extended resource claim. deletion of ResourceClaim completed" + unhelpful},
	}
	holdDevices(t, "", cases)
	t.Run("scored", func(t *testing.T) {
		const config = `profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated, resources: [{name: example.com/gpu, weight: 1}]}}}]}]`
		o := newTest(t, config, append(three(), named, gpus("a", "big"), gpus("b", "big", "big"))...)
		for _, want := range []map[string]int64{{"a": 0, "b": 50}, {"a": 66, "b": 50}} {
			v := judge(t, o, asking(name, "1"))
			for n, score := range want {
				if got := v.Feasible[n].Plugin("NodeResourcesFit").Raw; got != score {
					t.Errorf("got %d for node %s, want %d", got, n, score)
				}
			}
			if err := o.Set(gpus("a", "big", "big", "big")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What is placed is taken, and is written.
func TestDevicesPlaced(t *testing.T) {
	o := newTest(t, "", append(three(), gpuClass(), gpus("a", "big", "big"), requesting("c", "gpu"), requesting("d", "gpu"), requesting("e", "gpu"))...)
	place := func(pod *v1.Pod, node string) *resourcev1.ResourceClaim {
		t.Helper()
		if err := o.Set(pod); err != nil {
			t.Fatal(err)
		}
		written, err := o.Place(t.Context(), judge(t, o, pod), node)
		if err != nil {
			t.Fatal(err)
		}
		if len(written) != 1 {
			t.Fatalf("got %d objects written, want 1", len(written))
		}
		return written[0].(*resourcev1.ResourceClaim)
	}
	first := place(claiming("p", "c"), "a")
	if got, want := fmt.Sprint(deviceNames(first), first.Finalizers, first.Status.ReservedFor), "[r0/a/gpu-0] [resource.kubernetes.io/delete-protection] [{ pods p pod-p}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(deviceNames(place(claiming("q", "d"), "a"))), "[r0/a/gpu-1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	last := claiming("r", "e")
	if err := o.Set(last); err != nil {
		t.Fatal(err)
	}
	if got := tellDevices(t, o, judge(t, o, last)); got != allRefused {
		t.Errorf("got %s, want %s", got, allRefused)
	}
	again := place(claiming("s", "c"), "a")
	if got, want := fmt.Sprint(again.Status.ReservedFor), "[{ pods p pod-p} { pods s pod-s}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	first.Status = resourcev1.ResourceClaimStatus{}
	if err := o.Set(first); err != nil {
		t.Fatal(err)
	}
	if got, want := tellDevices(t, o, judge(t, o, last)), "a: e[r0/a/gpu-0]\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := o.Remove(requesting("d", "gpu")); err != nil {
		t.Fatal(err)
	}
	special := build.Pod("t").Request("deviceclass.resource.kubernetes.io/gpu", "2").Obj()
	made := place(special, "a")
	if got, want := fmt.Sprint(made.Name, deviceNames(made)), "t-extended-resources-pod-t[container-0-request-0/a/gpu-0 container-0-request-0/a/gpu-1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
