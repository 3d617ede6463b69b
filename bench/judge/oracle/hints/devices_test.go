package hints

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// world is claims and classes of devices, as upstream's plugins and our hints know of them.
type world struct {
	random
	upstream *oracle.Oracle
	devices  *devices.Cache
	claims   map[string]*resourcev1.ResourceClaim
	classes  map[string]*resourcev1.DeviceClass
	version  int
}

func (w *world) Claims() queue.Claims                            { return w.devices }
func (*world) AddedAffinity(*v1.Pod) *nodeaffinity.NodeSelector  { return nil }
func (*world) DefaultConstraints(*v1.Pod) []queue.Constraint     { return nil }
func (*world) HoldsBack(*v1.Pod, string) bool                    { return true }
func (*world) Preempting(*v1.Pod) bool                           { return false }
func (*world) Allocatable(string) (*pb.Resources, bool)          { return nil, false }
func (*world) Room(*v1.Pod, *pb.Resources, string) (int64, bool) { return 0, false }
func (w *world) set(obj oracle.Object) error                     { return w.upstream.Set(obj) }

// claimEvents are the events of a claim that counts another way.
func claimEvents(c devices.ClaimChange) (out []queue.Event) {
	switch {
	case c.Now == nil:
		return nil
	case c.Old == nil:
		return []queue.Event{queue.ResourceClaimAdded(c.Now)}
	}
	return []queue.Event{queue.ResourceClaimUpdated(c.Old, c.Now)}
}

// TestDevices holds the hints for claims, classes and slices against those of upstream's DynamicResources and
// NodeResourcesFit, in a world that goes on changing: for pods that a plugin has rejected, and for those that are held back.
func TestDevices(t *testing.T) {
	config, err := oracle.DefaultConfig()
	if err != nil {
		t.Fatal(err)
	}
	up, err := oracle.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		random: random{rand.New(rand.NewPCG(*seed, 7))}, upstream: up, devices: devices.New(devices.Config{}),
		claims: map[string]*resourcev1.ResourceClaim{}, classes: map[string]*resourcev1.DeviceClass{},
	}
	u := &upstream{events: map[string][]fwk.ClusterEventWithHint{}}
	for _, name := range []string{rules.DynamicResources, rules.NodeResourcesFit} {
		if u.events[name], err = up.Plugin(w.waiting("any"), name).(fwk.EnqueueExtensions).EventsToRegister(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	helped, waited, let := map[string]int{}, 0, 0
	for i := range *count {
		now := time.Unix(1e9, 0)
		q := queue.New(queue.Config{Now: func() time.Time { return now }, Profiles: w, Plugins: rules.QueuePlugins(w)})
		pods := []*v1.Pod{w.waiting("waiting"), w.waiting("second"), w.waiting("third")}[:1+w.IntN(3)]
		rejector := map[types.UID]string{}
		for _, pod := range pods {
			held := up.Gated(t.Context(), pod)
			if got := w.devices.Problem(pod); got != held {
				t.Fatalf("seed %d, change %d: pod %s is held back by %q, want %q", *seed, i, text(pod), got, held)
			}
			if q.Add(pod); held != "" {
				waited++
			}
		}
		for _, popped := range q.PopBatch(len(pods), nil) {
			name := oneOf(w.random, rules.DynamicResources, rules.NodeResourcesFit)
			rejector[popped.Obj.UID] = name
			q.Unschedulable(popped, []string{name}, "no")
		}
		now = now.Add(time.Minute)
		if w.chance(30) {
			w.change(t)
		}
		c := w.draw(t, pods[0])
		if c.own != nil {
			pods[0] = c.own
			q.Update(c.own)
		}
		for _, e := range c.ours {
			q.Move(e)
		}
		for k, pod := range pods {
			name := rejector[pod.UID]
			rejected := name != ""
			helps := func(x change) bool {
				return (c.own == nil || k == 0) && u.helps(cmp.Or(name, rules.DynamicResources), pod, x)
			}
			want := slices.ContainsFunc(c.theirs, helps) && (rejected || up.Gated(t.Context(), pod) == "")
			place := q.Get(pod.UID).Place()
			if got := place != queue.Unschedulable && (rejected || place != queue.Gated); got != want {
				t.Fatalf("seed %d, change %d: %s rejected the pod\n%s\nand the change is\n%s\ngot helped %t, want %t",
					*seed, i, cmp.Or(name, "PreEnqueue"), text(pod), text(c.theirs), got, want)
			}
			switch {
			case want && rejected:
				helped[name]++
			case want:
				let++
			}
		}
		sameNames(t, c)
	}
	for _, name := range []string{rules.DynamicResources, rules.NodeResourcesFit} {
		if helped[name] < *count/30 || helped[name] > *count {
			t.Errorf("plugin %s: helped by %d of %d changes, want some and not all", name, helped[name], *count)
		}
	}
	if waited < *count/20 || waited > *count*3/2 || let < *count/300 || let > waited/2 {
		t.Errorf("of %d changes, with up to three pods each: %d pods held back, and %d of them let in, want some and not all", *count, waited, let)
	}
	t.Logf("of %d changes: %v, %d pods held back, %d of them let in", *count, helped, waited, let)
}

// waiting is a pod with claims and extended resources.
func (w *world) waiting(name string) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = name, oneOf(w.random, "x", "y"), types.UID(name)
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}}}}
	for _, name := range []v1.ResourceName{"example.com/gpu", v1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "gpu"), "cpu"} {
		if w.chance(40) {
			p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(oneOf(w.random, "1", "2"))
		}
	}
	for i := range w.IntN(3) {
		e := v1.PodResourceClaim{Name: fmt.Sprint("entry", i)}
		if w.chance(50) {
			e.ResourceClaimName = ptr(oneOf(w.random, "c", "d", "e"))
		} else {
			e.ResourceClaimTemplateName = ptr("template")
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, e)
	}
	w.generate(p)
	return p
}

