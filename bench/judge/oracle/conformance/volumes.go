package conformance

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// Storage classes, by what becomes of a claim of theirs.
const (
	classImmediate = "immediate" // bound before any pod asks for it
	classWait      = "wait"      // bound where a pod is: to a volume that there is, or to one that is made
	classLocal     = "local"     // bound where a pod is, to a volume that there is
	classTopology  = "topology"  // volumes can be made in some zones only
	classCapacity  = "capacity"  // volumes can be made where there is room
	classNoMode    = "no-mode"   // says nothing of when
	classInTree    = "in-tree"   // volumes of a plugin that was moved out
	classMissing   = "missing"   // that there isn't
)

// Drivers.
const (
	driverPlain    = "csi.example.com"
	driverCapacity = "capacity.example.com"
	driverGCE      = "pd.csi.storage.gke.io"
	driverAWS      = "ebs.csi.aws.com"
	pluginGCE      = "kubernetes.io/gce-pd"
	pluginAWS      = "kubernetes.io/aws-ebs"
)

// provisioner is what makes the volumes of a class.
func provisioner(class string) string {
	switch class {
	case classLocal:
		return storagehelpers.NotSupportedProvisioner
	case classCapacity:
		return driverCapacity
	case classInTree:
		return pluginGCE
	}
	return driverPlain
}

// volumeFamily gives pods claims.
type volumeFamily struct {
	g      *generator
	made   int
	shared []*v1.PersistentVolumeClaim // that further pods may use
	pool   []*v1.PersistentVolume      // that claims may be bound to
	rooms  []*storagev1.CSIStorageCapacity
}

func newVolumeFamily(g *generator) *volumeFamily { return &volumeFamily{g: g} }

func (f *volumeFamily) first() (out Round) {
	for _, class := range []string{classImmediate, classWait, classLocal, classTopology, classCapacity, classNoMode, classInTree} {
		out = append(out, set(f.class(class)))
	}
	out = append(out, set(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverPlain}}),
		set(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverCapacity},
			Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(f.g.chance(85))}}))
	for i := range f.g.IntN(6) {
		f.rooms = append(f.rooms, f.capacity(i))
		out = append(out, set(f.rooms[i]))
	}
	for _, n := range f.g.cluster.Nodes {
		out = append(out, f.storageOf(n)...)
	}
	for range f.g.IntN(2 + len(f.g.cluster.Nodes)) {
		out = append(out, set(f.volume(oneOf(f.g.strange, classWait, classWait, classLocal, classTopology))))
	}
	for range f.g.IntN(4) {
		out = append(out, set(f.attachment()))
	}
	return out
}

func (f *volumeFamily) node(n *v1.Node) {
	f.g.place(n)
	if f.g.chance(20) {
		n.Labels[v1.LabelFailureDomainBetaZone] = f.g.zone()
	}
}

func (f *volumeFamily) class(name string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner(name),
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
	switch name {
	case classImmediate:
		c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
	case classNoMode:
		c.VolumeBindingMode = nil
	case classTopology:
		for range 1 + f.g.IntN(2) {
			c.AllowedTopologies = append(c.AllowedTopologies,
				v1.TopologySelectorTerm{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
					{Key: v1.LabelTopologyZone, Values: []string{f.g.zone(), f.g.zone()}},
				}})
		}
	}
	return c
}

func (f *volumeFamily) size() resource.Quantity {
	return resource.MustParse(oneOf(f.g.strange, "1Gi", "5Gi", "5Gi", "10Gi", "20Gi"))
}

// capacity is how much room there is for volumes somewhere.
func (f *volumeFamily) capacity(i int) *storagev1.CSIStorageCapacity {
	g := f.g
	c := &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Name: fmt.Sprintf("room-%d", i), Namespace: "default"},
		StorageClassName: oneOf(g.strange, classCapacity, classCapacity, classCapacity, classWait),
		NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: f.g.zone()}},
	}
	switch g.IntN(8) {
	case 0:
		c.NodeTopology = nil
	case 1:
		c.NodeTopology = &metav1.LabelSelector{}
	case 2:
		c.NodeTopology = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: rack,
			Operator: metav1.LabelSelectorOpExists}}}
	}
	f.fill(c)
	return c
}

// fill says how large a capacity is; the rest of one can't be changed.
func (f *volumeFamily) fill(c *storagev1.CSIStorageCapacity) {
	c.Capacity, c.MaximumVolumeSize = nil, nil
	if f.g.chance(85) {
		c.Capacity = ptr.To(f.size())
	}
	if f.g.chance(30) {
		c.MaximumVolumeSize = ptr.To(f.size())
	}
}

