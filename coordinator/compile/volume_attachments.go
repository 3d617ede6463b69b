package compile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// translate gives in-tree volumes their CSI form. It holds no state.
func translate() csitranslation.CSITranslator { return csitranslation.New() }

// missingClaim is the error of a pod whose claim does not exist.
type missingClaim struct{ namespace, name string }

func (m *missingClaim) Error() string {
	return fmt.Sprintf("looking up PVC %s/%s: %s", m.namespace, m.name, noSuchClaim(m.name))
}

// Attachments lists the volumes that a pod which has a node keeps attached to it, each
// once, as NodeVolumeLimits counts them.
//
// Differs from upstream: a volume that can not be told, such as an ephemeral one whose
// claim is another pod's, counts as none. Upstream ends every attempt that comes by such a
// pod in an error.
func Attachments(p *v1.Pod, s Storage) []Attachment {
	list, _ := attachments(p, s)
	return list
}

// AttachmentOf is what a volume of such a pod attaches; the zero value: nothing.
func AttachmentOf(p *v1.Pod, v *v1.Volume, s Storage) Attachment {
	a, _ := attachment(p, v, s)
	return a
}

// DistinctVolumes are a pod's volumes, in order, without those that are a claim again: a pod may name a claim as often as its
// text has room.
func DistinctVolumes(p *v1.Pod) []*v1.Volume {
	type mounted struct {
		name string
		made bool
	}
	out := make([]*v1.Volume, 0, len(p.Spec.Volumes))
	seen := map[mounted]struct{}{}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if name, made, ok := storage.ClaimName(p, v); ok {
			m := mounted{name, made}
			if _, again := seen[m]; again {
				continue
			}
			seen[m] = struct{}{}
		}
		out = append(out, v)
	}
	return out
}

// attachments lists the volumes that a pod needs attached, in the spec's order and each
// once, and the first error of those that can not be told.
func attachments(p *v1.Pod, s Storage) (out []Attachment, first error) {
	seen := map[Attachment]struct{}{{}: {}}
	for _, v := range DistinctVolumes(p) {
		a, err := attachment(p, v, s)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		if _, again := seen[a]; !again {
			seen[a] = struct{}{}
			out = append(out, a)
		}
	}
	return out, first
}

// attachment is what a pod's volume attaches; nothing where it is no CSI driver's.
func attachment(p *v1.Pod, v *v1.Volume, s Storage) (Attachment, error) {
	name, made, ok := storage.ClaimName(p, v)
	if !ok {
		return inlineAttachment(p, v)
	}
	if name == "" {
		return Attachment{}, errors.New("PersistentVolumeClaim had no name")
	}
	claim := s.Claim(p.Namespace, name)
	if claim == nil {
		return Attachment{}, &missingClaim{p.Namespace, name}
	}
	if made {
		if err := ephemeral.VolumeIsForPod(p, claim); err != nil {
			return Attachment{}, err
		}
	}
	return claimAttachment(claim, s), nil
}

// inlineAttachment is what a volume of an in-tree plugin in the pod's own spec attaches.
func inlineAttachment(p *v1.Pod, v *v1.Volume) (Attachment, error) {
	t := translate()
	if !IsMigratedInline(&v.VolumeSource) || !t.IsInlineMigratable(v) {
		return Attachment{}, nil
	}
	plugin, err := t.GetInTreePluginNameFromSpec(nil, v)
	if err != nil {
		return Attachment{}, fmt.Errorf("looking up provisioner name for volume %s: %w", v.Name, err)
	}
	if !isMigrated(plugin) {
		return Attachment{}, nil
	}
	pv, err := t.TranslateInTreeInlineVolumeToCSI(klog.Logger{}, v, p.Namespace)
	if err != nil {
		return Attachment{}, fmt.Errorf("converting volume(%s) from inline to csi: %w", v.Name, err)
	}
	driver, err := t.GetCSINameFromInTreeName(plugin)
	if err != nil {
		return Attachment{}, fmt.Errorf("looking up CSI driver name for provisioner %s: %w", plugin, err)
	}
	if pv.Spec.CSI == nil {
		return Attachment{}, nil
	}
	return Attachment{driver, pv.Spec.CSI.VolumeHandle}, nil
}

// claimAttachment is what a claim attaches.
func claimAttachment(c *v1.PersistentVolumeClaim, s Storage) Attachment {
	if c.Spec.VolumeName == "" {
		return unboundAttachment(c, s)
	}
	pv := s.Volume(c.Spec.VolumeName)
	if pv == nil {
		return unboundAttachment(c, s)
	}
	source := pv.Spec.CSI
	if source == nil {
		plugin, translated, err := migrated(pv)
		if plugin == "" || err != nil || translated.Spec.CSI == nil {
			return Attachment{}
		}
		source = translated.Spec.CSI
	}
	if source.Driver == "" || source.VolumeHandle == "" {
		return Attachment{}
	}
	return Attachment{source.Driver, source.VolumeHandle}
}

// migrated is a volume of an in-tree plugin in its CSI form, and the plugin; no plugin
// where it is of none that is migrated.
func migrated(pv *v1.PersistentVolume) (plugin string, out *v1.PersistentVolume, err error) {
	plugin, err = InTreePlugin(pv)
	if plugin == "" || err != nil {
		return "", nil, err
	}
	out, err = AsCSI(pv)
	return plugin, out, err
}

// unboundAttachment stands for the volume that a claim will have.
func unboundAttachment(c *v1.PersistentVolumeClaim, s Storage) Attachment {
	name := storage.ClassOf(c)
	if name == "" {
		return Attachment{}
	}
	class := s.StorageClass(name)
	if class == nil {
		return Attachment{}
	}
	driver := class.Provisioner
	if t := translate(); t.IsMigratableIntreePluginByName(driver) {
		if !isMigrated(driver) {
			return Attachment{}
		}
		var err error
		if driver, err = t.GetCSINameFromInTreeName(driver); err != nil {
			return Attachment{}
		}
	}
	if driver == "" {
		return Attachment{}
	}
	return Attachment{driver, claimHandle(c)}
}

// limitsQuery is what NodeVolumeLimits asks for a pod; nil: nothing. Settled tells that
// no placement changes the answer.
func limitsQuery(p *v1.Pod, s Volumes) (q *pb.VolumeLimitsQuery, settled bool, err error) {
	list, err := attachments(p, s)
	if missing := (*missingClaim)(nil); errors.As(err, &missing) {
		return &pb.VolumeLimitsQuery{MissingClaim: missing.Error()}, true, nil
	}
	if err != nil || len(list) == 0 {
		return nil, true, err
	}
	q, settled = &pb.VolumeLimitsQuery{}, true
	for _, a := range list {
		if !usable(a.Driver) {
			continue
		}
		d := driverOf(q, a.Driver)
		d.Volumes++
		d.Attached = s.AttachedCounter(a.Driver)
		id := s.UseCounter(a)
		if id != 0 {
			d.Shared = append(d.Shared, id)
		}
		settled = settled && d.Attached != 0 && id != 0
	}
	for _, d := range q.Drivers {
		slices.Sort(d.Shared)
	}
	return q, settled, nil
}

// driverOf finds or adds a driver, in order.
func driverOf(q *pb.VolumeLimitsQuery, name string) *pb.DriverVolumes {
	at := 0
	for ; at < len(q.Drivers) && q.Drivers[at].Driver < name; at++ {
	}
	if at == len(q.Drivers) || q.Drivers[at].Driver != name {
		q.Drivers = slices.Insert(q.Drivers, at, &pb.DriverVolumes{Driver: name})
	}
	return q.Drivers[at]
}
