package devices

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// api is a place where claims are kept, by the rules of the API server that a scheduler runs into.
type api struct {
	version int
	claims  map[types.NamespacedName]*resourcev1.ResourceClaim
	pod     *v1.PodExtendedResourceClaimStatus
	calls   []string
	// whole: claims are kept whole, the status is written with all else.
	whole bool
	// before is asked before each call by its number, from 1 on: an error is the call's, and the call has no effect. after
	// has the call's effect first.
	before, after func(call int) error
}

func newAPI(list ...*resourcev1.ResourceClaim) *api {
	a := &api{claims: map[types.NamespacedName]*resourcev1.ResourceClaim{}}
	for _, c := range list {
		a.put(c.DeepCopy())
	}
	return a
}

var claimsResource = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}

func (a *api) put(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	a.version++
	c.ResourceVersion = strconv.Itoa(a.version)
	a.claims[keyOf(c)] = c
	return c.DeepCopy()
}

// do is one call.
func (a *api) do(name string, f func() error) error {
	a.calls = append(a.calls, name)
	n := len(a.calls)
	if a.before != nil {
		if err := a.before(n); err != nil {
			return err
		}
	}
	if err := f(); err != nil {
		return err
	}
	if a.after != nil {
		return a.after(n)
	}
	return nil
}

// held finds what a write is about.
func (a *api) held(c *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	held := a.claims[keyOf(c)]
	switch {
	case held == nil || held.UID != c.UID:
		return nil, apierrors.NewNotFound(claimsResource, c.Name)
	case held.ResourceVersion != c.ResourceVersion:
		return nil, apierrors.NewConflict(claimsResource, c.Name, errors.New("another version"))
	}
	return held.DeepCopy(), nil
}

func (a *api) Get(_ context.Context, namespace, name string) (out *resourcev1.ResourceClaim, err error) {
	return out, a.do("get", func() error {
		c := a.claims[types.NamespacedName{Namespace: namespace, Name: name}]
		if c == nil {
			return apierrors.NewNotFound(claimsResource, name)
		}
		out = c.DeepCopy()
		return nil
	})
}

func (a *api) Create(_ context.Context, c *resourcev1.ResourceClaim) (out *resourcev1.ResourceClaim, err error) {
	return out, a.do("create", func() error {
		if c.Name != "" || c.UID != "" || c.Status.Allocation != nil {
			return errors.New("a claim that is new has a name, a uid or devices")
		}
		c := c.DeepCopy()
		c.Name, c.UID = fmt.Sprintf("%s%d", c.GenerateName, a.version), types.UID(fmt.Sprintf("api-%d", a.version))
		out = a.put(c)
		return nil
	})
}

func (a *api) Update(_ context.Context, c *resourcev1.ResourceClaim) (out *resourcev1.ResourceClaim, err error) {
	return out, a.do("update", func() error {
		held, err := a.held(c)
		if err == nil {
			now := c.DeepCopy()
			if !a.whole {
				now.Status = held.Status
			}
			out = a.put(now)
		}
		return err
	})
}

func (a *api) UpdateStatus(_ context.Context, c *resourcev1.ResourceClaim) (out *resourcev1.ResourceClaim, err error) {
	return out, a.do("status", func() error {
		held, err := a.held(c)
		if err != nil {
			return err
		}
		was, is := held.Status.Allocation, c.Status.Allocation
		if was != nil && is != nil && !equality.Semantic.DeepEqual(was, is) {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ResourceClaim"}, c.Name, nil)
		}
		if is != nil && !slices.Contains(held.Finalizers, resourcev1.Finalizer) {
			return errors.New("a claim has devices and no finalizer")
		}
		held.Status = *c.Status.DeepCopy()
		out = a.put(held)
		return nil
	})
}

