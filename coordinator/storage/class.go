package storage

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// NoProvisioner is the provisioner of classes whose volumes are made by hand.
const NoProvisioner = "kubernetes.io/no-provisioner"

// Provisions tells whether volumes of a class, which may be nil, can be made.
func Provisions(class *storagev1.StorageClass) bool {
	return class != nil && class.Provisioner != "" && class.Provisioner != NoProvisioner
}

// BindsLate tells whether the claims of a class wait for their first pod before they are
// bound. The error is upstream's.
func BindsLate(class *storagev1.StorageClass) (bool, error) {
	if class.VolumeBindingMode == nil {
		return false, fmt.Errorf("VolumeBindingMode not set for StorageClass %q", class.Name)
	}
	return *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer, nil
}

// TellsCapacity tells whether a driver, which may be nil, says how much room it has.
func TellsCapacity(d *storagev1.CSIDriver) bool {
	return d != nil && or(d.Spec.StorageCapacity, false)
}

// LargestVolume is the size of the largest volume that can be made of a capacity; nil: not
// known.
func LargestVolume(c *storagev1.CSIStorageCapacity) *resource.Quantity {
	if c.MaximumVolumeSize != nil {
		return c.MaximumVolumeSize
	}
	return c.Capacity
}

// HasRoom tells whether a volume of a size can be made of a capacity.
func HasRoom(c *storagev1.CSIStorageCapacity, size *resource.Quantity) bool {
	room := LargestVolume(c)
	return room != nil && room.Value() >= size.Value()
}
