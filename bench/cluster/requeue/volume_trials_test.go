package requeue

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// volumeTrials are about what volumes come from and where they may be used.
func volumeTrials() []trial {
	var all []trial
	for _, list := range [][]trial{restrictionTrials(), limitTrials(), claimTrials(), bindingTrials(), driverTrials(), zoneTrials()} {
		all = append(all, list...)
	}
	return all
}

const driver = "driver.example.com"

// alone is the only access mode that keeps the claim to one pod.
const alone = v1.ReadWriteOncePod

// volume is one that a claim of the same name has.
func volume(name string) *build.VolumeBuilder {
	b := build.Volume(name, "slow").CSI(driver, name)
	b.Obj().Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	b.Obj().Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: name}
	return b
}

// claim is one that the volume of the same name is bound to.
func claim(name string) *build.ClaimBuilder {
	b := build.Claim(name, "slow").Bound(name)
	b.Obj().Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	return b
}

// change makes a merge patch of what is not a node or a pod.
func changeClaim(name, patch string) func(meteredRig) {
	return func(s meteredRig) {
		s.T.Helper()
		_, err := s.Admin.CoreV1().PersistentVolumeClaims("default").Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		s.Must(err)
	}
}

func changeVolume(name, patch string) func(meteredRig) {
	return func(s meteredRig) {
		s.T.Helper()
		_, err := s.Admin.CoreV1().PersistentVolumes().Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		s.Must(err)
	}
}

func changeClass(name, patch string) func(meteredRig) {
	return func(s meteredRig) {
		s.T.Helper()
		_, err := s.Admin.StorageV1().StorageClasses().Patch(s.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		s.Must(err)
	}
}

func changeCSINode(name, patch string) func(meteredRig) {
	return func(s meteredRig) {
		s.T.Helper()
		_, err := s.Admin.StorageV1().CSINodes().Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		s.Must(err)
	}
}

func changeDriver(name, patch string) func(meteredRig) {
	return func(s meteredRig) {
		s.T.Helper()
		_, err := s.Admin.StorageV1().CSIDrivers().Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		s.Must(err)
	}
}

// disk is a volume of a kind that one pod of a node may write to.
func disk(name string) v1.VolumeSource {
	return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name}}
}

func restrictionTrials() []trial {
	const plugin = "VolumeRestrictions"
	held := there(bare("a").Obj(), claim("c").Mode(alone).Obj(), other("o", "a").Claim("c").Obj(), other("x", "a").Claim("d").Obj())
	disks := there(bare("a").Obj(), other("o", "a").Mount(disk("one")).Obj(), other("x", "a").Mount(disk("two")).Obj())
	return []trial{
		{
			name: "the pod that has the claim leaves", plugin: plugin, has: held, pod: pod().Claim("c").Obj(),
			do: deletePod("o"), event: "AssignedPodDelete", then: "a",
		},
		{
			name: "a pod with another claim leaves", plugin: plugin, has: held, pod: pod().Claim("c").Obj(),
			do: deletePod("x"), event: "AssignedPodDelete", then: stays,
		},
		{
			name: "a node comes", plugin: plugin, has: held, pod: pod().Claim("c").Obj(),
			do: create(bare("b").Obj()), event: "NodeAdd", then: retried,
		},
		{
			name: "the node gets a label", plugin: plugin, has: held, pod: pod().Claim("c").Obj(),
			do: changeNode("a", labelled("pool", "new")), event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the claim comes", plugin: plugin, has: there(bare("a").Obj()), pod: pod().Claim("c").Obj(),
			do: create(claim("c").Obj()), event: "PersistentVolumeClaimAdd", then: "a",
		},
		{
			name: "another claim comes", plugin: plugin, has: there(bare("a").Obj()), pod: pod().Claim("c").Obj(),
			do: create(claim("d").Obj()), event: "PersistentVolumeClaimAdd", then: stays,
		},
		{
			name: "the claim comes to another namespace", plugin: plugin, has: there(bare("a").Obj()), pod: pod().Claim("c").Obj(),
			do: create(claim("c").Namespace(elsewhere).Obj()), event: "PersistentVolumeClaimAdd", then: stays,
		},
		{
			name: "the pod that has the disk leaves", plugin: plugin, has: disks, pod: pod().Mount(disk("one")).Obj(),
			do: deletePod("o"), event: "AssignedPodDelete", then: "a",
		},
		{
			name: "a pod with another disk leaves", plugin: plugin, has: disks, pod: pod().Mount(disk("one")).Obj(),
			do: deletePod("x"), event: "AssignedPodDelete", then: stays,
		},
	}
}

