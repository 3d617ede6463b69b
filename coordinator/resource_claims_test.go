package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/record"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// deviceAPI keeps claims as an API server does, and tells the loop of each write.
type deviceAPI struct {
	mu       sync.Mutex
	version  int
	kept     map[string]*resourcev1.ResourceClaim
	told     func(*resourcev1.ResourceClaim)
	refusing error  // of a write of a status
	before   func() // a status is written
	deleted  []string
}

func newDeviceAPI(claims ...*resourcev1.ResourceClaim) *deviceAPI {
	a := &deviceAPI{version: 100, kept: map[string]*resourcev1.ResourceClaim{}, told: func(*resourcev1.ResourceClaim) {}, before: func() {}}
	for _, c := range claims {
		a.kept[c.Name] = c
	}
	return a
}

func (a *deviceAPI) write(c *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if there := a.kept[c.Name]; there == nil || there.ResourceVersion != c.ResourceVersion {
		return nil, apierrors.NewConflict(resourcev1.Resource("resourceclaims"), c.Name, errors.New("modified"))
	}
	c = c.DeepCopy()
	a.version++
	c.ResourceVersion = strconv.Itoa(a.version)
	a.kept[c.Name] = c
	a.told(c)
	return c, nil
}

func (a *deviceAPI) claim(name string) *resourcev1.ResourceClaim {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept[name]
}

func (a *deviceAPI) Get(_ context.Context, _, name string) (*resourcev1.ResourceClaim, error) {
	return a.claim(name), nil
}

func (a *deviceAPI) Create(context.Context, *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	return nil, errors.New("nobody asks for extended resources")
}

func (a *deviceAPI) Update(_ context.Context, c *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	return a.write(c)
}

func (a *deviceAPI) UpdateStatus(_ context.Context, c *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	a.before()
	a.mu.Lock()
	err := a.refusing
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return a.write(c)
}

// refuse has writes of statuses fail from now on; nil: no more.
func (a *deviceAPI) refuse(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusing = err
}

func (a *deviceAPI) Unreserve(_ context.Context, c *resourcev1.ResourceClaim, p *v1.Pod) error {
	now := a.claim(c.Name).DeepCopy()
	now.Status.ReservedFor = slices.DeleteFunc(now.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.UID == p.UID
	})
	_, err := a.write(now)
	return err
}

func (a *deviceAPI) Delete(_ context.Context, c *resourcev1.ResourceClaim) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deleted = append(a.deleted, c.Name)
	return nil
}

func (a *deviceAPI) TellPod(context.Context, *v1.Pod, *v1.PodExtendedResourceClaimStatus) error {
	return nil
}

// devicesOf are the devices that claims have, sorted.
func (a *deviceAPI) devices() (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, c := range a.kept {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			out = append(out, fmt.Sprintf("%s: %s/%s for %d", name, r.Pool, r.Device, len(c.Status.ReservedFor)))
		}
	}
	slices.Sort(out)
	return out
}

func gpuClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "gpu", ResourceVersion: "1"}}
}

// gpus is a node's slice of so many devices.
func gpus(node string, n int) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID("slice-" + node), ResourceVersion: "1"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range n {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i)})
	}
	return s
}

func gpuClaim(name string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name), ResourceVersion: "1"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name:    "r",
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	}
}

// using has a pod name a claim.
func using(p *v1.Pod, claim string) *v1.Pod {
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	return p
}

// runScenarioWithDevices plays on nodes a and b of two devices each, with claims that the API has.
func runScenarioWithDevices(t *testing.T, g *recordingReporter, api *deviceAPI, play func(*scenario)) {
	t.Helper()
	runScenarioWithDevicesAnd(t, func(*SchedulerConfig) {}, g, api, play)
}

func runScenarioWithDevicesAnd(t *testing.T, configure func(*SchedulerConfig), g *recordingReporter, api *deviceAPI, play func(*scenario)) {
	t.Helper()
	all := clusterOf(nodesOf("64", "a", "b"))
	all.Cluster = []objects.Object{gpuClass(), gpus("a", 2), gpus("b", 2)}
	for _, c := range api.kept {
		all.Cluster = append(all.Cluster, c)
	}
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		cfg.ClaimWriter, cfg.ClaimStatus, cfg.Reporter, cfg.Profiles = api, api, g, withPreemption()
		configure(cfg)
	}, all, nil, func(x *scenario) {
		api.told = func(c *resourcev1.ResourceClaim) {
			x.Deliver([]objects.Event{{Type: objects.Modified, Kind: objects.KindResourceClaim, Object: c}})
		}
		play(x)
	})
}

