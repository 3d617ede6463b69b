package queue

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TestPluginsWaitForTheEventsOfUpstream is the table of upstream-1.36.md, 4.5: what each
// plugin registers for, with the change of taints that registering for new nodes implies.
func TestPluginsWaitForTheEventsOfUpstream(t *testing.T) {
	const anyUpdate = "UpdatePodLabel UpdatePodScaleDown UpdatePodSchedulingGatesEliminated UpdatePodToleration UpdatePodGeneratedResourceClaim Update"
	want := map[string]map[string]string{
		"SchedulingGates":   {"UnschedulablePod": "UpdatePodSchedulingGatesEliminated"},
		"NodeUnschedulable": {"Node": "Add UpdateNodeTaint", "Pod": "UpdatePodToleration"},
		"NodeName":          {"Node": "Add UpdateNodeTaint"},
		"TaintToleration":   {"Node": "Add UpdateNodeTaint", "Pod": "UpdatePodToleration"},
		"NodeAffinity":      {"Node": "Add UpdateNodeLabel UpdateNodeTaint"},
		"NodePorts":         {"Node": "Add UpdateNodeTaint", "Pod": "Delete"},
		"NodeResourcesFit": {
			"Node": "Add UpdateNodeAllocatable UpdateNodeTaint", "Pod": "Delete UpdatePodScaleDown",
			"resource.k8s.io/DeviceClass": "Add Update",
		},
		"VolumeRestrictions": {
			"Pod": "Delete", "Node": "Add UpdateNodeTaint", "PersistentVolumeClaim": "Add",
		},
		"NodeVolumeLimits": {
			"storage.k8s.io/CSINode": "Add Update", "Pod": "Delete", "PersistentVolumeClaim": "Add",
			"storage.k8s.io/VolumeAttachment": "Delete",
		},
		"VolumeBinding": {
			"storage.k8s.io/StorageClass": "Add Update", "PersistentVolumeClaim": "Add Update", "PersistentVolume": "Add Update",
			"Node": "Add UpdateNodeLabel UpdateNodeTaint", "storage.k8s.io/CSINode": "Add Update",
			"storage.k8s.io/CSIDriver": "Update", "storage.k8s.io/CSIStorageCapacity": "Add Update",
		},
		"VolumeZone": {
			"storage.k8s.io/StorageClass": "Add", "Node": "Add UpdateNodeLabel UpdateNodeTaint",
			"PersistentVolumeClaim": "Add Update", "PersistentVolume": "Add Update",
		},
		"PodTopologySpread": {
			"Pod": "Add Delete UpdatePodLabel UpdatePodToleration", "Node": "Add Delete UpdateNodeLabel UpdateNodeTaint",
		},
		"InterPodAffinity":     {"Pod": "Add Delete UpdatePodLabel", "Node": "Add UpdateNodeLabel UpdateNodeTaint"},
		"DefaultPreemption":    {"Pod": "Delete"},
		"NodeDeclaredFeatures": {"Node": "Add UpdateNodeTaint UpdateNodeDeclaredFeature", "Pod": anyUpdate},
		"DynamicResources": {
			"resource.k8s.io/ResourceClaim": "Add Update", "resource.k8s.io/ResourceSlice": "Add Update",
			"resource.k8s.io/DeviceClass": "Add Update", "UnschedulablePod": "UpdatePodGeneratedResourceClaim",
			"Node": "Add UpdateNodeAllocatable UpdateNodeLabel UpdateNodeTaint",
		},
		"GangScheduling": {}, // Regroup tells instead
	}
	r, err := newRules(DefaultPlugins(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.plugins) != len(want) {
		t.Errorf("got %d plugins, want %d", len(r.plugins), len(want))
	}
	for i := range r.plugins {
		name := r.plugins[i].Name
		got, wanted := r.waitsFor(set(1)<<i), unfold(want[name])
		if !slices.Equal(got, wanted) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, wanted)
		}
	}
}

// waitsFor names the events that a plugin waits for, sorted.
func (r *rules) waitsFor(plugin set) []string {
	var out []string
	for kind := range resources {
		for a := range actions {
			if r.registered(plugin, kind, a) {
				e := Event{resource: kind, action: 1 << a}
				out = append(out, e.String())
			}
		}
	}
	slices.Sort(out)
	return out
}

// unfold names the events of a row of the table, sorted.
func unfold(row map[string]string) []string {
	var out []string
	for kind, names := range row {
		kinds := []string{kind}
		if kind == "Pod" {
			kinds = []string{"AssignedPod", "UnschedulablePod"}
		}
		for _, k := range kinds {
			for a := range strings.FieldsSeq(names) {
				out = append(out, k+a)
			}
		}
	}
	slices.Sort(out)
	return out
}