func (a *api) Unreserve(_ context.Context, c *resourcev1.ResourceClaim, pod *v1.Pod) error {
	return a.do("unreserve", func() error {
		held := a.claims[keyOf(c)]
		if held == nil || held.UID != c.UID {
			return apierrors.NewNotFound(claimsResource, c.Name)
		}
		held = held.DeepCopy()
		held.Status.ReservedFor = slices.DeleteFunc(held.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
		a.put(held)
		return nil
	})
}

func (a *api) Delete(_ context.Context, c *resourcev1.ResourceClaim) error {
	return a.do("delete", func() error {
		held := a.claims[keyOf(c)]
		if held == nil {
			return apierrors.NewNotFound(claimsResource, c.Name)
		}
		if len(held.Finalizers) > 0 {
			return errors.New("a claim with a finalizer does not go")
		}
		delete(a.claims, keyOf(c))
		return nil
	})
}

func (a *api) TellPod(_ context.Context, _ *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error {
	return a.do("tell pod", func() error { a.pod = status; return nil })
}

// rig is a cache with one device class and a node n1 with the devices a and b, and a binder that writes to an API.
type rig struct {
	*script
	api     *api
	binder  *Binder
	pending []string
	meter   []string
	// after is asked for the clock of pauses.
	after func(time.Duration) <-chan time.Time
}

func newRig(t *testing.T, a *api) *rig {
	r := &rig{script: newScript(t), api: a}
	r.after = func(d time.Duration) <-chan time.Time {
		ch := make(chan time.Time, 1)
		if d == retryAfter {
			ch <- start
		}
		return ch
	}
	r.binder = r.c.Binder(BinderConfig{
		Writer:  a,
		Status:  a,
		Pending: func(p *v1.Pod, node string) { r.pending = append(r.pending, p.Name+" on "+node) },
		Meter:   r,
		Now:     func() time.Time { return r.now },
		After:   func(d time.Duration) <-chan time.Time { return r.after(d) },
	})
	for _, line := range []string{
		`class {metadata: {name: gpu}, spec: {extendedResourceName: example.com/gpu}}`,
		`slice {metadata: {name: s}, spec: {driver: d, pool: {name: n1, generation: 1, resourceSliceCount: 1}, nodeName: n1, devices: [{name: a}, {name: b}, {name: slow, bindingConditions: [up], bindingFailureConditions: [broken]}]}}`,
		`pod {metadata: {name: p}, spec: {resourceClaims: [{name: x, resourceClaimName: c}], containers: [{name: m}]}}`,
		`pod {metadata: {name: e}, spec: {containers: [{name: m, resources: {requests: {example.com/gpu: "1"}}}]}}`,
	} {
		r.run(line)
	}
	r.tell()
	return r
}

// tell has the cache know of all that the API has, and of nothing else.
func (r *rig) tell() {
	for key, c := range r.c.claims {
		if r.api.claims[key] == nil {
			r.c.Delete(c)
		}
	}
	for _, c := range r.api.claims {
		r.c.Set(c)
	}
}

func (r *rig) ClaimCreated(ok bool) { r.meter = append(r.meter, fmt.Sprintf("created %v", ok)) }

func (r *rig) Waited(profile, driver, outcome string, conditioned bool, took time.Duration) {
	r.meter = append(r.meter, fmt.Sprintf("%s %s %s %v %s", profile, driver, outcome, conditioned, took))
}

// reserve places a pod on the node n1 with a device.
func (r *rig) reserve(pod, device string) *Work {
	r.t.Helper()
	one := Found{Results: []FoundDevice{{Slice: "s", Device: Device{"d", "n1", device}}}, Chosen: []int{0}}
	var claims []Found
	var extended *FoundExtended
	if pod == "e" {
		extended = &FoundExtended{
			Found: one, Requests: []FoundRequest{{"container-0-request-0", "gpu", 1}},
			Mappings: []FoundMapping{{0, "example.com/gpu", "container-0-request-0"}},
		}
	} else if c := r.c.Claim("default", "c"); c.Status.Allocation == nil {
		claims = []Found{one}
	}
	w, _, err := r.c.Reserve(r.pods[pod], "n1", claims, extended)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

func (r *rig) preBind(w *Work) error {
	return r.binder.PreBind(context.Background(), w, "default-scheduler", 10*time.Minute)
}

// plainClaim is a claim that has no devices.
func plainClaim(name string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{}
	c.Namespace, c.Name, c.UID = "default", name, types.UID(name+"-uid")
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{
		Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
	}}
	return c
}

func wantCalls(t *testing.T, a *api, want string) {
	t.Helper()
	if got := strings.Join(a.calls, ", "); got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func holders(r *rig, device string) string {
	return fmt.Sprint(r.c.Holders(Device{"d", "n1", device}))
}

func TestPreBindWritesFinalizerThenAllocationAndReservation(t *testing.T) {
	a := newAPI(plainClaim("c"))
	r := newRig(t, a)
	w := r.reserve("p", "a")
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, a, "update, status")
	got := status(&a.claims[types.NamespacedName{Namespace: "default", Name: "c"}].Status)
	want := `{"allocation":{"allocationTimestamp":"2026-01-01T00:00:00Z","devices":{"results":[{"device":"a","driver":"d","pool":"n1","request":"r"}]},` +
		`"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]}},` +
		`"reservedFor":[{"name":"p","resource":"pods","uid":"p-uid"}]}`
	if got != want {
		t.Errorf("status %s, want %s", got, want)
	}
	r.changes(r.c.Settle(w))
	if len(r.c.flights) != 0 || holders(r, "a") != "[default/c]" {
		t.Errorf("%d flights, a used by %s", len(r.c.flights), holders(r, "a"))
	}
	if told := r.c.Set(a.claims[types.NamespacedName{Namespace: "default", Name: "c"}]); !told.IsNone() {
		t.Errorf("the echo of what was written changes something: %v", told)
	}
	// Another pod joins: one write.
	a.calls = nil
	r.run(`pod {metadata: {name: q}, spec: {resourceClaims: [{name: x, resourceClaimName: c}]}}`)
	w = r.reserve("q", "")
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, a, "status")
	// The same pod once more: nothing to write.
	a.calls = nil
	r.c.Settle(w)
	if err := r.preBind(r.reserve("q", "")); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, a, "")
}

