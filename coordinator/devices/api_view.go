package devices

import (
	"fmt"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// apiView has the claims that binding goroutines wait for. The scheduling goroutine keeps it up to date, and wakes those that
// wait.
type apiView struct {
	mu      sync.Mutex
	watched map[types.NamespacedName]*watch
}

// watch is one claim of the API view. The claim is nil where it is gone, or was not told of yet.
type watch struct {
	claim *resourcev1.ResourceClaim
	gone  bool
	works map[*Work]bool
}

func newAPIView() *apiView { return &apiView{watched: map[types.NamespacedName]*watch{}} }

// open has the API view know of a work's claims, where their devices may have to become ready.
func (b *apiView) open(w *Work) {
	wait := false
	for _, x := range w.claims {
		wait = wait || needsConditions(x.allocation) || needsConditions(x.claim.Status.Allocation)
	}
	if !wait {
		return
	}
	for _, x := range w.claims {
		if !x.special {
			b.add(w, x.claim)
		}
	}
}

// add has the API view know of a claim.
func (b *apiView) add(w *Work, claim *resourcev1.ResourceClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(claim)
	at := b.watched[key]
	if at == nil {
		at = &watch{claim: claim, works: map[*Work]bool{}}
		b.watched[key] = at
	}
	at.works[w] = true
	w.watched = append(w.watched, key)
}

// close strikes a work off; twice does no harm.
func (b *apiView) close(w *Work) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range w.watched {
		if at := b.watched[key]; at != nil {
			if delete(at.works, w); len(at.works) == 0 {
				delete(b.watched, key)
			}
		}
	}
	w.watched = nil
}

func (b *apiView) set(now *resourcev1.ResourceClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.watched[keyOf(now)]; at != nil {
		at.claim, at.gone = now, false
		at.rouse()
	}
}

func (b *apiView) delete(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.watched[key]; at != nil {
		at.claim, at.gone = nil, true
		at.rouse()
	}
}

func (at *watch) rouse() {
	for w := range at.works {
		select {
		case w.wake <- struct{}{}:
		default: // it is roused already
		}
	}
}

// latest is a claim as it counts: as it was written, or newer.
func (b *apiView) latest(written *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.watched[keyOf(written)]
	switch {
	case at == nil || at.claim == nil && !at.gone:
		return written, nil
	case at.gone:
		return nil, fmt.Errorf("could not find ResourceClaim %q", keyOf(written))
	case at.claim.UID == written.UID && newer(written.ResourceVersion, at.claim.ResourceVersion):
		return written, nil
	}
	return at.claim, nil
}