// generate gives a pod's templates claims, or not.
func (w *world) generate(p *v1.Pod) {
	p.Status.ResourceClaimStatuses, p.Status.ExtendedResourceClaimStatus = nil, nil
	if w.chance(20) {
		p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: oneOf(w.random, "a", "b")}
	}
	for _, e := range p.Spec.ResourceClaims {
		if e.ResourceClaimTemplateName == nil || w.chance(10) {
			continue
		}
		s := v1.PodResourceClaimStatus{Name: e.Name, ResourceClaimName: ptr(oneOf(w.random, "own", "own", "c"))}
		if w.chance(10) {
			s.ResourceClaimName = nil
		}
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, s)
	}
}

// draw draws a change, and has it happen.
func (w *world) draw(t *testing.T, waiting *v1.Pod) trial {
	switch w.IntN(8) {
	case 0:
		now := waiting.DeepCopy()
		if w.chance(70) {
			w.generate(now)
		}
		if w.chance(50) {
			now.Labels = w.labels()
		}
		return trial{own: now, theirs: changes(framework.PodSchedulingPropertiesChange(now, waiting), waiting, now)}
	case 1:
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{Driver: "d", AllNodes: ptr(true)}}
		if w.chance(50) {
			return trial{ours: queue.Changes(nil, s), theirs: []change{{event(fwk.ResourceSlice, fwk.Add), nil, s}}}
		}
		return trial{ours: queue.Changes(s, s), theirs: []change{{event(fwk.ResourceSlice, fwk.Update), s, s}}}
	case 2, 3:
		return w.nodeTrial()
	case 4:
		return w.podTrial()
	}
	return w.change(t)
}

// change changes a claim or a class.
func (w *world) change(t *testing.T) (c trial) {
	w.version++
	if w.chance(30) {
		return w.changeClass(t)
	}
	key := oneOf(w.random, "x", "y") + "/" + oneOf(w.random, "c", "d", "e", "own")
	old := w.claims[key]
	if old != nil && w.chance(10) {
		delete(w.claims, key)
		w.devices.Delete(old)
		if err := w.upstream.Remove(old); err != nil {
			t.Fatal(err)
		}
		return trial{}
	}
	now := w.claimLike(old, key)
	if old != nil && w.chance(5) {
		now.UID += "'" // it was deleted, and made again, unseen
	}
	w.claims[key] = now
	if err := w.set(now); err != nil {
		t.Fatal(err)
	}
	told := w.devices.Set(now)
	for _, x := range told.Claims {
		c.ours = append(c.ours, claimEvents(x)...)
	}
	if old == nil {
		c.theirs = []change{{event(fwk.ResourceClaim, fwk.Add), nil, now}}
	} else {
		c.theirs = []change{{event(fwk.ResourceClaim, fwk.Update), old, now}}
	}
	return c
}

// claimLike is a claim's next state; old is nil where it is new.
func (w *world) claimLike(old *resourcev1.ResourceClaim, key string) *resourcev1.ResourceClaim {
	now := &resourcev1.ResourceClaim{}
	if old != nil {
		now = old.DeepCopy()
	} else {
		now.Namespace, now.Name, now.UID = key[:1], key[2:], types.UID(key)
		if now.Name == "own" && w.chance(90) {
			now.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "waiting", UID: "waiting", Controller: ptr(true)}}
		}
	}
	now.ResourceVersion = strconv.Itoa(w.version)
	switch w.IntN(7) {
	case 0, 1:
		now.Status.Allocation = nil
	case 2, 3:
		now.Status.Allocation = &resourcev1.AllocationResult{}
	case 4:
		now.Status.ReservedFor = nil
		if w.chance(50) {
			now.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "other", UID: "other"}}
		}
	case 5:
		now.Labels = map[string]string{"any": oneOf(w.random, "a", "b")}
	case 6:
		if now.DeletionTimestamp = nil; w.chance(20) {
			now.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
		}
	}
	return now
}

func (w *world) changeClass(t *testing.T) trial {
	name := oneOf(w.random, "gpu", "nic")
	old := w.classes[name]
	if old != nil && w.chance(20) {
		delete(w.classes, name)
		w.devices.Delete(old)
		if err := w.upstream.Remove(old); err != nil {
			t.Fatal(err)
		}
		return trial{}
	}
	now := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Time{Time: time.Unix(1e9+w.Int64N(2), 0)}}}
	if w.chance(50) {
		now.Spec.ExtendedResourceName = ptr(oneOf(w.random, "example.com/gpu", "example.com/other"))
	}
	w.classes[name] = now
	if err := w.set(now); err != nil {
		t.Fatal(err)
	}
	w.devices.Set(now)
	if old == nil {
		return trial{ours: queue.Changes(nil, now), theirs: []change{{event(fwk.DeviceClass, fwk.Add), nil, now}}}
	}
	return trial{ours: queue.Changes(old, now), theirs: []change{{event(fwk.DeviceClass, fwk.Update), old, now}}}
}