func TestPreBindOfAnExtendedResource(t *testing.T) {
	a := newAPI()
	r := newRig(t, a)
	w := r.reserve("e", "a")
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, a, "create, update, status, tell pod")
	if got, want := fmt.Sprint(a.pod), `&PodExtendedResourceClaimStatus{RequestMappings:[]ContainerExtendedResourceRequest{ContainerExtendedResourceRequest{ContainerName:m,ResourceName:example.com/gpu,RequestName:container-0-request-0,},},ResourceClaimName:e-extended-resources-0,}`; got != want {
		t.Errorf("the pod is told %s, want %s", got, want)
	}
	if got := strings.Join(r.meter, ", "); got != "created true" {
		t.Errorf("meter %s", got)
	}
	// The API has not told of it yet: the device stays in flight, and goes over once it does.
	r.c.Settle(w)
	if len(r.c.flights) != 1 || holders(r, "a") == "[]" {
		t.Errorf("%d flights, a used by %s", len(r.c.flights), holders(r, "a"))
	}
	r.tell()
	if len(r.c.flights)+len(r.c.landing) != 0 || holders(r, "a") != "[default/e-extended-resources-0]" {
		t.Errorf("%d flights, %d landing, a used by %s", len(r.c.flights), len(r.c.landing), holders(r, "a"))
	}
}

func TestAClaimThatTheAPINeverTellsOfGoesWithItsPod(t *testing.T) {
	r := newRig(t, newAPI())
	w := r.reserve("e", "a")
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	r.c.Settle(w)
	told := r.c.Delete(r.pods["e"])
	if uses := told.Uses(r.c); len(uses) != 1 || uses[0].Dedicated || len(r.c.flights)+len(r.c.landing) != 0 {
		t.Errorf("uses %v, %d flights, %d landing", uses, len(r.c.flights), len(r.c.landing))
	}
}

