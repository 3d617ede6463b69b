package volumes

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// asServed is a volume as a node serves it: of an in-tree plugin that the CSINode says is
// migrated, the CSI volume.
func asServed(pv *v1.PersistentVolume, csiNode *storagev1.CSINode) (*v1.PersistentVolume, error) {
	if csiNode == nil {
		return pv, nil
	}
	plugin, err := compile.InTreePlugin(pv)
	if err != nil || plugin == "" || !slices.Contains(compile.MigratedPlugins(csiNode), plugin) {
		return pv, err
	}
	return compile.AsCSI(pv)
}