// csiNode is how many volumes a node can attach.
func csiNode(node string, limit int32) *storagev1.CSINode {
	n := build.CSINode(node, driver, limit)
	for i := range n.Spec.Drivers {
		n.Spec.Drivers[i].NodeID = node
	}
	return n
}

// limited is a patch of that.
func limited(node string, limit int) string {
	return fmt.Sprintf(`{"spec": {"drivers": [{"name": %q, "nodeID": %q, "topologyKeys": [], "allocatable": {"count": %d}}]}}`, driver, node, limit)
}

// attachment is a volume that a node has attached.
func attachment(name, node, volume string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
}

func limitTrials() []trial {
	const plugin = "NodeVolumeLimits"
	full := there(volume("c").Obj(), claim("c").Obj(), volume("d").Obj(), claim("d").Obj(), csiNode("a", 1), bare("a").Obj(),
		other("o", "a").Claim("d").Obj(), other("x", "a").Obj())
	wants := func() *v1.Pod { return pod().Claim("c").Obj() }
	return []trial{
		{
			name: "a pod with a volume leaves", plugin: plugin, has: full, pod: wants(),
			do: deletePod("o"), event: "AssignedPodDelete", then: "a",
		},
		{
			name: "a pod without volumes leaves", plugin: plugin, has: full, pod: wants(),
			do: deletePod("x"), event: "AssignedPodDelete", then: stays,
		},
		{
			name: "the node can attach more", plugin: plugin, has: full, pod: wants(),
			do: changeCSINode("a", limited("a", 2)), event: "storage.k8s.io/CSINodeUpdate", then: "a",
		},
		{
			name: "the node can attach less", plugin: plugin, has: full, pod: wants(),
			do: changeCSINode("a", limited("a", 0)), event: "storage.k8s.io/CSINodeUpdate", then: stays,
		},
		{
			name: "what the node can attach gets an annotation", plugin: plugin, has: full, pod: wants(),
			do: changeCSINode("a", `{"metadata": {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}}}`), event: "storage.k8s.io/CSINodeUpdate", then: stays,
		},
		{
			name: "another node says what it can attach", plugin: plugin, has: full, pod: wants(),
			do: create(csiNode("b", 1)), event: "storage.k8s.io/CSINodeAdd", then: retried,
		},
		{
			name: "a node comes", plugin: plugin, has: full, pod: wants(),
			do: create(bare("b").Obj()), event: "NodeAdd", then: stays,
		},
		{
			name: "the node gets a taint", plugin: plugin, has: full, pod: wants(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: stays,
		},
		{
			name: "a volume is detached", plugin: plugin, pod: wants(),
			has: there(volume("c").Obj(), claim("c").Obj(), volume("d").Obj(), csiNode("a", 1), bare("a").Obj(), attachment("d", "a", "d")),
			do:  detach("d"), event: "storage.k8s.io/VolumeAttachmentDelete", then: "a",
		},
		{
			name: "the claim comes", plugin: plugin, has: there(volume("c").Obj(), csiNode("a", 1), bare("a").Obj()), pod: wants(),
			do: create(claim("c").Obj()), event: "PersistentVolumeClaimAdd", then: "a",
		},
		{
			name: "another claim comes", plugin: plugin, has: there(volume("c").Obj(), csiNode("a", 1), bare("a").Obj()), pod: wants(),
			do: create(claim("d").Obj()), event: "PersistentVolumeClaimAdd", then: stays,
		},
	}
}

// detach takes an attachment away.
func detach(name string) func(meteredRig) {
	return func(s meteredRig) {
		s.T.Helper()
		s.Must(s.Admin.StorageV1().VolumeAttachments().Delete(s.Context(), name, now()))
	}
}

const binding = "VolumeBinding"

func claimTrials() []trial {
	atOnce := there(volume("c").Obj(), build.StorageClass("slow", "example.com/p"), build.Claim("c", "slow").Obj(), build.Claim("d", "slow").Obj(), bare("a").Obj())
	bound := `{"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "c"}}`
	return []trial{
		{
			name: "the claim is bound", plugin: binding, has: atOnce, pod: pod().Claim("c").Obj(),
			do: changeClaim("c", bound), event: "PersistentVolumeClaimUpdate", then: "a",
		},
		{
			name: "the claim gets a label", plugin: binding, has: atOnce, pod: pod().Claim("c").Obj(),
			do: changeClaim("c", labelled("app", "new")), event: "PersistentVolumeClaimUpdate", then: retried,
		},
		{
			name: "another claim gets a label", plugin: binding, has: atOnce, pod: pod().Claim("c").Obj(),
			do: changeClaim("d", labelled("app", "new")), event: "PersistentVolumeClaimUpdate", then: stays,
		},
		{
			name: "the claim comes", plugin: binding, has: there(volume("c").Obj(), bare("a").Obj()), pod: pod().Claim("c").Obj(),
			do: create(claim("c").Obj()), event: "PersistentVolumeClaimAdd", then: "a",
		},
		{
			name: "another claim comes", plugin: binding, has: there(volume("c").Obj(), bare("a").Obj()), pod: pod().Claim("c").Obj(),
			do: create(claim("d").Obj()), event: "PersistentVolumeClaimAdd", then: stays,
		},
		{
			name: "a class comes that binds late", plugin: binding, has: there(build.Claim("c", "slow").Obj(), bare("a").Obj()), pod: pod().Claim("c").Obj(),
			do: create(build.WaitingClass("slow", "kubernetes.io/no-provisioner")), event: "storage.k8s.io/StorageClassAdd", then: retried,
		},
		{
			name: "the class allows other topologies", plugin: binding, has: there(allowed("slow", "west"), build.Claim("c", "slow").Obj(), zoned("a", "east").Obj()), pod: pod().Claim("c").Obj(),
			do:    changeClass("slow", `{"allowedTopologies": [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["north"]}]}]}`),
			event: "storage.k8s.io/StorageClassUpdate", then: retried,
		},
		{
			name: "the class allows expansion", plugin: binding, has: there(allowed("slow", "west"), build.Claim("c", "slow").Obj(), zoned("a", "east").Obj()), pod: pod().Claim("c").Obj(),
			do: changeClass("slow", `{"allowVolumeExpansion": true}`), event: "storage.k8s.io/StorageClassUpdate", then: stays,
		},
		{
			name: "a volume is detached", plugin: binding, has: append(atOnce, attachment("c", "a", "c")), pod: pod().Claim("c").Obj(),
			do: detach("c"), event: "storage.k8s.io/VolumeAttachmentDelete", then: stays,
		},
	}
}

// allowed is a class that binds late and makes volumes in one zone.
func allowed(name, zoneName string) *storagev1.StorageClass {
	c := build.WaitingClass(name, "example.com/p")
	c.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: zone, Values: []string{zoneName}}}}}
	return c
}