// TestWhole: where objects are kept whole, a claim takes one write, and the pod is told of it by its bind.
func TestWhole(t *testing.T) {
	c := plainClaim("c")
	a := newAPI(c)
	a.whole = true
	r := newRig(t, a)
	r.binder.cfg.Status = nil
	w := r.reserve("p", "a")
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, a, "update")
	if got := a.claims[keyOf(c)]; !slices.Contains(got.Finalizers, resourcev1.Finalizer) || got.Status.Allocation == nil {
		t.Errorf("finalizers %v, status %v", got.Finalizers, got.Status)
	}
	if got := w.PodStatus(); got != nil {
		t.Errorf("the pod is told of %v, want nothing", got)
	}
	a.calls = nil
	w = r.reserve("e", "b")
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, a, "create, update")
	if got := w.PodStatus(); got == nil || a.claims[types.NamespacedName{Namespace: "default", Name: got.ResourceClaimName}] == nil {
		t.Errorf("the pod is told of %v, want the claim that was made", got)
	}
}

// TestConflicts: others write to the claim, too.
func TestConflicts(t *testing.T) {
	for _, x := range []struct {
		name string
		// meddle changes the API's claim before a call.
		meddle func(call int, c *resourcev1.ResourceClaim) bool
		calls  string
		err    string
	}{
		{
			"a label changes before the first write",
			func(call int, c *resourcev1.ResourceClaim) bool { return call == 1 },
			"update, get, update, status", "",
		},
		{
			"a label changes between both writes",
			func(call int, c *resourcev1.ResourceClaim) bool { return call == 2 },
			"update, status, get, status", "",
		},
		{
			"somebody allocates it",
			func(call int, c *resourcev1.ResourceClaim) bool {
				c.Finalizers = []string{resourcev1.Finalizer}
				c.Status.Allocation = &resourcev1.AllocationResult{}
				return call == 2
			},
			"update, status, get", "claim default/c got allocated elsewhere in the meantime",
		},
		{
			"somebody deletes it",
			func(call int, c *resourcev1.ResourceClaim) bool {
				now := v1Now()
				c.DeletionTimestamp = &now
				return call == 1
			},
			"update, get", "claim default/c got deleted in the meantime",
		},
		{
			"it changes all the time",
			func(call int, c *resourcev1.ResourceClaim) bool { return true },
			"update, get, update, get, update, get, update, get, update",
			`add finalizer to claim default/c: Operation cannot be fulfilled on resourceclaims.resource.k8s.io "c": another version`,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := newAPI(plainClaim("c"))
			r := newRig(t, a)
			w := r.reserve("p", "a")
			a.before = func(call int) error {
				c := a.claims[types.NamespacedName{Namespace: "default", Name: "c"}].DeepCopy()
				if a.calls[call-1] != "get" && x.meddle(call, c) {
					a.put(c)
				}
				return nil
			}
			if err := r.preBind(w); x.err == "" && err != nil {
				t.Error(err)
			} else if x.err != "" {
				wantError(t, err, x.err)
			}
			wantCalls(t, a, x.calls)
		})
	}
}

func TestAClaimThatLosesItsDevicesBeforeThePodIsReserved(t *testing.T) {
	c := plainClaim("c")
	c.Finalizers = []string{resourcev1.Finalizer}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	a := newAPI(c)
	r := newRig(t, a)
	w := r.reserve("p", "")
	now := a.claims[keyOf(c)].DeepCopy()
	now.Status.Allocation = nil
	a.put(now)
	wantError(t, r.preBind(w), "claim default/c got deallocated elsewhere in the meantime")
	wantCalls(t, a, "status, get")
}

