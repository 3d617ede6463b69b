package hints

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

var (
	seed  = flag.Uint64("hints.seed", 1, "seed of the random changes")
	count = flag.Int("hints.count", 5000, "number of random changes")
)

// added and defaults are what the second of the two profiles has.
var (
	added = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"1"}}},
	}}}
	defaults = []v1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule},
		{MaxSkew: 1, TopologyKey: "other", WhenUnsatisfiable: v1.ScheduleAnyway},
	}
)

// profiles is what our hints are told of the second profile.
type profiles struct {
	added    *nodeaffinity.NodeSelector
	upstream *upstream
}

func (p *profiles) AddedAffinity(*v1.Pod) *nodeaffinity.NodeSelector { return p.added }

func (p *profiles) Preempting(*v1.Pod) bool        { return false }
func (p *profiles) HoldsBack(*v1.Pod, string) bool { return true }

func (p *profiles) Allocatable(string) (*pb.Resources, bool) { return nil, false }

func (p *profiles) Room(*v1.Pod, *pb.Resources, string) (int64, bool) { return 0, false }

func (p *profiles) DefaultConstraints(pod *v1.Pod) []queue.Constraint {
	core, apps := p.upstream.informers.Core().V1(), p.upstream.informers.Apps().V1()
	s := helper.DefaultSelector(pod, core.Services().Lister(), core.ReplicationControllers().Lister(), apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
	if s.Empty() {
		return nil
	}
	return []queue.Constraint{{TopologyKey: "zone", Selector: s}}
}

// TestDefaultProfile holds the hints against those of upstream's default profile.
func TestDefaultProfile(t *testing.T) {
	hold(t, newUpstream(t, func(*config.KubeSchedulerProfile) {}), nil)
}

// TestOwnProfile does so with an addedAffinity and hard default constraints.
func TestOwnProfile(t *testing.T) {
	u := newUpstream(t, func(p *config.KubeSchedulerProfile) {
		for i := range p.PluginConfig {
			switch args := p.PluginConfig[i].Args.(type) {
			case *config.NodeAffinityArgs:
				args.AddedAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: added}
			case *config.PodTopologySpreadArgs:
				args.DefaultingType, args.DefaultConstraints = config.ListDefaulting, defaults
			}
		}
	})
	for _, selector := range []labels.Set{{"app": "a"}, {"tier": "b"}, {"app": "b", "tier": "a"}} {
		service := &v1.Service{Spec: v1.ServiceSpec{Selector: selector}}
		service.Namespace, service.Name = "x", selector.String()
		if err := u.informers.Core().V1().Services().Informer().GetStore().Add(service); err != nil {
			t.Fatal(err)
		}
	}
	s, err := nodeaffinity.NewNodeSelector(added)
	if err != nil {
		t.Fatal(err)
	}
	hold(t, u, &profiles{s, u})
}

// TestSchedulingGates holds that a gated pod is let in by those of its own changes that
// upstream waits for.
func TestSchedulingGates(t *testing.T) {
	u := newUpstream(t, func(*config.KubeSchedulerProfile) {})
	r := random{rand.New(rand.NewPCG(*seed, 1))}
	gates := func(p *v1.Pod, names ...string) {
		p.Spec.SchedulingGates = nil
		for _, name := range names {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: name})
		}
	}
	for i := range 500 {
		old := r.pod("waiting")
		now := old.DeepCopy()
		r.changePod(now)
		gates(old, "a", "b")
		gates(now, oneOf(r, nil, []string{"a"}, []string{"a", "b"})...)
		q := queue.New(queue.Config{Plugins: rules.QueuePlugins(nil)})
		q.Add(old)
		q.Update(now)
		got := q.Len(queue.Gated) == 0
		want := slices.ContainsFunc(framework.PodSchedulingPropertiesChange(now, old), func(e fwk.ClusterEvent) bool {
			return u.helps("SchedulingGates", now, change{e, old, now})
		})
		if got != want {
			t.Fatalf("seed %d, change %d: got let in %t, want %t, from\n%s\nto\n%s", *seed, i, got, want, text(old), text(now))
		}
	}
}