func (x *scenario) claimEvent(typ objects.EventType, c *resourcev1.ResourceClaim) {
	x.Deliver([]objects.Event{{Type: typ, Kind: objects.KindResourceClaim, Object: c}})
	synctest.Wait()
}

// The pods of one batch get a device each, whatever node they go to; one more pod waits until a claim gives its device back.
func TestEachClaimGetsADeviceOfItsOwn(t *testing.T) {
	const none = "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, " +
		"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	var claims []*resourcev1.ResourceClaim
	var events []objects.Event
	for i := range 5 {
		name := fmt.Sprintf("p%d", i)
		claims = append(claims, gpuClaim(name))
		events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: using(cores(name, "1"), name)})
	}
	api, g := newDeviceAPI(claims...), &recordingReporter{}
	runScenarioWithDevices(t, g, api, func(x *scenario) {
		x.Deliver(events)
		synctest.Wait()
		if got := api.devices(); len(got) != 4 {
			t.Errorf("got devices %q, want four", got)
		}
		taken := map[string]bool{}
		for _, c := range api.kept {
			if a := c.Status.Allocation; a != nil {
				r := a.Devices.Results[0]
				if taken[r.Pool+r.Device] {
					t.Errorf("device %s/%s is allocated twice", r.Pool, r.Device)
				}
				taken[r.Pool+r.Device] = true
			}
		}
		if got := x.message("p4"); got != none {
			t.Errorf("the fifth pod: got %q, want %q", got, none)
		}
		freed := api.claim("p0").DeepCopy()
		freed.Status = resourcev1.ResourceClaimStatus{}
		if _, err := api.write(freed); err != nil {
			t.Fatal(err)
		}
		elapse(time.Minute)
		if c := api.claim("p4"); c.Status.Allocation == nil || len(c.Status.ReservedFor) != 1 {
			t.Errorf("the fifth pod's claim: got %v, want a device", c.Status)
		}
	})
}

// Of the pods that share a claim one allocates it, and the others follow it to the node.
func TestPodsThatShareAClaimGoToItsNode(t *testing.T) {
	api, g := newDeviceAPI(gpuClaim("c")), &recordingReporter{}
	runScenarioWithDevices(t, g, api, func(x *scenario) {
		var events []objects.Event
		for i := range 4 {
			events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: using(cores(fmt.Sprintf("p%d", i), "1"), "c")})
		}
		x.Deliver(events)
		elapse(time.Minute)
		c := api.claim("c")
		if c.Status.Allocation == nil || len(c.Status.ReservedFor) != 4 {
			t.Fatalf("got %v, want it allocated, and reserved for four pods", c.Status)
		}
		node := c.Status.Allocation.Devices.Results[0].Pool
		x.wantPods("all", "p0 promised "+node, "p1 promised "+node, "p2 promised "+node, "p3 promised "+node)
	})
}

// A claim with admin access takes no device from anybody. All the same, the other pods of a batch that have the claim wait until it is
// allocated.
func TestAClaimWithAdminAccessIsInFlight(t *testing.T) {
	claim, yes := gpuClaim("c"), true
	claim.Spec.Devices.Requests[0].Exactly.AdminAccess = &yes
	api, g := newDeviceAPI(claim), &recordingReporter{}
	runScenarioWithDevices(t, g, api, func(x *scenario) {
		x.Deliver([]objects.Event{
			{Type: objects.Added, Kind: objects.KindPod, Pod: using(cores("p", "1"), "c")},
			{Type: objects.Added, Kind: objects.KindPod, Pod: using(cores("q", "1"), "c")},
		})
		synctest.Wait()
		const refused = "q@1 Unschedulable: 0/2 nodes are available: resource claim default/c is in the process of being allocated. " +
			"no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
		if told := g.heard(); len(told) == 0 || told[0] != refused {
			t.Errorf("told %q, want %q first", told, refused)
		}
		elapse(time.Minute)
		if c := api.claim("c"); len(c.Status.ReservedFor) != 2 {
			t.Errorf("got %v, want it reserved for both pods", c.Status)
		}
	})
}

