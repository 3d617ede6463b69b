package volumes

import (
	"iter"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// Counters gives ids to the counters that this package keeps.
type Counters interface {
	// Reserve returns a new id for a key that is in use for the first time, and the same
	// one for as long as the term lasts.
	Reserve(key string) uint32
}

// Cache is the coordinator's state of the cluster's storage. All of it belongs to the
// scheduling goroutine; binding goroutines read its view of the API.
type Cache struct {
	version  uint64
	counters Counters
	view     *apiView

	claims  map[claimKey]*claim
	volumes map[string]*volume
	// byClass are the volumes that unbound claims may take, by storage class, "" included.
	byClass map[string]*classVolumes
	// reserved are the volumes whose claimRef names a claim, taken or not.
	reserved   map[claimKey][]*volume
	classes    map[string]*storagev1.StorageClass
	csiDrivers map[string]*storagev1.CSIDriver
	csiNodes   map[string]*storagev1.CSINode
	// capacities by storage class, each list sorted by namespace and name.
	capacities map[string][]capacity

	usage usage
}

var _ compile.Volumes = (*Cache)(nil)

// New makes an empty cache.
func New(counters Counters) *Cache {
	c := &Cache{
		counters:   counters,
		view:       newAPIView(),
		claims:     map[claimKey]*claim{},
		volumes:    map[string]*volume{},
		byClass:    map[string]*classVolumes{},
		reserved:   map[claimKey][]*volume{},
		classes:    map[string]*storagev1.StorageClass{},
		csiDrivers: map[string]*storagev1.CSIDriver{},
		csiNodes:   map[string]*storagev1.CSINode{},
		capacities: map[string][]capacity{},
	}
	c.usage = newUsage(c)
	return c
}

// Version moves whenever an answer that a class may have read may be another.
func (c *Cache) Version() uint64 { return c.version }

// Set takes in an object of the API that is new or changed. Nodes matter only to claims
// that are being bound; kinds that have nothing to do with storage are left alone.
func (c *Cache) Set(now objects.Object) {
	switch now := now.(type) {
	case *v1.PersistentVolumeClaim:
		c.setClaim(now)
	case *v1.PersistentVolume:
		c.version++
		c.setVolume(now)
	case *storagev1.StorageClass:
		c.version++
		c.classes[now.Name] = now
		c.recountClass(now.Name)
	case *storagev1.CSIDriver:
		c.version++
		c.csiDrivers[now.Name] = now
	case *storagev1.CSIStorageCapacity:
		c.version++
		c.setCapacity(now)
	case *storagev1.CSINode:
		c.csiNodes[now.Name] = now
		c.view.setCSINode(now)
	case *storagev1.VolumeAttachment:
		c.setAttachment(now)
	case *v1.Node:
		c.view.setNode(now)
	}
}

// Delete takes in that an object of the API is gone. A pod that is deleted ends the
// binding of its claims.
func (c *Cache) Delete(last objects.Object) {
	switch last := last.(type) {
	case *v1.PersistentVolumeClaim:
		c.version++
		c.deleteClaim(keyOf(last))
	case *v1.PersistentVolume:
		c.version++
		c.deleteVolume(last.Name)
	case *storagev1.StorageClass:
		c.version++
		delete(c.classes, last.Name)
		c.recountClass(last.Name)
	case *storagev1.CSIDriver:
		c.version++
		delete(c.csiDrivers, last.Name)
	case *storagev1.CSIStorageCapacity:
		c.version++
		c.deleteCapacity(last)
	case *storagev1.CSINode:
		delete(c.csiNodes, last.Name)
		c.view.deleteCSINode(last.Name)
	case *storagev1.VolumeAttachment:
		c.deleteAttachment(last.Name)
	case *v1.Node:
		c.view.deleteNode(last.Name)
	case *v1.Pod:
		c.view.deletePod(last)
	}
}

// Claim is part of compile.Volumes.
func (c *Cache) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	if x := c.claims[claimKey{namespace, name}]; x != nil {
		return x.latest()
	}
	return nil
}

// Volume is part of compile.Volumes.
func (c *Cache) Volume(name string) *v1.PersistentVolume {
	if v := c.volumes[name]; v != nil {
		return v.latest()
	}
	return nil
}

// VolumesOf is part of compile.Volumes. Volumes that no unbound claim can take are left
// out: those of a claim that is bound, is gone or is another than the claimRef's, and
// those without a claimRef that are not Available.
func (c *Cache) VolumesOf(class string) iter.Seq[*v1.PersistentVolume] {
	return func(yield func(*v1.PersistentVolume) bool) {
		s := c.byClass[class]
		if s == nil {
			return
		}
		s.all.sort()
		for _, v := range s.all.list {
			if !yield(v.latest()) {
				return
			}
		}
	}
}

// StorageClass is part of compile.Volumes.
func (c *Cache) StorageClass(name string) *storagev1.StorageClass { return c.classes[name] }

// CSIDriver is part of compile.Volumes.
func (c *Cache) CSIDriver(name string) *storagev1.CSIDriver { return c.csiDrivers[name] }

// CapacitiesOf is part of compile.Volumes.
func (c *Cache) CapacitiesOf(class string) iter.Seq[*storagev1.CSIStorageCapacity] {
	return func(yield func(*storagev1.CSIStorageCapacity) bool) {
		for _, x := range c.capacities[class] {
			if !yield(x.CSIStorageCapacity) {
				return
			}
		}
	}
}

// capacity is a CSIStorageCapacity with its nodeTopology, parsed once: that of one that is none, or malformed, selects no node.
type capacity struct {
	*storagev1.CSIStorageCapacity
	segment labels.Selector
}

func compareCapacities(a capacity, b *storagev1.CSIStorageCapacity) int {
	if x := strings.Compare(a.Namespace, b.Namespace); x != 0 {
		return x
	}
	return strings.Compare(a.Name, b.Name)
}

// setCapacity relies on storageClassName being immutable, as the API has it.
func (c *Cache) setCapacity(now *storagev1.CSIStorageCapacity) {
	list := c.capacities[now.StorageClassName]
	i, found := slices.BinarySearchFunc(list, now, compareCapacities)
	x := capacity{now, labels.Nothing()}
	if segment, err := metav1.LabelSelectorAsSelector(now.NodeTopology); err == nil {
		x.segment = segment // that of no topology selects nothing
	}
	if found {
		list[i] = x
		return
	}
	c.capacities[now.StorageClassName] = slices.Insert(list, i, x)
}

func (c *Cache) deleteCapacity(last *storagev1.CSIStorageCapacity) {
	list := c.capacities[last.StorageClassName]
	i, found := slices.BinarySearchFunc(list, last, compareCapacities)
	switch {
	case found && len(list) == 1:
		delete(c.capacities, last.StorageClassName)
	case found:
		c.capacities[last.StorageClassName] = slices.Delete(list, i, i+1)
	}
}