// trial is a random change as both sides see it.
type trial struct {
	theirs []change
	ours   []queue.Event
	// own is the waiting pod's new object, where it is the pod that changes.
	own *v1.Pod
}

func hold(t *testing.T, u *upstream, p queue.Profiles) {
	r := random{rand.New(rand.NewPCG(*seed, 0))}
	var names []string
	for _, plugin := range rules.QueuePlugins(p) {
		if rules.Find(plugin.Name).Ours {
			continue // it is ours
		}
		if len(u.events[plugin.Name]) == 0 {
			t.Fatalf("plugin %s: upstream waits for nothing", plugin.Name)
		}
		if plugin.Name == rules.DynamicResources || plugin.Name == rules.GangScheduling {
			continue // TestDevices has the one; the other is asked of pod groups, not of pods: the family groups of conformance has it
		}
		if plugin.PreEnqueue == nil { // those that reject nodes
			names = append(names, plugin.Name)
		}
	}
	helped := map[string]int{}
	for i := range *count {
		pod := r.pod("waiting")
		if p != nil && r.chance(50) {
			pod.Spec.TopologySpreadConstraints = nil // the default ones are for it
		}
		c := r.trial(pod)
		for _, name := range names {
			want := slices.ContainsFunc(c.theirs, func(x change) bool {
				waiting := pod
				if c.own != nil {
					waiting = c.own // as upstream, which updates the pod first
				}
				return u.helps(name, waiting, x)
			})
			if got := ours(p, name, pod, c); got != want {
				t.Fatalf("seed %d, change %d: %s rejected the pod\n%s\nand the change is\n%s\ngot helped %t, want %t", *seed, i, name, text(pod), text(c.theirs), got, want)
			}
			if want {
				helped[name]++
			}
		}
		sameNames(t, c)
	}
	for _, name := range names {
		if name == preempting {
			if helped[name] > 0 {
				t.Errorf("plugin %s: helped by %d changes, want none: it has rejected nobody for itself", name, helped[name])
			}
			continue
		}
		if helped[name] == 0 || helped[name] == *count {
			t.Errorf("plugin %s: helped by %d of %d changes, want some and not all", name, helped[name], *count)
		}
	}
	t.Logf("of %d changes: %v", *count, helped)
}

// preempting is the plugin whose rejections no change ends: those that it made room for wait for it,
// and by the other plugins' rejections.
const preempting = "DefaultPreemption"

// ours tells whether a change takes a pod out of where a plugin's rejection put it.
func ours(p queue.Profiles, plugin string, pod *v1.Pod, c trial) bool {
	now := time.Unix(1e9, 0)
	q := queue.New(queue.Config{Now: func() time.Time { return now }, Profiles: p, Plugins: rules.QueuePlugins(p)})
	q.Add(pod)
	popped := q.PopBatch(1, nil)[0]
	q.Unschedulable(popped, []string{plugin}, "no")
	now = now.Add(time.Minute)
	if c.own != nil {
		q.Update(c.own)
	}
	for _, e := range c.ours {
		q.Move(e)
	}
	return popped.Place() != queue.Unschedulable
}

// sameNames compares the names of the events.
func sameNames(t *testing.T, c trial) {
	t.Helper()
	if c.own != nil {
		return // the queue makes those itself
	}
	var got, want []string
	for i := range c.ours {
		got = append(got, c.ours[i].String())
	}
	for i := range c.theirs {
		want = append(want, c.theirs[i].event.Label())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("events: got %v, want %v, of\n%s", got, want, text(c.theirs))
	}
}

