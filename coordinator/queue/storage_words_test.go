package queue

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// storageCommands are the script's commands that are about storage objects. Each makes a
// new one, or changes the one of its name.
var storageCommands = map[string]func(s *script, name string, args []string) string{
	"claim": func(s *script, name string, args []string) string {
		c := pvc(name, args)
		return put(s, "claim", c.Namespace+"/"+name, c, ClaimAdded, ClaimUpdated)
	},
	"volume": func(s *script, name string, args []string) string {
		return put(s, "volume", name, pv(name, args), VolumeAdded, VolumeUpdated)
	},
	"class": func(s *script, name string, args []string) string {
		return put(s, "class", name, storageClass(name, args), StorageClassAdded, StorageClassUpdated)
	},
	"csinode": func(s *script, name string, args []string) string {
		return put(s, "csinode", name, csiNode(name, args), CSINodeAdded, CSINodeUpdated)
	},
	"driver": func(s *script, name string, args []string) string {
		return put(s, "driver", name, csiDriver(name, args), nil, CSIDriverUpdated)
	},
	"capacity": func(s *script, name string, args []string) string {
		return put(s, "capacity", name, capacity(name, args), CSIStorageCapacityAdded, CSIStorageCapacityUpdated)
	},
	"detached": func(s *script, attacher string, _ []string) string {
		return s.moved([]Event{VolumeAttachmentDeleted(attachment(attacher))})
	},
}

// put tells the queue of a storage object.
func put[T any](s *script, kind, name string, now T, added func(T) Event, updated func(old, now T) Event) string {
	key := kind + "/" + name
	old, known := s.store[key].(T)
	s.store[key] = now
	switch {
	case known:
		return s.moved([]Event{updated(old, now)})
	case added == nil:
		return "nobody is told"
	}
	return s.moved([]Event{added(now)})
}

func pvc(name string, args []string) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{}
	c.Name, c.Namespace = name, "default"
	for k, v := range words(args) {
		switch k {
		case "ns":
			c.Namespace = v
		case "volume":
			c.Spec.VolumeName = v
		default:
			panic("unknown word " + k)
		}
	}
	return c
}

func pv(name string, args []string) *v1.PersistentVolume {
	p := &v1.PersistentVolume{}
	p.Name = name
	for k, v := range words(args) {
		key, value, _ := strings.Cut(v, "=")
		switch k {
		case "label":
			if p.Labels == nil {
				p.Labels = map[string]string{}
			}
			p.Labels[key] = value
		case "phase":
			p.Status.Phase = v1.PersistentVolumePhase(v)
		default:
			panic("unknown word " + k)
		}
	}
	return p
}

func storageClass(name string, args []string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{}
	c.Name = name
	for k, v := range words(args) {
		switch k {
		case "mode":
			mode := storagev1.VolumeBindingMode(v)
			c.VolumeBindingMode = &mode
		case "zone":
			c.AllowedTopologies = append(c.AllowedTopologies, v1.TopologySelectorTerm{
				MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: v1.LabelTopologyZone, Values: []string{v}}},
			})
		case "expandable":
			yes := true
			c.AllowVolumeExpansion = &yes
		default:
			panic("unknown word " + k)
		}
	}
	return c
}

// csiNode reads limit=DRIVER:COUNT, unlimited=DRIVER and migrated=PLUGINS.
func csiNode(name string, args []string) *storagev1.CSINode {
	n := &storagev1.CSINode{}
	n.Name = name
	for k, v := range words(args) {
		switch k {
		case "limit":
			driver, count, _ := strings.Cut(v, ":")
			c := number(count)
			n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: driver, Allocatable: &storagev1.VolumeNodeResources{Count: &c}})
		case "unlimited":
			n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: v})
		case "migrated":
			n.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: v}
		default:
			panic("unknown word " + k)
		}
	}
	return n
}

func csiDriver(name string, args []string) *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{}
	d.Name = name
	for k, v := range words(args) {
		if k != "capacity" {
			panic("unknown word " + k)
		}
		told := v == "true"
		d.Spec.StorageCapacity = &told
	}
	return d
}

func capacity(name string, args []string) *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{}
	c.Name = name
	for k, v := range words(args) {
		q := resource.MustParse(v)
		switch k {
		case "free":
			c.Capacity = &q
		case "largest":
			c.MaximumVolumeSize = &q
		default:
			panic("unknown word " + k)
		}
	}
	return c
}

func attachment(attacher string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{}
	a.Spec.Attacher = attacher
	return a
}
