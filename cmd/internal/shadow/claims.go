package shadow

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
)

// A scheduler writes what its decision makes of a pod's claims before it binds the pod: the node to make a volume on, the devices of a
// claim. After that no other node takes the pod, and whatever is judged agrees. A pod with claims is judged when the first of these is
// written, unless its status has told the node before.

// narrowed is why a pod with claims can't be judged.
const narrowed = "bound to its devices before it was seen where it goes"

// hasClaims tells whether a decision makes something of a pod's claims.
func hasClaims(p *v1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || slices.ContainsFunc(p.Spec.Volumes, func(x v1.Volume) bool {
		return x.PersistentVolumeClaim != nil || x.Ephemeral != nil
	})
}

// claim judges the pod whose claim an event is about, where that tells a decision.
func (m *Mirror) claim(ctx context.Context, e *objects.Event, late bool) error {
	if e.Type == objects.Deleted {
		return nil
	}
	switch c := e.Object.(type) {
	case *v1.PersistentVolumeClaim:
		before, _ := m.last[c.UID].(*v1.PersistentVolumeClaim)
		node := c.Annotations[storage.AnnSelectedNode]
		if node == "" || before != nil && before.Annotations[storage.AnnSelectedNode] == node {
			return nil
		}
		return m.decided(ctx, node, late, func(p *v1.Pod) bool { return mounts(p, c) })
	case *resourcev1.ResourceClaim:
		before, _ := m.last[c.UID].(*resourcev1.ResourceClaim)
		if c.Status.Allocation == nil || before == nil || before.Status.Allocation != nil {
			return nil
		}
		return m.decided(ctx, nodeOf(c.Status.Allocation.NodeSelector), late, func(p *v1.Pod) bool {
			return slices.ContainsFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == p.UID })
		})
	}
	return nil
}

// decided judges the pods with claims of which something is written, and that go to a node; empty: to the one that they are bound to soon.
func (m *Mirror) decided(ctx context.Context, node string, late bool, is func(*v1.Pod) bool) error {
	for uid := range m.claimants {
		known := m.pending[uid]
		if known == nil {
			delete(m.claimants, uid)
			continue
		}
		if known.expected != "" || !is(known.obj) {
			continue
		}
		to := node
		if to == "" {
			m.ahead(func(e *objects.Event) bool {
				if e.Pod != nil && e.Pod.UID == uid {
					to = e.Pod.Spec.NodeName
				}
				return to == ""
			})
		}
		if known.expected = to; to == "" {
			known.narrowed = true
			continue
		}
		if err := m.chosen(ctx, known, to, late); err != nil {
			return err
		}
	}
	return nil
}

// mounts tells whether a pod has the volume of a claim.
func mounts(p *v1.Pod, c *v1.PersistentVolumeClaim) bool {
	return p.Namespace == c.Namespace && slices.ContainsFunc(p.Spec.Volumes, func(x v1.Volume) bool {
		switch {
		case x.PersistentVolumeClaim != nil:
			return x.PersistentVolumeClaim.ClaimName == c.Name
		case x.Ephemeral != nil:
			return p.Name+"-"+x.Name == c.Name
		}
		return false
	})
}

// nodeOf is the node that a selector names; empty: it names none, or several.
func nodeOf(s *v1.NodeSelector) string {
	if s == nil || len(s.NodeSelectorTerms) != 1 || len(s.NodeSelectorTerms[0].MatchFields) != 1 {
		return ""
	}
	f := s.NodeSelectorTerms[0].MatchFields[0]
	if f.Key != metav1.ObjectNameField || f.Operator != v1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}