func text(x any) string {
	if list, ok := x.([]change); ok {
		var out string
		for _, c := range list {
			out += c.event.Label() + "\n old " + text(c.old) + "\n now " + text(c.now) + "\n"
		}
		return out
	}
	b, err := json.Marshal(x)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// trial draws a change.
func (r random) trial(waiting *v1.Pod) trial {
	switch k := r.IntN(20); {
	case k < 5:
		return r.nodeTrial()
	case k < 11:
		return r.podTrial()
	case k < 14:
		now := waiting.DeepCopy()
		for range 1 + r.IntN(2) {
			r.changePod(now)
		}
		return trial{own: now, theirs: changes(framework.PodSchedulingPropertiesChange(now, waiting), waiting, now)}
	}
	return r.storageTrial()
}

func changes(events []fwk.ClusterEvent, old, now any) []change {
	var out []change
	for _, e := range events {
		out = append(out, change{e, old, now})
	}
	return out
}

func (r random) nodeTrial() trial {
	n := r.node("n")
	switch r.IntN(4) {
	case 0:
		return trial{ours: []queue.Event{queue.NodeAdded(n)}, theirs: []change{{event(fwk.Node, fwk.Add), nil, n}}}
	case 1:
		return trial{ours: []queue.Event{queue.NodeDeleted(n)}, theirs: []change{{event(fwk.Node, fwk.Delete), n, nil}}}
	}
	now := n.DeepCopy()
	for range 1 + r.IntN(3) {
		r.changeNode(now)
	}
	return trial{ours: queue.NodeUpdated(n, now), theirs: changes(framework.NodeSchedulingPropertiesChange(now, n), n, now)}
}

func (r random) podTrial() trial {
	p := r.pod("other")
	p.Spec.NodeName = "n"
	switch r.IntN(5) {
	case 0:
		return trial{ours: []queue.Event{queue.AssignedPodAdded(p)}, theirs: []change{{framework.EventAssignedPodAdd, nil, p}}}
	case 1, 2:
		return trial{ours: []queue.Event{queue.AssignedPodDeleted(p)}, theirs: []change{{framework.EventAssignedPodDelete, p, nil}}}
	case 3: // a nomination that ends
		p.Spec.NodeName, p.Status.NominatedNodeName = "", "n"
		return trial{ours: queue.NominationEnded(p, nil), theirs: []change{{framework.EventAssignedPodDelete, p, nil}}}
	}
	now := p.DeepCopy()
	for range 1 + r.IntN(3) {
		r.changePod(now)
	}
	return trial{ours: queue.AssignedPodUpdated(p, now), theirs: changes(framework.PodSchedulingPropertiesChange(now, p), p, now)}
}

func event(r fwk.EventResource, a fwk.ActionType) fwk.ClusterEvent {
	return fwk.ClusterEvent{Resource: r, ActionType: a}
}

func (r random) storageTrial() trial {
	switch r.IntN(7) {
	case 0, 1:
		return object(r, fwk.PersistentVolumeClaim, r.claim, queue.ClaimAdded, queue.ClaimUpdated)
	case 2:
		return object(r, fwk.PersistentVolume, r.persistentVolume, queue.VolumeAdded, queue.VolumeUpdated)
	case 3:
		return object(r, fwk.StorageClass, r.storageClass, queue.StorageClassAdded, queue.StorageClassUpdated)
	case 4:
		return object(r, fwk.CSINode, r.csiNode, queue.CSINodeAdded, queue.CSINodeUpdated)
	case 5:
		if r.chance(50) {
			old, now := r.csiDriver(), r.csiDriver()
			now.Name = old.Name
			return trial{ours: []queue.Event{queue.CSIDriverUpdated(old, now)}, theirs: []change{{event(fwk.CSIDriver, fwk.Update), old, now}}}
		}
		a := r.attachment()
		return trial{ours: []queue.Event{queue.VolumeAttachmentDeleted(a)}, theirs: []change{{event(fwk.VolumeAttachment, fwk.Delete), a, nil}}}
	}
	return object(r, fwk.CSIStorageCapacity, r.capacity, queue.CSIStorageCapacityAdded, queue.CSIStorageCapacityUpdated)
}

// object draws a new object, or a change of one.
func object[T any](r random, kind fwk.EventResource, draw func() T, added func(T) queue.Event, updated func(old, now T) queue.Event) trial {
	now := draw()
	if r.chance(40) {
		return trial{ours: []queue.Event{added(now)}, theirs: []change{{event(kind, fwk.Add), nil, now}}}
	}
	old := draw()
	if c, ok := any(old).(*v1.PersistentVolumeClaim); ok {
		n := any(now).(*v1.PersistentVolumeClaim)
		c.Name, c.Namespace = n.Name, n.Namespace
	}
	return trial{ours: []queue.Event{updated(old, now)}, theirs: []change{{event(kind, fwk.Update), old, now}}}
}
