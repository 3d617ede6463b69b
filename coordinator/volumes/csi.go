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

// migratableInline tells whether a pod's volume is of an in-tree plugin that is migrated.
func migratableInline(src *v1.VolumeSource) bool {
	return src.AWSElasticBlockStore != nil || src.GCEPersistentDisk != nil || src.AzureDisk != nil ||
		src.Cinder != nil || src.PortworxVolume != nil
}

// inlineAttachment is what a pod's volume of an in-tree plugin counts as.
//
// Differs from upstream: a volume on a node that can not be translated (a malformed id)
// does not count; upstream ends every attempt to place a pod with volumes there in an
// error.
func inlineAttachment(vol *v1.Volume, namespace string) (compile.Attachment, bool) {
	if !migratableInline(&vol.VolumeSource) {
		return compile.Attachment{}, false
	}
	pv, err := csitranslation.New().TranslateInTreeInlineVolumeToCSI(klog.Logger{}, vol, namespace)
	if err != nil || pv.Spec.CSI == nil {
		return compile.Attachment{}, false
	}
	return compile.Attachment{Driver: pv.Spec.CSI.Driver, Handle: pv.Spec.CSI.VolumeHandle}, true
}

// attachmentOf is what a claim counts as; the zero value: it does not count.
func (c *Cache) attachmentOf(pvc *v1.PersistentVolumeClaim) compile.Attachment {
	v := c.volumes[pvc.Spec.VolumeName]
	if pvc.Spec.VolumeName == "" || v == nil {
		return unboundAttachment(pvc, c.classes[classOf(pvc)])
	}
	return volumeAttachment(v.api)
}

// unboundAttachment is what a claim counts as before its volume is known.
func unboundAttachment(pvc *v1.PersistentVolumeClaim, class *storagev1.StorageClass) compile.Attachment {
	if class == nil || class.Provisioner == "" {
		return compile.Attachment{}
	}
	driver := class.Provisioner
	if translator := csitranslation.New(); translator.IsMigratableIntreePluginByName(driver) {
		if !migrated(driver) {
			return compile.Attachment{}
		}
		name, err := translator.GetCSINameFromInTreeName(driver)
		if err != nil {
			return compile.Attachment{}
		}
		driver = name
	}
	return compile.Attachment{Driver: driver, Handle: pseudoHandle(pvc)}
}

// volumeAttachment is what a bound claim counts as.
func volumeAttachment(pv *v1.PersistentVolume) compile.Attachment {
	source := pv.Spec.CSI
	if source == nil {
		translated, plugin := translate(pv)
		if translated == nil || !migrated(plugin) || translated.Spec.CSI == nil {
			return compile.Attachment{}
		}
		source = translated.Spec.CSI
	}
	if source.Driver == "" || source.VolumeHandle == "" {
		return compile.Attachment{}
	}
	return compile.Attachment{Driver: source.Driver, Handle: source.VolumeHandle}
}

// pseudoHandle stands for the volume that a claim will have. Upstream's starts with 32
// random letters; like them, the space keeps it apart from any real handle.
func pseudoHandle(pvc *v1.PersistentVolumeClaim) string { return " " + pvc.Namespace + "/" + pvc.Name }

// translate makes a CSI volume of an in-tree one; nil where there is no way. plugin is the
// in-tree plugin's name, "" for any other volume.
func translate(pv *v1.PersistentVolume) (translated *v1.PersistentVolume, plugin string) {
	translator := csitranslation.New()
	if !translator.IsPVMigratable(pv) {
		return nil, ""
	}
	plugin, err := translator.GetInTreePluginNameFromSpec(pv, nil)
	if err != nil {
		return nil, ""
	}
	translated, err = translator.TranslateInTreePVToCSI(klog.Logger{}, pv)
	if err != nil {
		return nil, plugin
	}
	return translated, plugin
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
	if !migrated(plugin) || !slices.Contains(migratedPlugins(csiNode), plugin) {
		return pv, nil
	}
	translated, err := translator.TranslateInTreePVToCSI(klog.Logger{}, pv)
	if err != nil {
		return nil, fmt.Errorf("could not translate pv: %w", err)
	}
	return translated, nil
}
