package framework

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// PodsInPreBind are the pods whose PreBind plugins are at work, of all profiles. Any goroutine may
// use it.
type PodsInPreBind struct {
	mu   sync.RWMutex
	pods map[types.UID]*podInPreBind
}

// NewPodsInPreBind holds no pod yet.
func NewPodsInPreBind() *PodsInPreBind {
	return &PodsInPreBind{pods: map[types.UID]*podInPreBind{}}
}

// Add adds a pod, whose PreBind cancel ends. It takes the place of an earlier one of its uid.
func (p *PodsInPreBind) Add(uid types.UID, cancel context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods[uid] = &podInPreBind{cancel: cancel}
}

// Get is the pod of a uid; nil: there is none.
func (p *PodsInPreBind) Get(uid types.UID) fwk.PodInPreBind {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if in := p.pods[uid]; in != nil {
		return in
	}
	return nil
}

// Remove takes a pod out.
func (p *PodsInPreBind) Remove(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pods, uid)
}

// podInPreBind is either cancelled or marked, whichever comes first.
type podInPreBind struct {
	mu               sync.Mutex
	marked, canceled bool
	cancel           context.CancelCauseFunc
}

var _ fwk.PodInPreBind = (*podInPreBind)(nil)

// CancelPod is part of fwk.PodInPreBind.
func (p *podInPreBind) CancelPod(reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.marked {
		return false
	}
	if !p.canceled {
		p.canceled = true
		p.cancel(errors.New(reason))
	}
	return true
}

// MarkPrebound is part of fwk.PodInPreBind.
func (p *podInPreBind) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.canceled {
		return false
	}
	p.marked = true
	return true
}
