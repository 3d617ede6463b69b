package volumes

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/shardsched/shardsched/coordinator/storage"
)

// Why a node that was chosen for a pod does not do for its claims after all. The filter
// rules it out by the same rules, so this is a broken invariant of ours.
var (
	errNoVolume  = errors.New("node(s) didn't find available persistent volumes to bind")
	errNoSpace   = errors.New("node(s) did not have enough free storage")
	errImmediate = errors.New("pod has unbound immediate PersistentVolumeClaims")
)

// Reserve decides which volumes a pod's unbound claims get on the node that was chosen
// for it, by the rules of the filter, and assumes that they have them. It returns nil
// where every claim is bound already. An error leaves everything as it was.
func (c *Cache) Reserve(pod *v1.Pod, node *v1.Node) (*Work, error) {
	if !storage.HasClaims(pod) {
		return nil, nil
	}
	w, err := c.plan(pod, node)
	if err != nil {
		return nil, fmt.Errorf("reserve volumes of pod %s/%s on node %s: %w", pod.Namespace, pod.Name, node.Name, err)
	}
	if w == nil {
		return nil, nil
	}
	c.version++
	for i := range w.matches {
		c.assumeMatch(&w.matches[i])
	}
	for i := range w.provisions {
		w.provisions[i].assume(node.Name)
	}
	c.view.add(w, node)
	return w, nil
}

// plan finds what Reserve is to assume; nil: nothing.
func (c *Cache) plan(pod *v1.Pod, node *v1.Node) (*Work, error) {
	unbound, provisioning, err := c.unboundClaims(pod, node)
	if err != nil || len(unbound)+len(provisioning) == 0 {
		return nil, err
	}
	w := &Work{pod: pod, node: node.Name, wake: make(chan struct{}, 1)}
	storage.SortBySize(unbound, (*claim).latest)
	taken := set[*volume]{}
	seen, checked := set[*claim]{}, set[*claim]{}
	matchers := map[*claim]*storage.Matcher{} // a pod may mount a claim many times
	for _, x := range unbound {
		if matchers[x] == nil {
			m, err := storage.NewMatcher(x.latest())
			if err != nil {
				return nil, err
			}
			matchers[x] = m
		}
		v := c.match(x.latest(), matchers[x], node, taken)
		if v == nil {
			provisioning = append(provisioning, x)
			continue
		}
		taken[v] = struct{}{}
		// Differs from upstream: a claim that the pod mounts twice needs two volumes, as
		// there, and then takes the first alone; upstream holds both until one is given back.
		if _, again := seen[x]; !again {
			seen[x] = struct{}{}
			w.matches = append(w.matches, match{volume: v, key: x.key, pv: v.latest(), pvc: x.latest()})
		}
	}
	for _, x := range provisioning {
		if _, again := checked[x]; again {
			continue
		}
		checked[x] = struct{}{}
		if err := c.provisionable(x.latest(), node); err != nil {
			return nil, err
		}
		if _, again := seen[x]; !again {
			seen[x] = struct{}{}
			w.provisions = append(w.provisions, provision{claim: x, pvc: x.latest()})
		}
	}
	return w, nil
}

// unboundClaims are the claims of a pod that a placement has to serve: those that may
// take a volume, and those whose volume is to be made, in the pod's order.
func (c *Cache) unboundClaims(pod *v1.Pod, node *v1.Node) (unbound, provisioning []*claim, err error) {
	for i := range pod.Spec.Volumes {
		name, made, ok := storage.ClaimName(pod, &pod.Spec.Volumes[i])
		if !ok {
			continue
		}
		key := claimKey{pod.Namespace, name}
		x := c.claims[key]
		if x == nil || x.api == nil {
			return nil, nil, fmt.Errorf("error getting PVC %q: %w", key, notFound("persistentvolumeclaims", key.String()))
		}
		pvc := x.latest()
		if made {
			if err := ephemeral.VolumeIsForPod(pod, pvc); err != nil {
				return nil, nil, err
			}
		}
		if storage.IsBound(pvc) {
			continue
		}
		delayed, err := c.delayed(pvc)
		if err != nil {
			return nil, nil, err
		}
		selected, isSelected := pvc.Annotations[storage.AnnSelectedNode]
		switch {
		case !delayed || pvc.Spec.VolumeName != "":
			return nil, nil, errImmediate
		case !isSelected:
			unbound = append(unbound, x)
		case selected == node.Name:
			provisioning = append(provisioning, x)
		default:
			return nil, nil, errNoVolume
		}
	}
	return unbound, provisioning, nil
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

func (c *Cache) assumeMatch(p *match) {
	pv, changed := bindTo(p.pv, p.pvc)
	p.pv = pv
	if !changed {
		p.assumption = p.volume.share()
		return
	}
	p.assumption = p.volume.assume(pv)
	c.file(p.volume)
}

func (p *provision) assume(node string) {
	if p.pvc.Annotations[storage.AnnSelectedNode] == node {
		p.assumption = p.claim.share()
		return
	}
	p.pvc = p.pvc.DeepCopy()
	metav1.SetMetaDataAnnotation(&p.pvc.ObjectMeta, storage.AnnSelectedNode, node)
	p.assumption = p.claim.assume(p.pvc)
}

// Unreserve takes back what Reserve assumed. What PreBind has written already stays
// assumed until the API tells of it.
//
// Differs from upstream: it returns the volumes that others may have again, so that pods
// which wait for one are tried at once. Upstream's wait until they are flushed, after five
// minutes, unless something else happens to a volume.
func (c *Cache) Unreserve(w *Work) (free []*v1.PersistentVolume) {
	if w == nil {
		return nil
	}
	c.view.remove(w)
	c.version++
	for i := range w.matches {
		p := &w.matches[i]
		if p.version == "" && p.volume.release(p.assumption) {
			c.file(p.volume)
			free = append(free, p.volume.latest())
		}
	}
	for i := range w.provisions {
		p := &w.provisions[i]
		if p.version == "" {
			p.claim.release(p.assumption)
		}
	}
	return free
}
