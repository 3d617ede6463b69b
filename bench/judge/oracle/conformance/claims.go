package conformance

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// pod gives a pod claims, new ones or some that other pods use too.
func (f *volumeFamily) pod(p *v1.Pod) (out Round) {
	g := f.g
	if g.chance(35) {
		return nil
	}
	for i := range oneOf(g.strange, 1, 1, 1, 2, 3) {
		name := fmt.Sprintf("volume-%d", i)
		use := func(claim string) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}})
		}
		switch n := g.IntN(20); {
		case n == 0:
			use("not-there")
		case n == 1:
			out = append(out, f.ephemeral(p, name)...)
		case n < 6 && len(f.shared) > 0:
			claim := oneOf(g.strange, f.shared...)
			// Differs from upstream: of a claim that is mounted twice we take one volume.
			if !mounts(p, claim.Name) {
				p.Namespace = claim.Namespace
				use(claim.Name)
			}
		default:
			claim, objects := f.claim(p)
			use(claim.Name)
			out = append(out, objects...)
			f.shared = append(f.shared, claim)
		}
	}
	return out
}

// mounts tells whether a pod has a claim.
func mounts(p *v1.Pod, claim string) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// ephemeral gives a pod a volume of which the claim is made for it, or isn't yet.
func (f *volumeFamily) ephemeral(p *v1.Pod, name string) Round {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
	if f.g.chance(15) {
		return nil
	}
	claim, out := f.claim(p)
	claim.Name = p.Name + "-" + name
	// Upstream ends every pod's attempt with an error that comes to a node with a pod whose
	// claim is another's.
	if p.Spec.NodeName != "" || f.g.chance(90) {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}}
	}
	return out
}

// claim is a new claim, with the volume that it is bound to.
func (f *volumeFamily) claim(p *v1.Pod) (*v1.PersistentVolumeClaim, Round) {
	g := f.g
	f.made++
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%d", f.made), Namespace: p.Namespace,
		Annotations: map[string]string{}}}
	claim.UID = types.UID(claim.Name)
	claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{oneOf(g.strange, v1.ReadWriteOnce, v1.ReadWriteOnce, v1.ReadWriteOnce,
		v1.ReadWriteMany, v1.ReadWriteOncePod)}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: f.size()}
	claim.Spec.StorageClassName = ptr.To(oneOf(g.strange, classWait, classWait, classWait, classLocal, classLocal, classTopology,
		classCapacity, classCapacity, classInTree))
	claim.Status.Phase = v1.ClaimPending
	if p.Spec.NodeName != "" || g.chance(45) {
		return claim, f.boundClaim(claim)
	}
	f.unbound(claim)
	return claim, Round{set(claim)}
}

// unbound makes some claims that wait special.
func (f *volumeFamily) unbound(claim *v1.PersistentVolumeClaim) {
	g := f.g
	switch g.IntN(24) {
	case 0:
		claim.Spec.StorageClassName = ptr.To(oneOf(g.strange, classImmediate, classMissing, classNoMode, ""))
	case 1:
		claim.Spec.StorageClassName = nil
	case 2:
		claim.Annotations[storagehelpers.AnnSelectedNode] = oneOf(g.strange, g.cluster.Nodes...).Name
	case 3:
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": oneOf(g.strange, "fast", "slow")}}
	case 4:
		claim.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	case 5:
		claim.Spec.VolumeAttributesClassName = ptr.To("gold")
	case 6:
		claim.Spec.VolumeName = "not-there" // chosen by its maker, not yet bound
	case 7:
		claim.Status.Phase = v1.ClaimLost
	case 8:
		claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(epoch+100, 0)}
	case 9:
		claim.Spec.Resources.Requests = nil
	case 10:
		claim.Spec.StorageClassName = nil
		claim.Annotations[v1.BetaStorageClassAnnotation] = classWait
	}
	if len(f.pool) > 0 && g.chance(8) { // a volume is kept for it
		pv := oneOf(g.strange, f.pool...)
		if pv.Spec.ClaimRef == nil {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name}
			if g.chance(50) {
				pv.Spec.ClaimRef.UID = claim.UID
			}
		}
	}
}

// boundClaim binds a claim to a new volume.
func (f *volumeFamily) boundClaim(claim *v1.PersistentVolumeClaim) Round {
	g := f.g
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-" + claim.Name, Labels: map[string]string{}}}
	pv.UID = types.UID(pv.Name)
	pv.Spec.Capacity, pv.Spec.AccessModes = claim.Spec.Resources.Requests, claim.Spec.AccessModes
	pv.Spec.StorageClassName = *claim.Spec.StorageClassName
	pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name,
		UID: claim.UID}
	pv.Status.Phase = v1.VolumeBound
	f.source(pv)
	f.where(pv)
	claim.Spec.VolumeName = pv.Name
	claim.Status.Phase = v1.ClaimBound
	claim.Annotations[storagehelpers.AnnBindCompleted] = "yes"
	if g.chance(3) {
		return Round{set(claim)} // its volume is gone
	}
	return Round{set(pv), set(claim)}
}

func (f *volumeFamily) source(pv *v1.PersistentVolume) {
	g := f.g
	switch g.IntN(6) {
	case 0:
		pv.Spec.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: pv.Name}
	case 1:
		pv.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://" + f.g.zone() + "/vol-" + pv.Name}
	case 2:
		pv.Spec.NFS = &v1.NFSVolumeSource{Server: "nfs", Path: "/"}
	default:
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: oneOf(g.strange, driverPlain, driverPlain, driverCapacity, driverGCE),
			VolumeHandle: pv.Name}
		if g.chance(10) {
			pv.Spec.CSI.VolumeHandle = "one-for-many"
		}
	}
}

// zones are some of one region, as a volume's label has them: upstream ends a pod's attempt
// with an error where it comes to a volume of a moved plugin that is in two.
func (f *volumeFamily) zones() string {
	zone := f.g.zone()
	return oneOf(f.g.strange, zone+"__"+regionOf(zone)+"-a", regionOf(zone)+"-a__"+regionOf(zone)+"-b")
}

// where says where a volume can be used: by affinity, by labels, or both.
func (f *volumeFamily) where(pv *v1.PersistentVolume) {
	g := f.g
	if g.chance(40) {
		pv.Spec.NodeAffinity = within(v1.LabelTopologyZone, f.g.zone(), f.g.zone())
	}
	if g.chance(10) {
		pv.Spec.NodeAffinity = within(v1.LabelHostname, oneOf(g.strange, g.cluster.Nodes...).Name)
	}
	if g.chance(30) {
		key := oneOf(g.strange, v1.LabelTopologyZone, v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone)
		pv.Labels[key] = oneOf(g.strange, g.zone(), g.zone(), f.zones(), f.zones())
	}
	if g.chance(15) {
		key := oneOf(g.strange, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaRegion)
		pv.Labels[key] = oneOf(g.strange, "eu-north1", "eu-south1")
	}
}