// TestAClaimOfTheNameThatIsAnother: one that is deleted and made again gets nothing of what was found for the one before.
func TestAClaimOfTheNameThatIsAnother(t *testing.T) {
	c := plainClaim("c")
	a := newAPI(c)
	r := newRig(t, a)
	w := r.reserve("p", "a")
	another := c.DeepCopy()
	another.UID = "another"
	a.put(another)
	a.before = func(call int) error { // as the API server, which finds the uid of a write to be another
		if call == 1 {
			return apierrors.NewConflict(claimsResource, "c", errors.New("precondition failed"))
		}
		return nil
	}
	wantError(t, r.preBind(w), "claim default/c got deleted in the meantime")
	wantCalls(t, a, "update, get")
	r.binder.Undo(context.Background(), w)
	if r.c.Unreserve(w); holders(r, "a") != "[]" || a.claims[keyOf(c)].Status.Allocation != nil {
		t.Errorf("a used by %s, the claim has %v", holders(r, "a"), a.claims[keyOf(c)].Status.Allocation)
	}
}

// TestAClaimThatGetsOtherDevices: a pod that was placed where its claim had devices is not bound once these are others.
func TestAClaimThatGetsOtherDevices(t *testing.T) {
	c := plainClaim("c")
	c.Finalizers = []string{resourcev1.Finalizer}
	had := func(device string) *resourcev1.AllocationResult {
		out := &resourcev1.AllocationResult{}
		out.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "n1", Device: device}}
		return out
	}
	c.Status.Allocation = had("a")
	a := newAPI(c)
	r := newRig(t, a)
	w := r.reserve("p", "")
	now := a.claims[keyOf(c)].DeepCopy()
	at := v1Now()
	now.Status.Allocation.AllocationTimestamp = &at // another pod has reserved the claim, which changes no device
	a.put(now)
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	r.run(`pod {metadata: {name: q}, spec: {resourceClaims: [{name: x, resourceClaimName: c}]}}`)
	w, a.calls = r.reserve("q", ""), nil
	now = a.claims[keyOf(c)].DeepCopy()
	now.Status.Allocation = had("b")
	now.Status.Allocation.AllocationTimestamp = &at
	a.put(now)
	wantError(t, r.preBind(w), "claim default/c got allocated elsewhere in the meantime")
	wantCalls(t, a, "status, get")
}

// TestUndo: what a pod's attempt has written, when the pod is not bound after all.
func TestUndo(t *testing.T) {
	a := newAPI(plainClaim("c"))
	r := newRig(t, a)
	w := r.reserve("p", "a")
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	a.calls = nil
	r.binder.Undo(context.Background(), w)
	wantCalls(t, a, "unreserve")
	told := r.c.Unreserve(w)
	if n := len(told.Claims); n != 1 || holders(r, "a") != "[default/c]" || len(r.c.flights) != 0 {
		t.Errorf("%d events, a used by %s, %d flights: the allocation stays", n, holders(r, "a"), len(r.c.flights))
	}
	// The claim for extended resources goes.
	w = r.reserve("e", "b")
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	a.calls = nil
	r.binder.Undo(context.Background(), w)
	wantCalls(t, a, "update, delete")
	told = r.c.Unreserve(w)
	if holders(r, "b") != "[]" || len(r.c.flights) != 0 || len(told.Claims) != 1 {
		t.Errorf("b used by %s, %d flights, %d events", holders(r, "b"), len(r.c.flights), len(told.Claims))
	}
}