// A pod waits for its claim, and is tried as soon as it is there.
func TestAPodWaitsForItsClaim(t *testing.T) {
	api, g := newDeviceAPI(), &recordingReporter{}
	runScenarioWithDevices(t, g, api, func(x *scenario) {
		x.deliver(objects.Added, using(cores("p", "1"), "c"))
		elapse(time.Hour)
		g.want(t, "without the claim")
		c := gpuClaim("c")
		api.mu.Lock()
		api.kept["c"] = c
		api.mu.Unlock()
		x.claimEvent(objects.Added, c)
		if got := api.devices(); len(got) != 1 {
			t.Errorf("got devices %q, want one", got)
		}
	})
}

// A device whose claim could not be written is free again at once, and so is one of a pod that was not bound: its claim keeps the
// device for the next attempt, without a reservation.
func TestDevicesAreGivenBackWhereAPodIsNotBound(t *testing.T) {
	api, g := newDeviceAPI(gpuClaim("p"), gpuClaim("q")), &recordingReporter{}
	runScenarioWithDevices(t, g, api, func(x *scenario) {
		api.refuse(apierrors.NewForbidden(resourcev1.Resource("resourceclaims"), "p", errors.New("no")))
		x.deliver(objects.Added, using(cores("p", "1"), "p"))
		if got := api.devices(); len(got) != 0 {
			t.Errorf("got devices %q, want none", got)
		}
		var flights int
		if err := x.call(x.ctx, func() { flights = len(x.state.TakeClaimChanges()) }); err != nil || flights != 0 {
			t.Errorf("got %d changes that nobody took, %v", flights, err)
		}
		api.refuse(nil)
		x.binder.say(always(errors.New("refused")))
		x.deliver(objects.Added, using(cores("q", "1"), "q"))
		synctest.Wait()
		if c := api.claim("q"); c.Status.Allocation == nil || len(c.Status.ReservedFor) != 0 {
			t.Errorf("got %v, want a device, and no reservation", c.Status)
		}
		x.binder.say(nil)
		elapse(time.Minute)
		for _, name := range []string{"p", "q"} {
			if c := api.claim(name); c.Status.Allocation == nil || len(c.Status.ReservedFor) != 1 {
				t.Errorf("%s after the next attempt: got %v, want a device, and a reservation", name, c.Status)
			}
		}
	})
}

// Devices count as in use as soon as a pod is decided, and the list tells of them before the claim does.
func TestDevicesAreListedWithWhoHasThem(t *testing.T) {
	api, g := newDeviceAPI(gpuClaim("p")), &recordingReporter{}
	runScenarioWithDevices(t, g, api, func(x *scenario) {
		list := func() (lines []string) {
			out, err := x.Devices(x.ctx, &pb.ListDevicesRequest{})
			if err != nil {
				t.Error(err)
			}
			for _, d := range out.GetDevices() {
				lines = append(lines, fmt.Sprint(d.Device, " ", d.InUseBy))
			}
			slices.Sort(lines)
			return lines
		}
		var decided []string
		api.before = func() { decided = list() }
		wantLines(t, "at first", list(), "gpu-0 []", "gpu-0 []", "gpu-1 []", "gpu-1 []")
		x.deliver(objects.Added, using(cores("p", "1"), "p"))
		wantLines(t, "when it is decided", decided, "gpu-0 []", "gpu-0 [default/p]", "gpu-1 []", "gpu-1 []")
		wantLines(t, "when it is bound", list(), "gpu-0 []", "gpu-0 [default/p]", "gpu-1 []", "gpu-1 []")
	})
}

// recordFile is where a record goes.
type recordFile struct{ bytes.Buffer }

func (*recordFile) Close() error { return nil }

