package volume

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// story is what is created first, and what is to come of it.
type story struct {
	name    string
	objects []runtime.Object
	check   func(*rig.Rig)
}

func TestVolumes(t *testing.T) {
	r := rig.New(t, testbed.Config{})
	r.Controllers("persistentvolume", "provisioner")
	r.Create(append(nodes(), spaceDriver())...)
	r.Start("")
	stories := slices.Concat(boundStories(), waitingStories(), limitStories(), refusedStories())
	for _, s := range stories {
		r.Create(s.objects...)
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			sub := *r
			sub.Cluster = &testbed.Cluster{Bed: r.Bed, T: t}
			s.check(&sub)
		})
	}
	// The role allows both verbs.
	verb := "patch"
	if rig.Upstream() {
		verb = "update"
	}
	r.CheckWrites(verb+" persistentvolumes ", verb+" persistentvolumeclaims ")
}

const (
	zone     = v1.LabelTopologyZone
	selector = "node(s) didn't match Pod's node affinity/selector"
)

// nodes are six: a is in the east, b and c in the west, d and e in the north, f in the south.
func nodes() (out []runtime.Object) {
	for name, where := range map[string]string{"a": "east", "b": "west", "c": "west", "d": "north", "e": "north"} {
		out = append(out, node(name, where))
	}
	return append(out, node("f", "south"))
}

func node(name, zone string) *v1.Node {
	return build.Node(name).CPU("64").Memory("64Gi").Zone(zone).Label(v1.LabelHostname, name).Obj()
}

func list(objects ...runtime.Object) []runtime.Object { return objects }

// class is one whose volumes are there at once, made by hand.
func class(name string) *storagev1.StorageClass {
	c := build.WaitingClass(name, "")
	*c.VolumeBindingMode = storagev1.VolumeBindingImmediate
	return c
}

// made is one whose volumes the provisioner makes where the first pod goes, for its zone.
func made(name string, parameters ...string) *storagev1.StorageClass {
	c := build.WaitingClass(name, testbed.Provisioner)
	c.Parameters = map[string]string{"topology": zone}
	for i := 0; i < len(parameters); i += 2 {
		c.Parameters[parameters[i]] = parameters[i+1]
	}
	return c
}

// disk is a volume made by hand.
func disk(name, class string) *build.VolumeBuilder {
	b := build.Volume(name, class).CSI("disk.example", name)
	b.Obj().Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	return b
}

func pod(name string) *build.PodBuilder { return build.Pod(name).CPU("100m") }

// in is a pod that can go to one zone only.
func in(where, name string) *build.PodBuilder { return pod(name).NodeSelector(zone, where) }

// claimed waits until a pod is bound, and returns its node and the volume of a claim.
func claimed(r *rig.Rig, pod, claim string) (node string, volume *v1.PersistentVolume, c *v1.PersistentVolumeClaim) {
	r.T.Helper()
	node = r.Bound("default/" + pod)
	c, err := r.Admin.CoreV1().PersistentVolumeClaims("default").Get(r.T.Context(), claim, metav1.GetOptions{})
	r.Must(err)
	volume, err = r.Admin.CoreV1().PersistentVolumes().Get(r.T.Context(), c.Spec.VolumeName, metav1.GetOptions{})
	r.Must(err)
	return node, volume, c
}

// boundStories are about claims that have their volumes before a pod comes.
func boundStories() []story {
	return []story{
		{
			name:    "a bound volume for some nodes",
			objects: list(class("bound"), disk("bound-1", "bound").On(zone, "east").Obj(), build.Claim("bound", "bound").Obj(), pod("bound").Claim("bound").Obj()),
			check:   func(r *rig.Rig) { r.Goes("default/bound", "a") },
		},
		{
			name:    "a bound volume for other nodes",
			objects: list(class("far"), disk("far-1", "far").On(zone, "east").Obj(), build.Claim("far", "far").Obj(), in("west", "far").Claim("far").Obj()),
			check: func(r *rig.Rig) {
				r.Waits("default/far", "0/6 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity, 4 "+selector+".")
			},
		},
		{
			name:    "a volume with the label of a zone",
			objects: list(class("zonal"), disk("zonal-1", "zonal").Label(zone, "east").Obj(), build.Claim("zonal", "zonal").Obj(), pod("zonal").Claim("zonal").Obj()),
			check:   func(r *rig.Rig) { r.Goes("default/zonal", "a") },
		},
		{
			name:    "a volume with the label of another zone",
			objects: list(class("abroad"), disk("abroad-1", "abroad").Label(zone, "east__north").Obj(), build.Claim("abroad", "abroad").Obj(), in("west", "abroad").Claim("abroad").Obj()),
			check: func(r *rig.Rig) {
				r.Waits("default/abroad", "0/6 nodes are available: 2 node(s) had no available volume zone, 4 "+selector+".")
			},
		},
	}
}

