package queue

import (
	"net/url"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	csiplugins "k8s.io/csi-translation-lib/plugins"
)

// VolumeLikeness covers all that the hints of the volume plugins read: the claims that a pod
// names, its disks and its drivers.
func VolumeLikeness(p *v1.Pod) likeness {
	var d digest
	d.text(p.Namespace)
	for _, c := range claimsOf(p) {
		d.text(c.name)
		d.flag(c.made)
	}
	d.text("") // no claim's name
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		switch {
		case v.GCEPersistentDisk != nil:
			d.text("gce")
			d.message(v.GCEPersistentDisk)
		case v.AWSElasticBlockStore != nil:
			d.text("ebs")
			d.message(v.AWSElasticBlockStore)
		case v.ISCSI != nil:
			d.text("iscsi")
			d.message(v.ISCSI)
		case v.RBD != nil:
			d.text("rbd")
			d.message(v.RBD)
		case v.CSI != nil:
			d.text("csi")
			d.text(v.CSI.Driver)
		}
		driver, odd := migrated(v)
		d.text(driver)
		d.flag(odd)
	}
	return d.sum()
}

// claimTopics are the claims that a pod names.
func claimTopics(p *Pod) (out []topic) {
	for _, c := range p.claims() {
		out = append(out, topic{of: namedClaims, namespace: p.Obj.Namespace, key: c.name})
	}
	return out
}

// names: the claim of the event is one that the pod names; made tells whether one counts
// that is made for the pod.
func names(p *Pod, e *Event, made bool) bool {
	c := e.obj.(*v1.PersistentVolumeClaim)
	return c.Namespace == p.Obj.Namespace && slices.ContainsFunc(p.claims(), func(own claim) bool {
		return own.name == c.Name && (made || !own.made)
	})
}

// NamesClaim: the claim of the event is one that the pod names, or that is made for it.
func NamesClaim(p *Pod, e *Event) bool { return names(p, e, true) }

// NamesGivenClaim: the claim of the event is one that the pod names itself.
func NamesGivenClaim(p *Pod, e *Event) bool { return names(p, e, false) }

// migrated is the CSI driver that takes care of an inline volume of a kind that had its code
// in Kubernetes once; "": it is none of those. odd: upstream can not tell what the driver
// would be asked for.
func migrated(v *v1.Volume) (driver string, odd bool) {
	switch {
	case v.GCEPersistentDisk != nil:
		return csiplugins.GCEPDDriverName, false
	case v.AWSElasticBlockStore != nil:
		return csiplugins.AWSEBSDriverName, !isEBS(v.AWSElasticBlockStore.VolumeID)
	case v.Cinder != nil:
		return csiplugins.CinderDriverName, false
	case v.AzureDisk != nil:
		kind := v.AzureDisk.Kind
		return csiplugins.AzureDiskDriverName, kind != nil && !strings.EqualFold(string(*kind), string(v1.AzureManagedDisk))
	case v.AzureFile != nil:
		return csiplugins.AzureFileDriverName, false
	case v.VsphereVolume != nil:
		return csiplugins.VSphereDriverName, false
	case v.PortworxVolume != nil:
		return csiplugins.PortworxDriverName, false
	}
	return "", false
}

// isEBS tells whether an id is one of the two forms that upstream takes: a volume's own, or
// aws://zone/volume.
func isEBS(id string) bool {
	if !strings.HasPrefix(id, "aws://") {
		return true
	}
	u, err := url.Parse(id)
	if err != nil {
		return false
	}
	volume := strings.Trim(u.Path, "/")
	return strings.HasPrefix(volume, "vol-") && !strings.Contains(volume, "/")
}
