package compile

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
	csiplugins "k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"
)

// isMigrated tells whether the volumes of an in-tree plugin are a CSI driver's in 1.36, as
// far as the scheduler goes. Of the others that could be (Azure File, vSphere) upstream
// counts none.
func isMigrated(plugin string) bool {
	switch plugin {
	case csiplugins.AWSEBSInTreePluginName, csiplugins.GCEPDInTreePluginName, csiplugins.AzureDiskInTreePluginName,
		csiplugins.CinderInTreePluginName, csiplugins.PortworxVolumePluginName:
		return true
	}
	return false
}

// IsMigratedInline tells whether a volume in a pod's own spec is of such a plugin.
func IsMigratedInline(v *v1.VolumeSource) bool {
	return v.AWSElasticBlockStore != nil || v.GCEPersistentDisk != nil || v.AzureDisk != nil || v.Cinder != nil || v.PortworxVolume != nil
}

// InTreePlugin is the in-tree plugin of a volume, "" where that is none that is migrated.
func InTreePlugin(pv *v1.PersistentVolume) (string, error) {
	t := csitranslation.New()
	if pv.Spec.CSI != nil || !t.IsPVMigratable(pv) {
		return "", nil
	}
	plugin, err := t.GetInTreePluginNameFromSpec(pv, nil)
	if err != nil {
		return "", fmt.Errorf("could not get plugin name from pv: %w", err)
	}
	if !isMigrated(plugin) {
		return "", nil
	}
	return plugin, nil
}

// AsCSI is a volume of a migrated plugin as its CSI driver serves it.
func AsCSI(pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	out, err := csitranslation.New().TranslateInTreePVToCSI(klog.Logger{}, pv)
	if err != nil {
		return nil, fmt.Errorf("could not translate pv: %w", err)
	}
	return out, nil
}
