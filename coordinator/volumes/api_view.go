package volumes

import (
	"fmt"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/storage"
)

// apiView is what binding goroutines may read: the API's objects, never assumed ones. The
// scheduling goroutine keeps it up to date, and wakes the works that wait for a claim.
type apiView struct {
	mu       sync.Mutex
	claims   map[claimKey]*v1.PersistentVolumeClaim
	volumes  map[string]*v1.PersistentVolume
	csiNodes map[string]*storagev1.CSINode
	// nodes are the nodes of the works.
	nodes   map[string]*viewNode
	waiting map[claimKey]set[*Work]
	pods    map[types.UID]*Work
}

type viewNode struct {
	node  *v1.Node // nil: gone
	works int
}

func newAPIView() *apiView {
	return &apiView{
		claims:   map[claimKey]*v1.PersistentVolumeClaim{},
		volumes:  map[string]*v1.PersistentVolume{},
		csiNodes: map[string]*storagev1.CSINode{},
		nodes:    map[string]*viewNode{},
		waiting:  map[claimKey]set[*Work]{},
		pods:     map[types.UID]*Work{},
	}
}

// keys yields the claims that a work is about.
func (w *Work) keys(yield func(claimKey) bool) {
	for i := range w.matches {
		if !yield(w.matches[i].key) {
			return
		}
	}
	for i := range w.provisions {
		if !yield(w.provisions[i].claim.key) {
			return
		}
	}
}

// add lists a work that is to be bound on a node.
func (b *apiView) add(w *Work, node *v1.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.listed = true
	for key := range w.keys {
		link(b.waiting, key, w)
	}
	n := b.nodes[w.node]
	if n == nil {
		n = &viewNode{}
		b.nodes[w.node] = n
	}
	n.node, n.works = node, n.works+1
	b.pods[w.pod.UID] = w
}

// remove takes a work off the list; a second call does nothing.
func (b *apiView) remove(w *Work) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.listed {
		return
	}
	w.listed = false
	for key := range w.keys {
		unlink(b.waiting, key, w)
	}
	if n := b.nodes[w.node]; n.works > 1 {
		n.works--
	} else {
		delete(b.nodes, w.node)
	}
	if b.pods[w.pod.UID] == w {
		delete(b.pods, w.pod.UID)
	}
}

func (b *apiView) setClaim(now *v1.PersistentVolumeClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims[keyOf(now)] = now
	b.wake(keyOf(now))
}

func (b *apiView) deleteClaim(key claimKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.claims, key)
	b.wake(key)
}

func (b *apiView) setVolume(now *v1.PersistentVolume) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wakeFor(b.volumes[now.Name])
	b.volumes[now.Name] = now
	b.wakeFor(now)
}

func (b *apiView) deleteVolume(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wakeFor(b.volumes[name])
	delete(b.volumes, name)
}

// wakeFor wakes the works that wait for the claim that a volume names.
func (b *apiView) wakeFor(pv *v1.PersistentVolume) {
	if pv != nil && pv.Spec.ClaimRef != nil {
		b.wake(claimKey{pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name})
	}
}

func (b *apiView) wake(key claimKey) {
	for w := range b.waiting[key] {
		w.notify()
	}
}

func (w *Work) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // it is notified already
	}
}

func (b *apiView) setCSINode(now *storagev1.CSINode) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.csiNodes[now.Name] = now
}

func (b *apiView) deleteCSINode(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.csiNodes, name)
}

func (b *apiView) setNode(now *v1.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.nodes[now.Name]; n != nil {
		n.node = now
	}
}

func (b *apiView) deleteNode(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.nodes[name]; n != nil {
		n.node = nil
	}
}

func (b *apiView) deletePod(pod *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.pods[pod.UID]; w != nil {
		w.podGone = true
		w.notify()
	}
}

// check tells whether all of a work's claims are bound. An error tells in upstream's words why they will not
// be bound.
func (b *apiView) check(w *Work) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.nodes[w.node]
	if n == nil || n.node == nil {
		return false, fmt.Errorf("failed to get node %q: %w", w.node, notFound("node", w.node))
	}
	if w.podGone {
		return false, fmt.Errorf("pod does not exist any more: %w", notFound("pod", w.pod.Name))
	}
	for i := range w.matches {
		if done, err := b.checkMatch(&w.matches[i], n.node); !done || err != nil {
			return false, err
		}
	}
	for i := range w.provisions {
		if done, err := b.checkProvision(&w.provisions[i], n.node); !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (b *apiView) checkMatch(p *match, node *v1.Node) (bool, error) {
	pv, pvc := b.volumes[p.pv.Name], b.claims[p.key]
	switch {
	case pv == nil:
		return false, fmt.Errorf("failed to check binding: %w", notFound("persistentvolumes", p.pv.Name))
	case pvc == nil:
		return false, fmt.Errorf("failed to check binding: %w", notFound("persistentvolumeclaims", p.key.String()))
	case older(pv.ResourceVersion, p.version):
		return false, nil // what was written is not back yet
	}
	pv, err := asServed(pv, b.csiNodes[node.Name])
	if err != nil {
		return false, fmt.Errorf("failed to translate pv to csi: %w", err)
	}
	if err := reachable(pv, node); err != nil {
		return false, err
	}
	if ref := pv.Spec.ClaimRef; ref == nil || ref.UID == "" {
		return false, fmt.Errorf("ClaimRef got reset for pv %q", pv.Name)
	}
	return storage.IsBound(pvc), nil
}

func (b *apiView) checkProvision(p *provision, node *v1.Node) (bool, error) {
	key := p.claim.key
	pvc := b.claims[key]
	switch {
	case pvc == nil:
		return false, fmt.Errorf("failed to check provisioning pvc: %w", notFound("persistentvolumeclaims", key.String()))
	case older(pvc.ResourceVersion, p.version):
		return false, nil
	case pvc.Annotations == nil:
		return false, fmt.Errorf("selectedNode annotation reset for PVC %q", pvc.Name)
	case pvc.Annotations[storage.AnnSelectedNode] != node.Name:
		// A provisioner removes or changes the annotation to ask for another node.
		return false, fmt.Errorf("provisioning failed for PVC %q", pvc.Name)
	}
	if pvc.Spec.VolumeName != "" {
		pv := b.volumes[pvc.Spec.VolumeName]
		if pv == nil {
			return false, nil // the API may tell of it later
		}
		pv, err := asServed(pv, b.csiNodes[node.Name])
		if err != nil {
			return false, err
		}
		if err := reachable(pv, node); err != nil {
			return false, err
		}
	}
	return storage.IsBound(pvc), nil
}

// reachable tells why a volume can not be used on a node.
func reachable(pv *v1.PersistentVolume, node *v1.Node) error {
	if err := unreachable(pv, node); err != nil {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", pv.Name, node.Name, err)
	}
	return nil
}

// older tells whether a resourceVersion is less than another.
func older(version, than string) bool {
	if version == than {
		return false
	}
	a, errA := strconv.ParseUint(version, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	return errA == nil && errB == nil && a < b
}
