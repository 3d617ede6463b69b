package volumes

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
)

const (
	hostname = "kubernetes.io/hostname"
	zone     = "topology.kubernetes.io/zone"
)

// words are the arguments of a line: "key=value" or "key" each.
type words map[string]string

func wordsOf(list []string) words {
	w := words{}
	for _, word := range list {
		key, value, _ := strings.Cut(word, "=")
		w[key] = value
	}
	return w
}

func (w words) has(key string) bool { _, ok := w[key]; return ok }

// meta is an object's, with version=N as its resourceVersion.
func (w words) meta(name string, namespaced bool) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: w["version"]}
	if namespaced {
		m.Namespace = "default"
	}
	if w.has("uid") {
		m.UID = types.UID(w["uid"])
	}
	return m
}

func (w words) list(key string) []string {
	if !w.has(key) {
		return nil
	}
	return strings.Split(w[key], ",")
}

func sizeOf(text string) v1.ResourceList {
	if text == "" {
		return nil
	}
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
}

// claim: class= old=class size= modes= volume= complete selected= owner= tier=
func (w words) claim(name string) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: w.meta(name, true)}
	class := w["class"]
	c.Spec.StorageClassName = &class
	c.Spec.Resources.Requests = sizeOf(w["size"])
	c.Spec.VolumeName = w["volume"]
	for _, m := range w.list("modes") {
		c.Spec.AccessModes = append(c.Spec.AccessModes, v1.PersistentVolumeAccessMode(m))
	}
	if w.has("complete") {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storage.AnnBindCompleted, "yes")
	}
	if w.has("selected") {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storage.AnnSelectedNode, w["selected"])
	}
	if w.has("old") {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1.BetaStorageClassAnnotation, w["old"])
	}
	if w.has("owner") {
		yes := true
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: types.UID(w["owner"]), Controller: &yes}}
	}
	if w.has("tier") {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": w["tier"]}}
	}
	return c
}

// volume: class= old=class size= modes= node= zone= csi=driver/handle ebs=id phase= ref=claim[:uid] tier=
func (w words) volume(name string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: w.meta(name, false)}
	pv.Spec.StorageClassName = w["class"]
	if w.has("old") {
		metav1.SetMetaDataAnnotation(&pv.ObjectMeta, v1.BetaStorageClassAnnotation, w["old"])
	}
	pv.Spec.Capacity = sizeOf(w["size"])
	pv.Status.Phase = v1.VolumeAvailable
	if w.has("phase") {
		pv.Status.Phase = v1.PersistentVolumePhase(w["phase"])
	}
	for _, m := range w.list("modes") {
		pv.Spec.AccessModes = append(pv.Spec.AccessModes, v1.PersistentVolumeAccessMode(m))
	}
	if driver, handle, ok := strings.Cut(w["csi"], "/"); ok {
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	}
	if w.has("ebs") {
		pv.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: w["ebs"]}
	}
	if w.has("ref") {
		claim, uid, given := strings.Cut(w["ref"], ":")
		if !given {
			uid = "uid-" + claim
		}
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: claim, UID: types.UID(uid)}
	}
	if w.has("tier") {
		pv.Labels = map[string]string{"tier": w["tier"]}
	}
	var needs []v1.NodeSelectorRequirement
	for _, key := range []string{"node", "zone"} {
		if w.has(key) {
			label := map[string]string{"node": hostname, "zone": zone}[key]
			needs = append(needs, v1.NodeSelectorRequirement{Key: label, Operator: v1.NodeSelectorOpIn, Values: w.list(key)})
		}
	}
	if needs != nil {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: needs}}}}
	}
	return pv
}

// class: provisioner= wait modeless topology=zone,zone
func (w words) class(name string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingImmediate
	if w.has("wait") {
		mode = storagev1.VolumeBindingWaitForFirstConsumer
	}
	c := &storagev1.StorageClass{ObjectMeta: w.meta(name, false), Provisioner: w["provisioner"], VolumeBindingMode: &mode}
	if w.has("modeless") {
		c.VolumeBindingMode = nil
	}
	if w.has("topology") {
		c.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: zone, Values: w.list("topology")}}}}
	}
	return c
}

// capacity: class= size= largest= zone=
func (w words) capacity(name string) *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{ObjectMeta: w.meta(name, true), StorageClassName: w["class"]}
	quantity := func(key string) *resource.Quantity {
		if !w.has(key) {
			return nil
		}
		q := resource.MustParse(w[key])
		return &q
	}
	c.Capacity, c.MaximumVolumeSize = quantity("size"), quantity("largest")
	if w.has("zone") {
		c.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{zone: w["zone"]}}
	}
	return c
}

// object makes an object of any kind but pods.
func (w words) object(kind, name string) objects.Object {
	switch kind {
	case "claim":
		return w.claim(name)
	case "volume":
		return w.volume(name)
	case "class":
		return w.class(name)
	case "capacity":
		return w.capacity(name)
	case "driver":
		told := w.has("capacity")
		return &storagev1.CSIDriver{ObjectMeta: w.meta(name, false), Spec: storagev1.CSIDriverSpec{StorageCapacity: &told}}
	case "attachment":
		volume := w["volume"]
		return &storagev1.VolumeAttachment{ObjectMeta: w.meta(name, false), Spec: storagev1.VolumeAttachmentSpec{
			Attacher: w["attacher"], NodeName: w["node"], Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		}}
	case "csinode":
		return w.csiNode(name)
	case "node":
		n := &v1.Node{ObjectMeta: w.meta(name, false)}
		n.Labels = map[string]string{hostname: name}
		if w.has("zone") {
			n.Labels[zone] = w["zone"]
		}
		return n
	}
	return nil
}

// csiNode: driver=limit, or driver= without one; migrated=plugin,plugin
func (w words) csiNode(name string) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: w.meta(name, false)}
	for key, value := range w {
		if key == "migrated" {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1.MigratedPluginsAnnotationKey, value)
			continue
		}
		d := storagev1.CSINodeDriver{Name: key}
		if value != "" {
			var count int32
			fmt.Sscan(value, &count)
			d.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	return n
}

// podOf makes a pod of its volumes: a claim's name, own:name for an ephemeral volume,
// ebs:id for an inline disk, and "empty".
func podOf(name string, volumes []string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	for i, text := range volumes {
		vol := v1.Volume{Name: fmt.Sprint("v", i)}
		kind, rest, ok := strings.Cut(text, ":")
		switch {
		case text == "empty":
			vol.EmptyDir = &v1.EmptyDirVolumeSource{}
		case ok && kind == "own":
			vol.Name = rest
			vol.Ephemeral = &v1.EphemeralVolumeSource{}
		case ok && kind == "ebs":
			vol.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: rest}
		default:
			vol.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: text}
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, vol)
	}
	return pod
}

// registry numbers counters and remembers what they are for.
type registry struct{ names []string }

func (r *registry) Reserve(key string) uint32 {
	for i, name := range r.names {
		if name == key {
			return uint32(i + 1)
		}
	}
	r.names = append(r.names, key)
	return uint32(len(r.names))
}

func (r *registry) name(id uint32) string {
	if id == 0 {
		return "none"
	}
	return r.names[id-1]
}