// The record has a claim with its devices when a decision gives them, and as it is written when the pod is bound, or is not.
func TestTheRecordHasClaims(t *testing.T) {
	api, g, file := newDeviceAPI(gpuClaim("p")), &recordingReporter{}, &recordFile{}
	var w *record.Writer
	open := func(cfg *SchedulerConfig) {
		w = record.NewWriter(file, record.Config{})
		cfg.Recorder = w
	}
	runScenarioWithDevicesAnd(t, open, g, api, func(x *scenario) {
		go w.Run(x.ctx)
		x.binder.say(always(errors.New("refused")))
		api.refuse(apierrors.NewForbidden(resourcev1.Resource("resourceclaims"), "p", errors.New("no")))
		x.deliver(objects.Added, using(cores("p", "1"), "p"))
		api.refuse(nil)
		elapse(2 * time.Second)
		x.binder.say(nil)
		elapse(time.Minute)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	var got []string
	tell := func(what string, list [][]byte) {
		objs, err := record.Objects(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range objs {
			c := obj.(*resourcev1.ResourceClaim)
			what += fmt.Sprintf(" %s has %d devices for %d pods", c.Name, len(c.Status.Allocation.Devices.Results), len(c.Status.ReservedFor))
		}
		got = append(got, what)
	}
	for in := record.NewReader(file); ; {
		r, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch what := r.What.(type) {
		case *pb.Record_Decision:
			tell("decided:", what.Decision.GetAssumed())
		case *pb.Record_Bound:
			tell("bound:", what.Bound.GetLatest())
		case *pb.Record_TakenBack:
			tell("taken back:", what.TakenBack.GetLatest())
		}
	}
	want := []string{
		"decided: p has 1 devices for 0 pods", "taken back:", // the claim could not be written
		"decided: p has 1 devices for 0 pods", "taken back: p has 1 devices for 1 pods", // the pod could not be bound
		"decided:", "bound: p has 1 devices for 1 pods",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got record %q, want %q", got, want)
	}
}

// A claim for extended resources that a leader before has left behind goes with its pod, unless the pod's status names it: then who
// has deleted the pod frees it. Where there is a garbage collector, that does.
func TestClaimsLeftBehindGoWithTheirPod(t *testing.T) {
	yes := true
	owned := func(name, pod string) *resourcev1.ResourceClaim {
		c := gpuClaim(name)
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID("pod-" + pod), Controller: &yes}}
		return c
	}
	for name, collects := range map[string]bool{"etcd": false, "an API server": true} {
		t.Run(name, func(t *testing.T) {
			api := newDeviceAPI(owned("left", "gone"), owned("told", "gone"), owned("other", "stays"))
			all := clusterOf(nodesOf("64", "a"))
			for _, c := range api.kept {
				all.Cluster = append(all.Cluster, c)
			}
			runScenarioWith(t, func(cfg *SchedulerConfig) {
				if cfg.ClaimWriter = api; collects {
					cfg.ClaimStatus = api
				}
			}, all, nil, func(x *scenario) {
				p := build.Pod("gone").UID("pod-gone").Gate("wait").Obj()
				p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "told"}
				x.deliver(objects.Added, p)
				x.deliver(objects.Deleted, p)
				want := []string{"left"}
				if collects {
					want = nil
				}
				if !slices.Equal(api.deleted, want) {
					t.Errorf("got claims %q deleted, want %q", api.deleted, want)
				}
			})
		})
	}
}

// Where nobody writes, a victim's claims go with it, that for its extended resources among them, also if its object does not name
// that.
func TestAVictimLeavesItsDevices(t *testing.T) {
	all := clusterOf(nodesOf("4", "a"))
	all.Cluster = []objects.Object{gpuClass(), gpus("a", 2), gpuClaim("c")}
	x := newTrial(t, SchedulerConfig{Shards: 1, BatchSize: 1, Profiles: withPreemption()}, 0)
	defer x.fanout.Close()
	x.Load(all, nil)
	see := func(p *v1.Pod) {
		x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: p})
		x.turn(t)
	}
	victim := build.Pod("victim").UID("victim").CPU("3").Request("deviceclass.resource.kubernetes.io/gpu", "1").Obj()
	see(victim)
	there := victim.DeepCopy()
	there.Spec.NodeName = "a"
	see(there)
	see(using(build.Pod("p").UID("p").CPU("3").Priority(10).Obj(), "c"))
	lines := x.decided(t)
	last := lines[len(lines)-1]
	if last.Pod != "default/p" || len(last.Claims) != 1 || !slices.Equal(last.Claims[0].Devices, []string{"r/gpu.example.com/a/gpu-0"}) {
		t.Errorf("the last decision: got %s with %v (%s), want default/p with the victim's device gpu-0", last.Pod, last.Claims, last.Message)
	}
}

// Without DynamicResources in its profile a pod's claims are nobody's business, as under kube-scheduler.
func TestClaimsAreIgnoredWithoutDynamicResources(t *testing.T) {
	c := rules.DefaultConfig(v1.DefaultSchedulerName)
	c.Filters = slices.DeleteFunc(c.Filters, func(p pb.Plugin) bool { return p == pb.Plugin_PLUGIN_DYNAMIC_RESOURCES })
	prof, err := rules.NewProfile(c)
	if err != nil {
		t.Fatal(err)
	}
	runScenarioWith(t, func(cfg *SchedulerConfig) { cfg.Profiles = map[string]*compile.Profile{v1.DefaultSchedulerName: prof} },
		clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
			x.deliver(objects.Added, using(cores("p", "1"), "c"))
			x.wantPods("under such a profile", "p promised n")
		})
}

