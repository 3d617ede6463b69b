package compile

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Attachments lists the volumes that a pod which has a node keeps attached to it, each
// once, as NodeVolumeLimits counts them.
//
// Differs from upstream: a volume that can not be told, such as an ephemeral one whose
// claim is another pod's, counts as none. Upstream ends every attempt that comes by such a
// pod in an error.
func Attachments(p *v1.Pod, s Storage) []Attachment {
	var out []Attachment
	for i := range p.Spec.Volumes {
		a, err := attachment(p, &p.Spec.Volumes[i], s)
		if err == nil && a != (Attachment{}) && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