func bindingTrials() []trial {
	west := there(volume("c").On(zone, "west").Obj(), claim("c").Obj(), zoned("a", "east").Obj())
	wants := func() *v1.Pod { return pod().Claim("c").Obj() }
	late := there(build.WaitingClass("slow", "kubernetes.io/no-provisioner"), build.Claim("c", "slow").Obj(), zoned("a", "east").Obj())
	far := shelved("far")
	far.Spec.NodeAffinity = build.Volume("x", "").On(zone, "west").Obj().Spec.NodeAffinity
	return []trial{
		{
			name: "a node comes where the volume is", plugin: binding, has: west, pod: wants(),
			do: create(zoned("b", "west").Obj()), event: "NodeAdd", then: "b",
		},
		{
			name: "a node comes where the volume is not", plugin: binding, has: west, pod: wants(),
			do: create(zoned("b", "east").Obj()), event: "NodeAdd", then: retried,
		},
		{
			name: "the node moves to where the volume is", plugin: binding, has: west, pod: wants(),
			do: changeNode("a", labelled(zone, "west")), event: "NodeUpdateNodeLabel", then: "a",
		},
		{
			name: "the node gets an unrelated label", plugin: binding, has: west, pod: wants(),
			do: changeNode("a", labelled("pool", "new")), event: "NodeUpdateNodeLabel", then: retried,
		},
		{
			name: "the node gets a taint", plugin: binding, has: west, pod: wants(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: retried,
		},
		{
			name: "the node gets more CPU", plugin: binding, has: west, pod: wants(),
			do: changeNode("a", `{"status": {"allocatable": {"cpu": "8"}}}`, "status"), event: "NodeUpdateNodeAllocatable", then: stays,
		},
		{
			name: "a pod leaves", plugin: binding, has: append(west, other("o", "a").Obj()), pod: wants(),
			do: deletePod("o"), event: "AssignedPodDelete", then: stays,
		},
		{
			name: "a volume comes that nodes can not use", plugin: binding, has: late, pod: wants(),
			do: create(far), event: "PersistentVolumeAdd", then: retried,
		},
		{
			name: "a volume gets a label", plugin: binding, has: append(late, volume("d").Obj()), pod: wants(),
			do: changeVolume("d", labelled("app", "new")), event: "PersistentVolumeUpdate", then: retried,
		},
	}
}

// capacity is how much room a driver says that it has for a class.
func capacity(name, quantity string) *storagev1.CSIStorageCapacity {
	q := resource.MustParse(quantity)
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, StorageClassName: "slow", Capacity: &q, NodeTopology: &metav1.LabelSelector{},
	}
}