// waitingStories are about claims that wait for their first pod.
func waitingStories() []story {
	return []story{
		{
			name:    "a volume made by hand",
			objects: list(build.WaitingClass("local", ""), disk("local-1", "local").On(v1.LabelHostname, "b").Obj(), disk("local-2", "local").On(v1.LabelHostname, "z").Obj(), build.Claim("local", "local").Obj(), pod("local").Claim("local").Obj()),
			check: func(r *rig.Rig) {
				if node, volume, _ := claimed(r, "local", "local"); node != "b" || volume.Name != "local-1" {
					r.T.Errorf("got node %s and volume %s, want b and local-1", node, volume.Name)
				}
			},
		},
		{
			// A scheduler that has seen the last volume has seen all.
			name: "the smallest volume that is large enough",
			objects: list(build.WaitingClass("sizes", ""), disk("sizes-1", "sizes").Size("1Gi").Obj(), disk("sizes-5", "sizes").Size("5Gi").Obj(), disk("sizes-9", "sizes").Size("9Gi").Obj(),
				build.Claim("sizes", "sizes").Size("3Gi").Obj(), pod("sizes").Claim("sizes").Obj()),
			check: func(r *rig.Rig) {
				if _, volume, _ := claimed(r, "sizes", "sizes"); volume.Name != "sizes-5" {
					r.T.Errorf("got volume %s, want sizes-5", volume.Name)
				}
			},
		},
		{
			name:    "a volume that is made where the pod goes",
			objects: list(made("made"), build.Claim("made-1", "made").Obj(), build.Claim("made-2", "made").Obj(), in("west", "made").Claim("made-1", "made-2").Obj()),
			check: func(r *rig.Rig) {
				for _, claim := range []string{"made-1", "made-2"} {
					node, volume, c := claimed(r, "made", claim)
					if got := c.Annotations[storage.AnnSelectedNode]; got != node || node != "b" && node != "c" {
						r.T.Errorf("%s: got node %s and selected node %q, want b or c, and the same", claim, node, got)
					}
					if got := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values; !slices.Equal(got, []string{"west"}) {
						r.T.Errorf("%s: got a volume in %q, want it in the west", claim, got)
					}
				}
			},
		},
		{name: "a class for some zones", objects: append(allowed(), build.Claim("allowed", "allowed").Obj(), pod("allowed").Claim("allowed").Obj()), check: func(r *rig.Rig) { r.Goes("default/allowed", "a") }},
		{
			name: "a node that has no room after all",
			objects: list(made("full", "full", "d"), build.Claim("full", "full").Obj(),
				in("north", "full").Claim("full").Preferred(100, build.Names("d")).Obj()),
			check: checkFull,
		},
		{
			name:    "a claim that comes late, goes, and comes again",
			objects: list(made("late"), in("east", "late").Claim("late").Obj()),
			check:   checkLate,
		},
	}
}

func allowed() []runtime.Object {
	c := made("allowed")
	c.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: zone, Values: []string{"east"}}}}}
	return list(c)
}

// checkFull has the provisioner refuse the node that is chosen first.
func checkFull(r *rig.Rig) {
	failed := func(p *v1.Pod) bool {
		if p == nil {
			return false
		}
		c := testbed.ScheduledCondition(p)
		return c != nil && c.Reason == v1.PodReasonSchedulerError
	}
	p := r.Until("end in an error", failed, "default/full")[0]
	if got := testbed.ScheduledCondition(p).Message; !strings.Contains(got, "binding volumes: ") {
		r.T.Errorf("got %q, want … binding volumes: …", got)
	}
	r.PatchNode("d", `{"spec": {"unschedulable": true}}`)
	node, volume, _ := claimed(r, "full", "full")
	if node != "e" || volume.Spec.NodeAffinity == nil {
		r.T.Errorf("got node %s and a volume for %v, want e and one for its zone", node, volume.Spec.NodeAffinity)
	}
	r.PatchNode("d", `{"spec": {"unschedulable": null}}`)
}

func checkLate(r *rig.Rig) {
	const missing = `0/6 nodes are available: persistentvolumeclaim "late" not found.`
	r.Waits("default/late", missing)
	r.Create(build.Claim("late", "late").Obj())
	_, first, _ := claimed(r, "late", "late")
	r.Delete("default/late")
	r.Must(r.Admin.CoreV1().PersistentVolumeClaims("default").Delete(r.T.Context(), "late", metav1.DeleteOptions{}))
	r.Create(in("east", "late").Claim("late").Obj())
	r.Waits("default/late", missing)
	r.Create(build.Claim("late", "late").Obj())
	if _, second, _ := claimed(r, "late", "late"); second.Name == first.Name {
		r.T.Errorf("got the volume %s again, want a new one", second.Name)
	}
}
