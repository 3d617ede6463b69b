package oracle

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// using is a pod with claims.
func using(name string, claims ...string) *v1.Pod {
	p := build.Pod(name).Obj()
	for _, c := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: c, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
	}
	return p
}

// claim asks for some room of a class.
func claim(name, class, size string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}}},
	}
}

// bound is a claim that has a volume.
func bound(name, volume string) *v1.PersistentVolumeClaim {
	c := claim(name, "wait", "1Gi")
	c.Spec.VolumeName = volume
	c.Annotations = map[string]string{storagehelpers.AnnBindCompleted: "yes"}
	return c
}

// volume is one that claims may have.
func volume(name, class, size string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: v1.PersistentVolumeSpec{StorageClassName: class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Capacity:               v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "csi", VolumeHandle: name}}},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}

func in(pv *v1.PersistentVolume, key, value string) *v1.PersistentVolume {
	pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
		build.Labels(build.Match(key, v1.NodeSelectorOpIn, value)),
	}}}
	return pv
}

func labelled(pv *v1.PersistentVolume, key, value string) *v1.PersistentVolume {
	pv.Labels = map[string]string{key: value}
	return pv
}

// class lets claims wait for a pod.
func class(name, provisioner string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
}

func TestVolumes(t *testing.T) {
	const zone = v1.LabelTopologyZone
	once := bound("once", "v")
	once.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	limit := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: "csi", Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To[int32](1)}},
	}}}
	attached := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "csi", NodeName: "a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("other")},
	}}
	topology := class("wait", "csi")
	topology.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: zone, Values: []string{"south"}}}}}
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}}
	room := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: "room", Namespace: "default"}, StorageClassName: "wait",
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{zone: "north"}}, Capacity: ptr.To(resource.MustParse("5Gi"))}
	selected := claim("c", "wait", "1Gi")
	selected.Annotations = map[string]string{storagehelpers.AnnSelectedNode: "b"}
	disk := func(name, node string, readOnly bool) *v1.Pod {
		p := onto(build.Pod(name).Obj(), node)
		p.Spec.Volumes = []v1.Volume{{Name: "disk", VolumeSource: v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "pd", ReadOnly: readOnly}}}}
		return p
	}
	with := func(objects ...Object) []Object { return append(three()[:2:2], objects...) }
	hold(t, []verdict{
		{name: "a claim that there isn't", objects: with(), pod: using("p", "c"), want: "0/2 nodes are available: persistentvolumeclaim \"c\" not found.\n"},
		{name: "one that waits for no pod", objects: with(claim("c", "", "1Gi")), pod: using("p", "c"), want: "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.\n"},
		{name: "where the volume is", objects: with(bound("c", "v"), in(volume("v", "wait", "1Gi"), zone, "north")), pod: using("p", "c"), want: `
			a fits
			b VolumeBinding: node(s) didn't match PersistentVolume's node affinity (for good)
		`},
		{name: "a volume by zone label", objects: with(bound("c", "v"), labelled(volume("v", "wait", "1Gi"), zone, "west__south")), pod: using("p", "c"), want: `
			a VolumeZone: node(s) had no available volume zone (for good)
			b fits
		`},
		{name: "a volume that is gone", objects: with(bound("c", "v")), pod: using("p", "c"), want: "0/2 nodes are available: persistentvolume \"v\" not found.\n"},
		{name: "which VolumeBinding tells where VolumeZone doesn't run", config: "profiles: [{plugins: {multiPoint: {disabled: [{name: VolumeZone}]}}}]",
			objects: with(bound("c", "v")), pod: using("p", "c"), want: `
			a VolumeBinding: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s) (for good)
			b VolumeBinding: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s) (for good)
		`},
		{name: "a claim for one pod only", objects: with(once, volume("v", "wait", "1Gi"), onto(using("x", "once"), "b")), pod: using("p", "once"), want: `
			a VolumeRestrictions: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod
			b VolumeRestrictions: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod
		`},
		{name: "a disk that another writes", objects: with(disk("x", "a", false), disk("y", "b", true)), pod: disk("p", "", true), want: `
			a VolumeRestrictions: node(s) had no available disk
			b fits
		`},
		{name: "more than a node can attach", objects: with(limit, bound("c", "v"), volume("v", "wait", "1Gi"), bound("d", "w"), volume("w", "wait", "1Gi"), onto(using("x", "d"), "a")), pod: using("p", "c"), want: `
			a NodeVolumeLimits: node(s) exceed max volume count
			b fits
		`},
		{name: "what is attached already is free", objects: with(limit, bound("c", "v"), volume("v", "wait", "1Gi"), onto(using("x", "c"), "a")), pod: using("p", "c"), want: `
			a fits
			b fits
		`},
		{name: "what nobody uses is attached still", objects: with(limit, attached, volume("other", "wait", "1Gi"), bound("c", "v"), volume("v", "wait", "1Gi")), pod: using("p", "c"), want: `
			a NodeVolumeLimits: node(s) exceed max volume count
			b fits
		`},
		{name: "a volume can be made in one zone", objects: with(topology, claim("c", "wait", "1Gi")), pod: using("p", "c"), want: `
			a VolumeBinding: node(s) didn't find available persistent volumes to bind (for good)
			b fits
		`},
		{name: "where there is room", objects: with(class("wait", "csi"), driver, room, claim("c", "wait", "2Gi")), pod: using("p", "c"), want: `
			a fits
			b VolumeBinding: node(s) did not have enough free storage (for good)
		`},
		{name: "where it was to be made before", objects: with(class("wait", "csi"), selected, in(volume("v", "wait", "1Gi"), zone, "north")), pod: using("p", "c"), want: `
			a VolumeBinding: node(s) didn't find available persistent volumes to bind (for good)
			b fits
		`},
	})
}

