package volumes

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	csitranslation "k8s.io/csi-translation-lib"
	csiplugins "k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// migrated tells whether an in-tree plugin's volumes are served by a CSI driver wherever
// there is a CSINode. Of the others that could be (Azure File, vSphere) upstream counts
// none.
func migrated(plugin string) bool {
	switch plugin {
	case csiplugins.AWSEBSInTreePluginName, csiplugins.GCEPDInTreePluginName, csiplugins.AzureDiskInTreePluginName,
		csiplugins.CinderInTreePluginName, csiplugins.PortworxVolumePluginName:
		return true
	}
	return false
}

// migratedInline tells whether a pod's volume is of such a plugin.
func migratedInline(src *v1.VolumeSource) bool {
	return src.AWSElasticBlockStore != nil || src.GCEPersistentDisk != nil || src.AzureDisk != nil ||
		src.Cinder != nil || src.PortworxVolume != nil
}

// asServed is a volume as a node serves it: of an in-tree plugin that the CSINode says is
// migrated, the CSI volume.
func asServed(pv *v1.PersistentVolume, csiNode *storagev1.CSINode) (*v1.PersistentVolume, error) {
	translator := csitranslation.New()
	if csiNode == nil || !translator.IsPVMigratable(pv) {
		return pv, nil
	}
	plugin, err := translator.GetInTreePluginNameFromSpec(pv, nil)
	if err != nil {
		return nil, fmt.Errorf("could not get plugin name from pv: %w", err)
	}
	if !migrated(plugin) || !slices.Contains(compile.MigratedPlugins(csiNode), plugin) {
		return pv, nil
	}
	translated, err := translator.TranslateInTreePVToCSI(klog.Logger{}, pv)
	if err != nil {
		return nil, fmt.Errorf("could not translate pv: %w", err)
	}
	return translated, nil
}