// Devices that can not be searched for on a node without its lesser pods are an error of the dry run.
func TestDevicesFailADryRun(t *testing.T) {
	const want = "0/2 nodes are available: 2 Insufficient cpu. " +
		`preemption: running "DynamicResources" filter plugin: claim default/c: selector #0: CEL runtime error: no such key: none`
	claim := gpuClaim("c")
	claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{
		CEL: &resourcev1.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].none`},
	}}
	runScenarioWithDevices(t, &recordingReporter{}, newDeviceAPI(claim), func(x *scenario) {
		for _, node := range []string{"a", "b"} {
			x.deliver(objects.Added, build.Pod("on-"+node).CPU("64").Priority(1).Node(node).Obj())
		}
		x.deliver(objects.Added, using(build.Pod("p").UID("p").CPU("64").Priority(10).Obj(), "c"))
		x.wantMessage("p", want)
	})
}

// A leader that ended between two writes leaves a claim with a finalizer alone, or one that is allocated and reserved for a pod
// without a node. The next leader allocates the first, and binds the pod of the second where its device is.
func TestTheNextLeaderGoesOnAfterAnyWrite(t *testing.T) {
	begun, done := gpuClaim("begun"), gpuClaim("done")
	begun.Finalizers, done.Finalizers = []string{resourcev1.Finalizer}, []string{resourcev1.Finalizer}
	done.Status = resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "r", Driver: "gpu.example.com", Pool: "b", Device: "gpu-0"},
			}},
			NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"b"}},
			}}}},
			AllocationTimestamp: &metav1.Time{Time: time.Unix(1000, 0)},
		},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "done", UID: cores("done", "1").UID}},
	}
	api, g := newDeviceAPI(begun, done), &recordingReporter{}
	runScenarioWithDevices(t, g, api, func(x *scenario) {
		x.Deliver([]objects.Event{
			{Type: objects.Added, Kind: objects.KindPod, Pod: using(cores("done", "1"), "done")},
			{Type: objects.Added, Kind: objects.KindPod, Pod: using(cores("begun", "1"), "begun")},
		})
		synctest.Wait()
		if got := api.claim("done"); got.ResourceVersion != "1" {
			t.Errorf("the claim that was written is written again: version %s", got.ResourceVersion)
		}
		got := api.devices()
		if len(got) != 2 || got[1] != "done: b/gpu-0 for 1" || got[0] == "begun: b/gpu-0 for 1" {
			t.Errorf("got devices %q, want done's, and another for begun", got)
		}
		node := api.claim("begun").Status.Allocation.Devices.Results[0].Pool
		x.wantPods("both", "begun promised "+node, "done promised b")
	})
}

// A pod with claims is told that there are no such kinds, and is tried again once there are.
func TestAPodWithClaimsWhereNobodyServesThem(t *testing.T) {
	api, g := newDeviceAPI(gpuClaim("p")), &recordingReporter{}
	all := clusterOf(nodesOf("64", "a"))
	all.NoDevices = true
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		cfg.ClaimWriter, cfg.ClaimStatus, cfg.Reporter, cfg.Profiles = api, api, g, withPreemption()
	}, all, nil, func(x *scenario) {
		api.told = func(c *resourcev1.ResourceClaim) {
			x.Deliver([]objects.Event{{Type: objects.Modified, Kind: objects.KindResourceClaim, Object: c}})
		}
		x.deliver(objects.Added, using(cores("p", "1"), "p"))
		x.deliver(objects.Added, cores("plain", "1"))
		x.wantBinds("while there are no claims", "plain@1 a")
		if got, want := x.message("p"), "0/1 nodes are available: the API server does not serve resource.k8s.io/v1, so that resource claims can "+
			"not be allocated. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		x.Deliver([]objects.Event{{Type: objects.Added, Kind: objects.KindDeviceClass, Object: gpuClass()}, {Type: objects.Added, Kind: objects.KindResourceSlice, Object: gpus("a", 2)}})
		x.claimEvent(objects.Added, gpuClaim("p"))
		elapse(time.Minute)
		if c := api.claim("p"); c.Status.Allocation == nil || len(c.Status.ReservedFor) != 1 {
			t.Errorf("got %v, want a device once the kinds are there", c.Status)
		}
	})
}
