package objects

import (
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxNodeID is how long a driver's name for a node may be.
const maxNodeID = 256

// size checks a number of bytes of storage. It may be larger than other quantities: it is
// compared, and never summed.
func (c *checker) size(p *field.Path, q resource.Quantity, positive bool) {
	switch {
	case q.Sign() < 0 && !positive:
		c.invalid(p, short(q.String()), "must be greater than or equal to 0")
	case q.Sign() <= 0 && positive:
		c.invalid(p, short(q.String()), "must be greater than zero")
	case q.AsApproximateFloat64() > math.MaxInt64:
		c.invalid(p, short(q.String()), "is absurdly large: more than %d", int64(math.MaxInt64))
	}
}

func (c *checker) persistentVolume(v *v1.PersistentVolume, p *field.Path) {
	s := &v.Spec
	if len(s.AccessModes) == 0 {
		c.add(field.Required(p.Child("accessModes"), ""))
	}
	c.accessModes(p.Child("accessModes"), s.AccessModes)
	capacity := p.Child("capacity")
	if q, has := s.Capacity[v1.ResourceStorage]; has {
		c.size(capacity.Key(string(v1.ResourceStorage)), q, true)
	}
	switch _, has := s.Capacity[v1.ResourceStorage]; {
	case len(s.Capacity) == 0:
		c.add(field.Required(capacity, ""))
	case !has || len(s.Capacity) > 1:
		c.add(field.NotSupported(capacity, short(strings.Join(resourceNames(s.Capacity), ", ")), []v1.ResourceName{v1.ResourceStorage}))
	}
	oneOf(c, p.Child("persistentVolumeReclaimPolicy"), s.PersistentVolumeReclaimPolicy,
		v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle, v1.PersistentVolumeReclaimRetain)
	c.oneSource(p, sources(s.PersistentVolumeSource))
	c.volumeMode(p.Child("volumeMode"), s.VolumeMode)
	c.className(p.Child("storageClassName"), s.StorageClassName)
	c.volumeAffinity(p.Child("nodeAffinity"), s)
	if s.CSI != nil {
		c.csiDriverName(p.Child("csi", "driver"), s.CSI.Driver)
		c.present(p.Child("csi", "volumeHandle"), s.CSI.VolumeHandle)
	}
}

func resourceNames(list v1.ResourceList) []string {
	var names []string
	for _, name := range keysOf(list) {
		names = append(names, string(name))
	}
	return names
}

func (c *checker) volumeAffinity(p *field.Path, s *v1.PersistentVolumeSpec) {
	switch a := s.NodeAffinity; {
	case a == nil && s.Local != nil:
		c.add(field.Required(p, "Local volume requires node affinity"))
	case a == nil:
	case a.Required == nil:
		c.add(field.Required(p.Child("required"), "must specify required node constraints"))
	default:
		c.nodeSelector(p.Child("required"), a.Required)
	}
}

func (c *checker) storageClass(s *storagev1.StorageClass) {
	provisioner := field.NewPath("provisioner")
	c.qualifiedName(provisioner, strings.ToLower(s.Provisioner))
	oneOf(c, field.NewPath("reclaimPolicy"), *s.ReclaimPolicy, v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRetain)
	oneOf(c, field.NewPath("volumeBindingMode"), *s.VolumeBindingMode, storagev1.VolumeBindingImmediate,
		storagev1.VolumeBindingWaitForFirstConsumer)
	topologies := field.NewPath("allowedTopologies")
	for i := range s.AllowedTopologies {
		c.topologyTerm(topologies.Index(i).Child("matchLabelExpressions"), s.AllowedTopologies[i].MatchLabelExpressions)
	}
}

func (c *checker) topologyTerm(p *field.Path, requirements []v1.TopologySelectorLabelRequirement) {
	keys := map[string]bool{}
	for i, r := range requirements {
		p := p.Index(i)
		c.qualifiedName(p.Child("key"), r.Key)
		unique(c, keys, p.Child("key"), short(r.Key))
		if len(r.Values) == 0 {
			c.add(field.Required(p.Child("values"), ""))
		}
		values := map[string]bool{}
		for j, value := range r.Values {
			unique(c, values, p.Child("values").Index(j), short(value))
		}
	}
}

// csiDrivers checks the drivers of a node.
func (c *checker) csiDrivers(p *field.Path, drivers []storagev1.CSINodeDriver) {
	names := map[string]bool{}
	for i := range drivers {
		d, p := &drivers[i], p.Index(i)
		c.csiDriverName(p.Child("name"), d.Name)
		unique(c, names, p.Child("name"), short(d.Name))
		c.present(p.Child("nodeID"), d.NodeID)
		if len(d.NodeID) > maxNodeID {
			c.invalid(p.Child("nodeID"), short(d.NodeID), "must be %d characters or less", maxNodeID)
		}
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			c.atLeast(p.Child("allocatable", "count"), int64(*d.Allocatable.Count), 0)
		}
		keys := map[string]bool{}
		for _, key := range d.TopologyKeys {
			c.qualifiedName(p, key)
			unique(c, keys, p, short(key))
		}
	}
}

func (c *checker) csiStorageCapacity(s *storagev1.CSIStorageCapacity) {
	c.subdomain(field.NewPath("storageClassName"), s.StorageClassName)
	c.labelSelector(field.NewPath("nodeTopology"), s.NodeTopology)
	if s.Capacity != nil {
		c.size(field.NewPath("capacity"), *s.Capacity, false)
	}
	if s.MaximumVolumeSize != nil {
		c.size(field.NewPath("maximumVolumeSize"), *s.MaximumVolumeSize, false)
	}
}

func (c *checker) volumeAttachment(a *storagev1.VolumeAttachment, p *field.Path) {
	c.csiDriverName(p.Child("attacher"), a.Spec.Attacher)
	c.subdomain(p.Child("nodeName"), a.Spec.NodeName)
	source := p.Child("source")
	const exactlyOne = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	name, inline := a.Spec.Source.PersistentVolumeName, a.Spec.Source.InlineVolumeSpec
	switch {
	case name == nil && inline == nil:
		c.add(field.Required(source, exactlyOne))
	case name != nil && inline != nil:
		c.add(field.Forbidden(source, exactlyOne))
	case name != nil:
		c.subdomain(source.Child("persistentVolumeName"), *name)
	}
}
