package objects

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumes checks the volumes of the pod: names, that each has one source, and of those
// sources that the scheduler reads what it reads.
func (c *checker) volumes(p *field.Path, volumes []v1.Volume) {
	names, created := map[string]bool{}, map[string]bool{}
	for i := range volumes {
		if volumes[i].Ephemeral != nil {
			created[c.pod.Name+"-"+volumes[i].Name] = true
		}
	}
	for i := range volumes {
		v, p := &volumes[i], p.Index(i)
		c.dnsLabel(p.Child("name"), v.Name)
		unique(c, names, p.Child("name"), short(v.Name))
		c.oneSource(p, sources(v.VolumeSource))
		c.volumeSource(p, v)
		if claim := v.PersistentVolumeClaim; claim != nil && created[claim.ClaimName] {
			c.invalid(p.Child("persistentVolumeClaim", "claimName"), short(claim.ClaimName),
				"must not reference a PVC that gets created for an ephemeral volume")
		}
	}
}

// oneSource wants a volume to have exactly one source.
func (c *checker) oneSource(p *field.Path, sources []string) {
	if len(sources) == 0 {
		c.add(field.Required(p, "must specify a volume type"))
		return
	}
	for _, name := range sources[1:] {
		c.add(field.Forbidden(p.Child(name), "may not specify more than 1 volume type"))
	}
}

func (c *checker) volumeSource(p *field.Path, v *v1.Volume) {
	if s := v.GCEPersistentDisk; s != nil {
		c.present(p.Child("gcePersistentDisk", "pdName"), s.PDName)
	}
	if s := v.AWSElasticBlockStore; s != nil {
		c.present(p.Child("awsElasticBlockStore", "volumeID"), s.VolumeID)
	}
	if s := v.ISCSI; s != nil {
		c.present(p.Child("iscsi", "targetPortal"), s.TargetPortal)
		c.iqn(p.Child("iscsi", "iqn"), s.IQN)
	}
	if s := v.RBD; s != nil {
		c.rbd(p.Child("rbd"), s.CephMonitors, s.RBDImage)
	}
	if s := v.PersistentVolumeClaim; s != nil {
		c.present(p.Child("persistentVolumeClaim", "claimName"), s.ClaimName)
	}
	if s := v.CSI; s != nil {
		c.csiDriverName(p.Child("csi", "driver"), s.Driver)
	}
	if s := v.Ephemeral; s != nil {
		c.ephemeral(p, v.Name, s.VolumeClaimTemplate)
	}
}

// present wants a string that is not empty.
func (c *checker) present(p *field.Path, s string) {
	if s == "" {
		c.add(field.Required(p, ""))
	}
}

func (c *checker) iqn(p *field.Path, s string) {
	switch {
	case s == "":
		c.add(field.Required(p, ""))
	case !strings.HasPrefix(s, "iqn") && !strings.HasPrefix(s, "eui") && !strings.HasPrefix(s, "naa"):
		c.invalid(p, short(s), "must be valid format starting with iqn, eui, or naa")
	}
}

func (c *checker) rbd(p *field.Path, monitors []string, image string) {
	if len(monitors) == 0 {
		c.add(field.Required(p.Child("monitors"), ""))
	}
	c.present(p.Child("image"), image)
}

// ephemeral checks a volume whose claim is made for the pod: the claim's name has to be
// one.
func (c *checker) ephemeral(p *field.Path, volume string, t *v1.PersistentVolumeClaimTemplate) {
	template := p.Child("ephemeral", "volumeClaimTemplate")
	if t == nil {
		c.add(field.Required(template, ""))
		return
	}
	c.labels(template.Child("metadata", "labels"), t.Labels)
	c.claimSpec(template.Child("spec"), &t.Spec)
	name := c.pod.Name + "-" + volume
	if volume == "" || c.pod.Name == "" {
		return
	}
	for _, message := range validation.IsDNS1123Subdomain(name) {
		c.invalid(p.Child("name"), short(volume), "PVC name %q: %s", short(name), message)
	}
}

// csiDriverName checks the name by which drivers are known.
func (c *checker) csiDriverName(p *field.Path, s string) {
	switch {
	case s == "":
		c.add(field.Required(p, ""))
	case len(s) > validation.DNS1123LabelMaxLength:
		c.add(field.TooLong(p, "", validation.DNS1123LabelMaxLength))
	default:
		for _, message := range validation.IsDNS1123Subdomain(strings.ToLower(s)) {
			c.invalid(p, s, "%s", message)
		}
	}
}

// claimSpec checks what a claim asks for.
func (c *checker) claimSpec(p *field.Path, s *v1.PersistentVolumeClaimSpec) {
	if len(s.AccessModes) == 0 {
		c.add(field.Required(p.Child("accessModes"), "at least 1 access mode is required"))
	}
	c.accessModes(p.Child("accessModes"), s.AccessModes)
	c.labelSelector(p.Child("selector"), s.Selector)
	storage := p.Child("resources").Key(string(v1.ResourceStorage))
	if q, has := s.Resources.Requests[v1.ResourceStorage]; !has {
		c.add(field.Required(storage, ""))
	} else {
		c.size(storage, q, true)
	}
	if s.StorageClassName != nil {
		c.className(p.Child("storageClassName"), *s.StorageClassName)
	}
	if s.VolumeAttributesClassName != nil {
		c.className(p.Child("volumeAttributesClassName"), *s.VolumeAttributesClassName)
	}
	c.volumeMode(p.Child("volumeMode"), s.VolumeMode)
	if s.VolumeName != "" {
		c.subdomain(p.Child("volumeName"), s.VolumeName)
	}
}

// accessModes checks how a volume may be mounted. ReadWriteOncePod stands alone.
func (c *checker) accessModes(p *field.Path, modes []v1.PersistentVolumeAccessMode) {
	for _, mode := range modes {
		oneOf(c, p, mode, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOnce, v1.ReadWriteOncePod)
	}
	if len(modes) > 1 && slices.Contains(modes, v1.ReadWriteOncePod) &&
		slices.ContainsFunc(modes, func(m v1.PersistentVolumeAccessMode) bool { return m != v1.ReadWriteOncePod }) {
		c.add(field.Forbidden(p, "may not use ReadWriteOncePod with other access modes"))
	}
}

func (c *checker) volumeMode(p *field.Path, mode *v1.PersistentVolumeMode) {
	if mode != nil {
		oneOf(c, p, *mode, v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem)
	}
}

// className checks an optional name of a class.
func (c *checker) className(p *field.Path, name string) {
	c.syntax(p, name, validation.DNS1123SubdomainMaxLength, func(s string) []string {
		if s == "" {
			return nil
		}
		return validation.IsDNS1123Subdomain(s)
	})
}