// storageOf is what a node can attach, and the volumes that are in it.
func (f *volumeFamily) storageOf(n *v1.Node) (out Round) {
	g := f.g
	if g.chance(80) {
		out = append(out, set(f.csiNode(n.Name)))
	}
	// Sizes differ, so that which volume is the smallest is told.
	for i := range g.IntN(3) {
		pv := f.volume(classLocal)
		pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse(fmt.Sprintf("%dMi", 1024*(1+4*i)+g.IntN(500)))
		pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/disk"}}
		pv.Spec.NodeAffinity = within(v1.LabelHostname, n.Name)
		out = append(out, set(pv))
	}
	return out
}

func (f *volumeFamily) csiNode(name string) *storagev1.CSINode {
	g := f.g
	c := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, driver := range []string{driverPlain, driverCapacity, driverGCE, driverAWS} {
		if g.chance(25) {
			continue
		}
		d := storagev1.CSINodeDriver{Name: driver, NodeID: name}
		if g.chance(75) {
			d.Allocatable = &storagev1.VolumeNodeResources{}
			if g.chance(90) {
				d.Allocatable.Count = ptr.To(oneOf[int32](g.strange, 0, 1, 1, 2, 3, 8))
			}
		}
		c.Spec.Drivers = append(c.Spec.Drivers, d)
	}
	if g.chance(60) {
		c.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: oneOf(g.strange, pluginGCE, pluginAWS, pluginGCE+","+pluginAWS,
			"")}
	}
	return c
}

// volume is one that claims may be bound to. No two have the same size: with equals
// upstream takes any.
func (f *volumeFamily) volume(class string) *v1.PersistentVolume {
	g := f.g
	f.made++
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pv-%d", f.made),
		Labels: map[string]string{"kind": oneOf(g.strange, "fast", "slow")}}}
	pv.UID = types.UID(pv.Name)
	pv.Spec = v1.PersistentVolumeSpec{
		Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dMi",
			oneOf(g.strange, 1024, 5120, 10240)+f.made))},
		AccessModes: oneOf(g.strange, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany}, []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}),
		StorageClassName: class,
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: provisioner(class),
			VolumeHandle: pv.Name}},
	}
	if class == classLocal {
		pv.Spec.CSI.Driver = driverPlain
	}
	pv.Status.Phase = v1.VolumeAvailable
	if g.chance(70) {
		pv.Spec.NodeAffinity = within(v1.LabelTopologyZone, f.g.zone(), f.g.zone())
	}
	switch g.IntN(25) {
	case 0:
		pv.Status.Phase = oneOf(g.strange, v1.VolumePending, v1.VolumeReleased, "")
	case 1:
		pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	case 2:
		pv.Spec.VolumeAttributesClassName = ptr.To("gold")
	case 3:
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "somebody", UID: "somebody"}
	case 4:
		pv.DeletionTimestamp = &metav1.Time{Time: time.Unix(epoch+100, 0)}
	case 5:
		pv.Annotations = map[string]string{v1.BetaStorageClassAnnotation: oneOf(g.strange, classWait, classLocal)}
	}
	f.pool = append(f.pool, pv)
	return pv
}

func (f *volumeFamily) attachment() *storagev1.VolumeAttachment {
	g := f.g
	f.made++
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("attachment-%d", f.made)}}
	a.Spec = storagev1.VolumeAttachmentSpec{Attacher: oneOf(g.strange, driverPlain, driverGCE, driverCapacity),
		NodeName: oneOf(g.strange, g.cluster.Nodes...).Name}
	switch {
	case len(f.pool) > 0 && g.chance(60):
		a.Spec.Source.PersistentVolumeName = &oneOf(g.strange, f.pool...).Name
	case g.chance(70):
		a.Spec.Source.PersistentVolumeName = ptr.To("not-there")
	}
	return a
}

func (f *volumeFamily) change() Round {
	g := f.g
	switch g.IntN(9) {
	case 0:
		if len(g.nodes) > 0 {
			return Round{set(f.csiNode(oneOf(g.strange, g.nodes...).Name))}
		}
	case 1:
		if len(f.rooms) > 0 {
			i := g.IntN(len(f.rooms))
			f.rooms[i] = f.rooms[i].DeepCopy()
			f.fill(f.rooms[i])
			return Round{set(f.rooms[i])}
		}
	case 2:
		return Round{set(f.volume(oneOf(g.strange, classWait, classLocal)))}
	case 3:
		if len(f.pool) > 0 {
			return Round{{Type: Removed, Object: oneOf(g.strange, f.pool...)}}
		}
	case 4:
		if len(f.shared) > 0 {
			return Round{{Type: Removed, Object: oneOf(g.strange, f.shared...)}}
		}
	case 5:
		return Round{set(f.attachment())}
	case 6:
		return Round{set(f.class(oneOf(g.strange, classTopology, classWait)))}
	}
	return Round{{Type: Settled, Fate: g.Uint64()}}
}