// TestOutcomeNotKnown: a write ends in an error, and has come to pass.
func TestOutcomeNotKnown(t *testing.T) {
	for _, x := range []struct {
		name string
		err  error
		uses string
	}{
		{"no answer", errors.New("connection lost"), "[default/c]"},
		{"an error of the server", apierrors.NewInternalError(errors.New("etcd")), "[default/c]"},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := newAPI(plainClaim("c"))
			r := newRig(t, a)
			w := r.reserve("p", "a")
			a.after = func(call int) error {
				if call == 2 {
					return x.err
				}
				return nil
			}
			if err := r.preBind(w); err == nil {
				t.Fatal("no error")
			}
			r.binder.Undo(context.Background(), w)
			wantCalls(t, a, "update, status, get, unreserve")
			r.c.Unreserve(w)
			if got := holders(r, "a"); got != x.uses {
				t.Errorf("a used by %s, want %s", got, x.uses)
			}
		})
	}
	// A write that was refused has not come to pass.
	a := newAPI(plainClaim("c"))
	r := newRig(t, a)
	w := r.reserve("p", "a")
	a.before = func(call int) error {
		if call == 2 {
			return apierrors.NewForbidden(claimsResource, "c", errors.New("no"))
		}
		return nil
	}
	wantError(t, r.preBind(w), `add allocation and reservation to claim default/c: resourceclaims.resource.k8s.io "c" is forbidden: no`)
	r.binder.Undo(context.Background(), w)
	wantCalls(t, a, "update, status")
	if r.c.Unreserve(w); holders(r, "a") != "[]" {
		t.Errorf("a used by %s", holders(r, "a"))
	}
}

// TestTakeOver kills the scheduler before and after each write: the next one comes to the end, and nothing is left over.
func TestTakeOver(t *testing.T) {
	for _, pod := range []string{"p", "e"} {
		for call := 1; call <= 4; call++ {
			for _, effect := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, call %d, effect %v", pod, call, effect), func(t *testing.T) {
					takeOver(t, pod, call, effect)
				})
			}
		}
	}
}

func takeOver(t *testing.T, pod string, call int, effect bool) {
	a := newAPI(plainClaim("c"))
	killed := func(n int) error {
		if n == call {
			return errors.New("killed")
		}
		return nil
	}
	if effect {
		a.after = killed
	} else {
		a.before = killed
	}
	r := newRig(t, a)
	_ = r.preBind(r.reserve(pod, "a"))
	a.before, a.after = nil, nil

	next := newRig(t, a)
	if got := next.c.Claims(next.pods[pod], time.Minute); got.Query.GetExtended().GetStale() {
		if err := next.binder.CarryOut(context.Background(), next.c.Plan(next.pods[pod], nil)); err != nil {
			t.Fatal(err)
		}
		next.tell()
	}
	w := next.reserve(pod, "a")
	if err := next.preBind(w); err != nil {
		t.Fatal(err)
	}
	next.c.Settle(w)
	next.tell()
	if got := len(next.c.Holders(Device{"d", "n1", "a"})); got != 1 || len(next.c.flights) != 0 {
		t.Errorf("a used by %d claims, %d flights", got, len(next.c.flights))
	}
	want := 1
	if pod == "e" {
		want = 2
	}
	if len(a.claims) != want {
		t.Errorf("%d claims, want %d", len(a.claims), want)
	}
}

// TestWait: devices that have to become ready.
func TestWait(t *testing.T) {
	for _, x := range []struct {
		name string
		// happens is what happens while PreBind waits: the API tells of a claim, time passes.
		happens func(r *rig, c *resourcev1.ResourceClaim)
		err     string
		outcome string
	}{
		{"they do", func(r *rig, c *resourcev1.ResourceClaim) { r.condition(c, "up") }, "", "success"},
		{
			"they fail", func(r *rig, c *resourcev1.ResourceClaim) { r.condition(c, "broken") },
			`device binding failed: claim=c, reason=why, message="so"`, "failure",
		},
		{
			"it takes too long", func(r *rig, c *resourcev1.ResourceClaim) { r.now = start.Add(time.Hour) },
			"device binding timeout: claim=c", "timeout",
		},
		{
			"the claim goes", func(r *rig, c *resourcev1.ResourceClaim) { r.c.Delete(c) },
			`could not find ResourceClaim "default/c"`, "error",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := newAPI(plainClaim("c"))
			r := newRig(t, a)
			w := r.reserve("p", "slow")
			r.after = func(d time.Duration) <-chan time.Time {
				ch := make(chan time.Time, 1)
				if d == checkPeriod {
					c := a.claims[types.NamespacedName{Namespace: "default", Name: "c"}].DeepCopy()
					r.c.Set(c)
					x.happens(r, c)
					ch <- r.now
				}
				return ch
			}
			if err := r.preBind(w); x.err == "" && err != nil {
				t.Error(err)
			} else if x.err != "" {
				wantError(t, err, x.err)
			}
			if got, want := strings.Join(r.meter, ", "), "default-scheduler d "+x.outcome+" true "+r.now.Sub(start).String(); got != want {
				t.Errorf("meter %q, want %q", got, want)
			}
			if got := strings.Join(r.pending, ", "); got != "p on n1" {
				t.Errorf("events %q", got)
			}
			r.c.Unreserve(w)
			if len(r.c.apiView.watched) != 0 {
				t.Errorf("%d claims left on the API view", len(r.c.apiView.watched))
			}
		})
	}
}

