package conformance

import (
	v1 "k8s.io/api/core/v1"
)

// diskFamily gives pods disks that they name themselves, which not any two pods may use
// on one node.
type diskFamily struct {
	calm
	g *generator
}

func (f *diskFamily) pod(p *v1.Pod) Round {
	if f.g.chance(50) {
		return nil
	}
	for range oneOf(f.g.strange, 1, 1, 2, 3) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "disk", VolumeSource: f.source()})
	}
	return nil
}

func (f *diskFamily) source() v1.VolumeSource {
	g := f.g
	readOnly := g.chance(50)
	switch g.IntN(5) {
	case 0:
		return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: oneOf(g.strange, "pd-1", "pd-2", "pd-3"),
			ReadOnly: readOnly}}
	case 1:
		return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: oneOf(g.strange, "vol-1", "vol-2",
			"vol-3"), ReadOnly: readOnly}}
	case 2:
		return v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{
			TargetPortal: "10.0.0.1", IQN: oneOf(g.strange, "iqn.2001:a", "iqn.2001:b"), Lun: int32(g.IntN(2)), ReadOnly: readOnly,
		}}
	case 3:
		rbd := &v1.RBDVolumeSource{RBDImage: oneOf(g.strange, "image", "other"), RBDPool: oneOf(g.strange, "rbd", "pool"),
			ReadOnly: readOnly}
		for _, monitor := range []string{"a", "b", "c"} {
			if g.chance(50) {
				rbd.CephMonitors = append(rbd.CephMonitors, monitor)
			}
		}
		return v1.VolumeSource{RBD: rbd}
	}
	return v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
}
