package volumes

import (
	storagev1 "k8s.io/api/storage/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// attachment is a VolumeAttachment.
type attachment struct {
	node, attacher, volume string
	as                     compile.Attachment // what it counts as; the zero value: nothing
}

func (c *Cache) setAttachment(now *storagev1.VolumeAttachment) {
	c.deleteAttachment(now.Name)
	if now.Spec.Attacher == "" || now.Spec.Source.PersistentVolumeName == nil {
		return
	}
	a := &attachment{node: now.Spec.NodeName, attacher: now.Spec.Attacher, volume: *now.Spec.Source.PersistentVolumeName}
	c.usage.attachments[now.Name] = a
	link(c.usage.attachmentsByVolume, a.volume, a)
	c.recountAttachment(a)
}

func (c *Cache) deleteAttachment(name string) {
	a := c.usage.attachments[name]
	if a == nil {
		return
	}
	delete(c.usage.attachments, name)
	unlink(c.usage.attachmentsByVolume, a.volume, a)
	if a.as != (compile.Attachment{}) {
		c.usage.move(a.as, a.node, func(h *held) { h.attachments-- })
	}
}

// recountAttachment finds the volume of a VolumeAttachment. Only CSI volumes count, under
// the attacher's name.
func (c *Cache) recountAttachment(a *attachment) {
	var as compile.Attachment
	if v := c.volumes[a.volume]; v != nil && v.api.Spec.CSI != nil {
		as = compile.Attachment{Driver: a.attacher, Handle: v.api.Spec.CSI.VolumeHandle}
	}
	if as == a.as {
		return
	}
	if a.as != (compile.Attachment{}) {
		c.usage.move(a.as, a.node, func(h *held) { h.attachments-- })
	}
	if as != (compile.Attachment{}) {
		c.usage.move(as, a.node, func(h *held) { h.attachments++ })
	}
	a.as = as
}

// Limits is how many volumes the drivers of a node can attach, by its CSINode.
func (c *Cache) Limits(node string) []*pb.VolumeLimit { return compile.VolumeLimits(c.csiNodes[node]) }

// MigratedPlugins are the in-tree plugins whose volumes a CSI driver serves on a node, by
// its CSINode.
func (c *Cache) MigratedPlugins(node string) []string {
	return compile.MigratedPlugins(c.csiNodes[node])
}