// condition has the API tell of a condition of a claim's only device.
func (r *rig) condition(c *resourcev1.ResourceClaim, name string) {
	c = c.DeepCopy()
	of := c.Status.Allocation.Devices.Results[0]
	c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: of.Driver, Pool: of.Pool, Device: of.Device, Conditions: conditionTrue(name)}}
	r.c.Set(r.api.put(c))
}

func TestWaitEnds(t *testing.T) {
	r := newRig(t, newAPI(plainClaim("c")))
	w := r.reserve("p", "slow")
	r.after = func(d time.Duration) <-chan time.Time {
		ch := make(chan time.Time, 1)
		if d == 10*time.Minute {
			ch <- start
		}
		return ch
	}
	wantError(t, r.preBind(w), "device binding timeout: context deadline exceeded")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("called off"))
	r = newRig(t, newAPI(plainClaim("c")))
	wantError(t, r.binder.PreBind(ctx, r.reserve("p", "slow"), "default-scheduler", time.Minute), "called off")
}

// Pods that share a claim, decided together, write it in turn: none is in conflict.
func TestPodsThatShareAClaimWriteItInTurn(t *testing.T) {
	const sharers = 3 * tries
	a := newAPI(plainClaim("c"))
	r := newRig(t, a)
	w := r.reserve("p", "a")
	if err := r.preBind(w); err != nil {
		t.Fatal(err)
	}
	r.changes(r.c.Settle(w))
	a.calls = nil
	var works []*Work
	for i := range sharers {
		r.run(fmt.Sprintf(`pod {metadata: {name: q%d}, spec: {resourceClaims: [{name: x, resourceClaimName: c}]}}`, i))
		works = append(works, r.reserve(fmt.Sprintf("q%d", i), ""))
	}
	a.before = func(call int) error {
		for call == 1 && r.binder.inLine("c-uid") < sharers {
			runtime.Gosched()
		}
		return nil
	}
	var all sync.WaitGroup
	for _, w := range works {
		all.Go(func() {
			if err := r.preBind(w); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantCalls(t, a, strings.TrimSuffix(strings.Repeat("status, ", sharers), ", "))
	if n := len(a.claims[types.NamespacedName{Namespace: "default", Name: "c"}].Status.ReservedFor); n != sharers+1 {
		t.Errorf("reserved for %d, want %d", n, sharers+1)
	}
	if len(r.binder.lines.of) != 0 {
		t.Errorf("%d lines are left", len(r.binder.lines.of))
	}
}

// inLine is how many write a claim or wait to.
func (b *Binder) inLine(claim types.UID) int {
	b.lines.mu.Lock()
	defer b.lines.mu.Unlock()
	return b.lines.of[claim].n
}

func TestWhoWaitsInLineIsCalledOff(t *testing.T) {
	l := newLines()
	at, err := l.enter(context.Background(), "c-uid")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("called off"))
	_, err = l.enter(ctx, "c-uid")
	wantError(t, err, "called off")
	l.leave(at)
	if len(l.of) != 0 {
		t.Errorf("%d lines are left", len(l.of))
	}
}
