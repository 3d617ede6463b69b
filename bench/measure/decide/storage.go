package main

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

const (
	driver       = "disk.csi.example.com"
	storageClass = "wait"
	localClass   = "local"
	// attachable is how many disks a node takes, of 110 pods.
	attachable = 39
)

// storage is the class of all claims.
func storage() []oracle.Object {
	return []oracle.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: storageClass}, Provisioner: driver,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		},
	}
}

// attaches says how many disks a node takes.
func attaches(node *v1.Node) []oracle.Object {
	return []oracle.Object{&storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: driver, NodeID: node.Name, TopologyKeys: []string{v1.LabelTopologyZone},
			Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To[int32](attachable)},
		}}},
	}}
}

// claimed gives a pod a claim: with its volume where the pod is on a node, else without.
func claimed(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
	modest(m, b, i, on)
	p := b.Obj()
	claim := claim(p, storageClass)
	if on == nil {
		return []oracle.Object{claim}
	}
	volume := volume("volume-"+p.Name, claim, v1.LabelTopologyZone, on.Labels[v1.LabelTopologyZone])
	volume.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: claim.Name}
	return bind(claim, volume)
}

// localStorage is the class of volumes that are there before their claims.
func localStorage() []oracle.Object {
	return []oracle.Object{&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: localClass}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}}
}

// localVolume is the volume that is free on a node.
func localVolume(node *v1.Node) []oracle.Object {
	return []oracle.Object{localOf(node.Name, "local-"+node.Name, &v1.PersistentVolumeClaim{Spec: claimSpec(localClass)})}
}

func localOf(node, name string, claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	volume := volume(name, claim, v1.LabelHostname, node)
	volume.Spec.Local = &v1.LocalVolumeSource{Path: "/mnt/" + name}
	return volume
}

// locallyClaimed gives a pod a claim for such a volume. A pod that is on a node already has
// one beside the free one.
func locallyClaimed(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
	modest(m, b, i, on)
	p := b.Obj()
	claim := claim(p, localClass)
	if on == nil {
		return []oracle.Object{claim}
	}
	return bind(claim, localOf(on.Name, "used-"+p.Name, claim))
}

// takesLocal is what a placement makes of claim and volume.
func takesLocal(p *v1.Pod, d *decision) ([]oracle.Object, error) {
	c := claim(p.DeepCopy(), localClass)
	volume := localOf(d.Node, "local-"+d.Node, c)
	return bind(c, volume), nil
}

// claim gives a pod a claim that has no volume yet.
func claim(p *v1.Pod, class string) *v1.PersistentVolumeClaim {
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name},
	}}}
	c := &v1.PersistentVolumeClaim{ObjectMeta: meta(p.Name), Spec: claimSpec(class)}
	c.UID, c.Status.Phase = types.UID("claim-"+p.Name), v1.ClaimPending
	return c
}

func claimSpec(class string) v1.PersistentVolumeClaimSpec {
	return v1.PersistentVolumeClaimSpec{
		AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		StorageClassName: ptr.To(class),
		Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")}},
	}
}

// bind binds a claim and a volume to each other.
func bind(c *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) []oracle.Object {
	c.Spec.VolumeName, c.Status.Phase = pv.Name, v1.ClaimBound
	c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
	pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	pv.Status.Phase = v1.VolumeBound
	return []oracle.Object{pv, c}
}

// volume is one such as a claim asks for, where a label of the nodes has a value.
func volume(name string, c *v1.PersistentVolumeClaim, key, value string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("volume-" + name)},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: c.Spec.AccessModes, StorageClassName: *c.Spec.StorageClassName,
			Capacity: c.Spec.Resources.Requests,
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}}},
			}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}