// resizeCapacity changes that.
func resizeCapacity(name, quantity string) func(meteredRig) {
	return func(s meteredRig) {
		s.T.Helper()
		_, err := s.Admin.StorageV1().CSIStorageCapacities("default").Patch(s.Context(), name, types.MergePatchType,
			[]byte(fmt.Sprintf(`{"capacity": %q}`, quantity)), metav1.PatchOptions{})
		s.Must(err)
	}
}

// telling is a driver that says how much room it has.
func telling(name string) *storagev1.CSIDriver {
	yes, no := true, false
	return &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSIDriverSpec{
			StorageCapacity: &yes, AttachRequired: &no, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent},
		},
	}
}

func driverTrials() []trial {
	// The driver has no room, and so makes no volume for the claim.
	short := there(telling(driver), build.WaitingClass("slow", driver), build.Claim("c", "slow").Size("8Gi").Obj(), capacity("room", "1Gi"), bare("a").Obj())
	wants := func() *v1.Pod { return pod().Claim("c").Obj() }
	// Its claim can not be bound; and it has a volume of its own of the driver.
	inline := func() *v1.Pod {
		return pod().Claim("missing").Mount(v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}}).Obj()
	}
	return []trial{
		{
			name: "the driver has more room, but not enough", plugin: binding, has: short, pod: wants(),
			do: resizeCapacity("room", "2Gi"), event: "storage.k8s.io/CSIStorageCapacityUpdate", then: retried,
		},
		{
			name: "the driver has less room", plugin: binding, has: short, pod: wants(),
			do: resizeCapacity("room", "512Mi"), event: "storage.k8s.io/CSIStorageCapacityUpdate", then: stays,
		},
		{
			name: "the driver has room elsewhere, but not enough", plugin: binding, has: short, pod: wants(),
			do: create(capacity("more", "1Gi")), event: "storage.k8s.io/CSIStorageCapacityAdd", then: retried,
		},
		{
			name: "the driver tells of its room no more", plugin: binding, has: short, pod: inline(),
			do: changeDriver(driver, `{"spec": {"storageCapacity": false}}`), event: "storage.k8s.io/CSIDriverUpdate", then: retried,
		},
		{
			name: "the driver gets a label", plugin: binding, has: short, pod: inline(),
			do: changeDriver(driver, labelled("app", "new")), event: "storage.k8s.io/CSIDriverUpdate", then: stays,
		},
		{
			name: "the driver of a claim tells of its room no more", plugin: binding, has: short, pod: wants(),
			do: changeDriver(driver, `{"spec": {"storageCapacity": false}}`), event: "storage.k8s.io/CSIDriverUpdate", then: stays,
		},
		{
			name: "a node says what it can attach", plugin: binding, has: short, pod: wants(),
			do: create(csiNode("a", 1)), event: "storage.k8s.io/CSINodeAdd", then: retried,
		},
		{
			name: "a node leaves other volumes to drivers", plugin: binding, has: append(short, csiNode("a", 1)), pod: wants(),
			do: changeCSINode("a", `{"metadata": {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}}}`), event: "storage.k8s.io/CSINodeUpdate", then: retried,
		},
		{
			name: "a node can attach more", plugin: binding, has: append(short, csiNode("a", 1)), pod: wants(),
			do: changeCSINode("a", limited("a", 2)), event: "storage.k8s.io/CSINodeUpdate", then: stays,
		},
	}
}