// Volumes that are chosen for a pod are no other's, the smallest that fits first.
func TestReserve(t *testing.T) {
	o := newTest(t, "", append(three()[:2:2], class("local", storagehelpers.NotSupportedProvisioner),
		in(volume("small", "local", "1Gi"), v1.LabelHostname, "a"), in(volume("large", "local", "9Gi"), v1.LabelHostname, "a"), in(volume("middle", "local", "5Gi"), v1.LabelHostname, "a"),
		claim("c", "local", "2Gi"), claim("d", "local", "2Gi"), claim("e", "local", "2Gi"))...)
	for i, want := range []string{"middle", "large"} {
		pod := using([]string{"p", "q"}[i], []string{"c", "d"}[i])
		if err := o.Set(pod); err != nil {
			t.Fatal(err)
		}
		written, err := o.Place(t.Context(), judge(t, o, pod), "a")
		if err != nil {
			t.Fatal(err)
		}
		if len(written) != 1 || written[0].GetName() != want || written[0].(*v1.PersistentVolume).Spec.ClaimRef.Name != pod.Spec.Volumes[0].Name {
			t.Errorf("pod %s: got %v, want %s for its claim", pod.Name, written, want)
		}
		if o.Pending(pod.UID) != nil || o.Placed(pod.UID).Spec.NodeName != "a" {
			t.Errorf("pod %s is not where it was placed", pod.Name)
		}
	}
	want := "a VolumeBinding: node(s) didn't find available persistent volumes to bind (for good)\nb VolumeBinding: node(s) didn't find available persistent volumes to bind (for good)\n"
	if got := tell(judge(t, o, using("r", "e")), ""); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// What was assumed of a volume does not outlast a newer one.
	if err := o.Set(in(volume("large", "local", "9Gi"), v1.LabelHostname, "b")); err != nil {
		t.Fatal(err)
	}
	if v := judge(t, o, using("r", "e")); v.Feasible["b"] == nil || len(v.Feasible) != 1 {
		t.Errorf("got\n%swant b to fit", tell(v, ""))
	}
}

// A claim for which a volume is to be made is tied to the node.
func TestReserveProvisioned(t *testing.T) {
	o := newTest(t, "", append(three(), class("wait", "csi"), claim("c", "wait", "2Gi"))...)
	pod := using("p", "c")
	if err := o.Set(pod); err != nil {
		t.Fatal(err)
	}
	written, err := o.Place(t.Context(), judge(t, o, pod), "b")
	if err != nil {
		t.Fatal(err)
	}
	if len(written) != 1 || written[0].GetAnnotations()[storagehelpers.AnnSelectedNode] != "b" {
		t.Errorf("got %v, want the claim with its node", written)
	}
	if got := slices.Collect(maps.Keys(judge(t, o, using("q", "c")).Feasible)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("another pod with the claim fits on %v, want b", got)
	}
}
