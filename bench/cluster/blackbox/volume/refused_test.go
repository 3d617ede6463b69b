package volume

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// limitStories are about volumes that others have.
func limitStories() []story {
	return []story{
		{
			name:    "a claim for one pod only",
			objects: list(made("single"), build.Claim("single", "single").Mode(v1.ReadWriteOncePod).Obj(), pod("single-1").Claim("single").Obj()),
			check: func(r *rig.Rig) {
				r.Bound("default/single-1")
				r.Create(pod("single-2").Claim("single").Obj())
				r.Waits("default/single-2", "0/6 nodes are available: 6 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.")
				r.Delete("default/single-1")
				r.Bound("default/single-2")
			},
		},
		{name: "as many volumes as a node takes", objects: limited(), check: checkLimit},
		{
			name:    "a disk that one pod of a node can have",
			objects: list(withDisk("disk-1", "west")),
			check: func(r *rig.Rig) {
				first := r.Bound("default/disk-1")
				r.Create(withDisk("disk-2", "west"))
				if second := r.Bound("default/disk-2"); second == first {
					r.T.Errorf("got both on node %s, want one on b and one on c", first)
				}
				r.Create(withDisk("disk-3", "west"))
				r.Waits("default/disk-3", "0/6 nodes are available: 2 node(s) had no available disk, 4 "+selector+".")
			},
		},
	}
}

// limited are a node that takes two volumes of a driver, and three volumes.
func limited() []runtime.Object {
	out := list(class("limited"), build.CSINode("f", "limited.example", 2))
	for i := range 3 {
		name := fmt.Sprint("limited-", i)
		claim := build.Claim(name, "limited").Obj()
		claim.Spec.VolumeName = name
		out = append(out, disk(name, "limited").CSI("limited.example", name).Obj(), claim)
	}
	return append(out, in("south", "limited-0").Claim("limited-0").Obj(), in("south", "limited-1").Claim("limited-1").Obj())
}

func checkLimit(r *rig.Rig) {
	r.Bound("default/limited-0")
	r.Bound("default/limited-1")
	r.Create(in("south", "limited-2").Claim("limited-2").Obj(), in("south", "shares").Claim("limited-1").Obj())
	r.Goes("default/shares", "f")
	r.Waits("default/limited-2", "0/6 nodes are available: 1 node(s) exceed max volume count, 5 "+selector+".")
	r.Delete("default/limited-0")
	r.Goes("default/limited-2", "f")
}

func withDisk(name, where string) *v1.Pod {
	return in(where, name).Mount(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "shared"}}).Obj()
}

// refusedStories are about pods that no volume can be found for.
func refusedStories() []story {
	waits := func(name, why string, objects ...runtime.Object) story {
		return story{name, objects, func(r *rig.Rig) { r.Waits("default/"+name, "0/6 nodes are available: "+why+".") }}
	}
	elsewhere := "4 " + selector
	return []story{
		waits("missing", `persistentvolumeclaim "nothing" not found`, pod("missing").Claim("nothing").Obj()),
		waits("unbound", "pod has unbound immediate PersistentVolumeClaims", class("unbound"), build.Claim("unbound", "unbound").Obj(), pod("unbound").Claim("unbound").Obj()),
		waits("no-volume", "2 node(s) didn't find available persistent volumes to bind, "+elsewhere,
			build.WaitingClass("no-volume", ""), disk("elsewhere", "no-volume").On(zone, "east").Obj(), build.Claim("no-volume", "no-volume").Obj(), in("west", "no-volume").Claim("no-volume").Obj()),
		waits("no-space", "2 node(s) did not have enough free storage, "+elsewhere,
			build.WaitingClass("no-space", "space.example"), build.Claim("no-space", "no-space").Obj(), in("west", "no-space").Claim("no-space").Obj()),
		waits("ephemeral", `waiting for ephemeral volume controller to create the persistentvolumeclaim "ephemeral-data"`, made("ephemeral"), ephemeral()),
		waits("two-zones", "6 node(s) didn't match PersistentVolume's node affinity",
			class("two-east"), disk("two-east", "two-east").On(zone, "east").Obj(), build.Claim("two-east", "two-east").Obj(),
			class("two-west"), disk("two-west", "two-west").On(zone, "west").Obj(), build.Claim("two-west", "two-west").Obj(),
			pod("two-zones").Claim("two-east", "two-west").Obj()),
	}
}

// spaceDriver is one that says how much room there is, which is none.
func spaceDriver() *storagev1.CSIDriver {
	yes := true
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "space.example"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &yes}}
}

// ephemeral is a pod whose claim nobody makes.
func ephemeral() *v1.Pod {
	p := pod("ephemeral").Obj()
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
		VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: build.Claim("data", "ephemeral").Obj().Spec},
	}}}}
	return p
}