// twoProfiles adds a zone to the pods of one profile and constrains those of the other.
type twoProfiles struct {
	added *nodeaffinity.NodeSelector
}

func (p twoProfiles) AddedAffinity(pod *v1.Pod) *nodeaffinity.NodeSelector {
	if pod.Spec.SchedulerName == "zoned" {
		return p.added
	}
	return nil
}

func (p twoProfiles) Preempting(*v1.Pod) bool              { return false }
func (p twoProfiles) HoldsBack(pod *v1.Pod, _ string) bool { return pod.Spec.SchedulerName != "open" }

func (twoProfiles) Allocatable(string) (*pb.Resources, bool)          { return nil, false }
func (twoProfiles) Room(*v1.Pod, *pb.Resources, string) (int64, bool) { return 0, false }

func (p twoProfiles) DefaultConstraints(pod *v1.Pod) []Constraint {
	if pod.Spec.SchedulerName == "zoned" {
		return nil
	}
	own := ownConstraints(pod)
	if own.broken || own.constraints != nil {
		panic("asked for a pod with constraints of its own")
	}
	return ownConstraints(podWords("spread=zone:app=web")).constraints
}

func podWords(words ...string) *v1.Pod { return pod("p", words) }

// TestProfilesHaveTheirOwnHints holds that addedAffinity and default constraints are those
// of the pod's profile.
func TestProfilesHaveTheirOwnHints(t *testing.T) {
	added, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{build.Match("zone", v1.NodeSelectorOpIn, "a")},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRules(DefaultPlugins(twoProfiles{added}))
	if err != nil {
		t.Fatal(err)
	}
	nodeA, nodeB, bare := node("n", []string{"label=zone=a"}), node("n", []string{"label=zone=b"}), node("n", nil)
	web := build.Pod("web").Label("app", "web").Node("n").Obj()
	for _, c := range []struct {
		name, profile, plugin string
		pod                   []string
		event                 Event
		want                  bool
	}{
		{"a node in the added zone", "zoned", "NodeAffinity", nil, NodeAdded(nodeA), true},
		{"a node in another zone", "zoned", "NodeAffinity", nil, NodeAdded(nodeB), false},
		{"a node comes to match what is added, but matched what the pod asks for", "zoned", "NodeAffinity", nil, NodeUpdated(nodeB, nodeA)[0], false},
		{"a node in any zone, without addedAffinity", "", "NodeAffinity", nil, NodeAdded(nodeB), true},
		{"a pod that default constraints count", "", "PodTopologySpread", nil, AssignedPodAdded(web), true},
		{"the same, without default constraints", "zoned", "PodTopologySpread", nil, AssignedPodAdded(web), false},
		{"the same, with soft constraints of its own", "", "PodTopologySpread", []string{"soft=zone:app=web"}, AssignedPodAdded(web), false},
		{"a node that default constraints leave out", "", "PodTopologySpread", nil, NodeAdded(bare), false},
		{"any node where there are no constraints", "zoned", "PodTopologySpread", nil, NodeAdded(bare), true},
	} {
		obj := pod("p", c.pod)
		obj.Spec.SchedulerName = c.profile
		if got := r.helps(r.names[c.plugin], &Pod{Obj: obj}, &c.event); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

// TestRegistrationsThatCanNotBe holds that there is one answer to an event, and that pods
// whose labels are read are told apart.
func TestRegistrationsThatCanNotBe(t *testing.T) {
	for want, events := range map[string][]Registration{
		"queue: plugin a: AssignedPodDelete is registered twice": {{Resource: AssignedPod, Actions: Add | Delete}, {Resource: AnyPod, Actions: Delete}},
		"queue: plugin a: reads labels, and has no Alike":        {{Resource: Node, Actions: Add, Labels: labelsKeptAway}},
	} {
		if _, err := newRules([]Plugin{{Name: "a", Events: events}}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestGatesOfAProfile holds that gates hold back only where the profile has the plugin for them.
func TestGatesOfAProfile(t *testing.T) {
	now := start
	q := newOf(Config{Now: func() time.Time { return now }, Profiles: twoProfiles{}})
	for profile, want := range map[string]Place{"zoned": Gated, "open": Active} {
		p := build.Pod(profile).Gate("later").Obj()
		p.Spec.SchedulerName = profile
		q.Add(p)
		if got := q.Get(p.UID).Place(); got != want {
			t.Errorf("profile %s: got %q, want %q", profile, got, want)
		}
	}
}