func zoneTrials() []trial {
	const plugin = "VolumeZone"
	west := there(volume("c").Label(zone, "west").Obj(), claim("c").Obj(), zoned("a", "east").Obj())
	wants := func() *v1.Pod { return pod().Claim("c").Obj() }
	return []trial{
		{
			name: "the volume moves to the node's zone", plugin: plugin, has: west, pod: wants(),
			do: changeVolume("c", labelled(zone, "east")), event: "PersistentVolumeUpdate", then: "a",
		},
		{
			name: "the volume moves to another zone", plugin: plugin, has: west, pod: wants(),
			do: changeVolume("c", labelled(zone, "north")), event: "PersistentVolumeUpdate", then: retried,
		},
		{
			name: "the volume gets an unrelated label", plugin: plugin, has: west, pod: wants(),
			do: changeVolume("c", labelled("app", "new")), event: "PersistentVolumeUpdate", then: stays,
		},
		{
			name: "the volume comes", plugin: plugin, has: there(claim("c").Obj(), zoned("a", "east").Obj()), pod: wants(),
			do: create(volume("c").Label(zone, "east").Obj()), event: "PersistentVolumeAdd", then: "a",
		},
		{
			name: "the claim comes", plugin: plugin, has: there(volume("c").Label(zone, "east").Obj(), zoned("a", "east").Obj()), pod: wants(),
			do: create(claim("c").Obj()), event: "PersistentVolumeClaimAdd", then: "a",
		},
		{
			name: "another claim comes", plugin: plugin, has: there(volume("c").Label(zone, "east").Obj(), zoned("a", "east").Obj()), pod: wants(),
			do: create(claim("d").Obj()), event: "PersistentVolumeClaimAdd", then: stays,
		},
		{
			name: "the claim gets a label", plugin: plugin, has: west, pod: wants(),
			do: changeClaim("c", labelled("app", "new")), event: "PersistentVolumeClaimUpdate", then: retried,
		},
		{
			name: "a node of the zone comes", plugin: plugin, has: west, pod: wants(),
			do: create(zoned("b", "west").Obj()), event: "NodeAdd", then: "b",
		},
		{
			name: "the node moves to the volume's zone", plugin: plugin, has: west, pod: wants(),
			do: changeNode("a", labelled(zone, "west")), event: "NodeUpdateNodeLabel", then: "a",
		},
		{
			name: "the node gets more CPU", plugin: plugin, has: west, pod: wants(),
			do: changeNode("a", `{"status": {"allocatable": {"cpu": "8"}}}`, "status"), event: "NodeUpdateNodeAllocatable", then: stays,
		},
		{
			name: "a class comes that binds late", plugin: plugin, has: west, pod: wants(),
			do: create(build.WaitingClass("late", "example.com/p")), event: "storage.k8s.io/StorageClassAdd", then: retried,
		},
		{
			name: "a class comes that binds at once", plugin: plugin, has: west, pod: wants(),
			do: create(build.StorageClass("soon", "example.com/p")), event: "storage.k8s.io/StorageClassAdd", then: stays,
		},
	}
}
