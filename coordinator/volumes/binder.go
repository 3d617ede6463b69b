package volumes

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// checkPeriod is how long PreBind waits at the most before it looks again: nodes and
// CSINodes change without waking it.
const checkPeriod = time.Second

// Writer writes volumes and claims to where they are kept.
type Writer interface {
	// Write replaces objects, each of them only if it still has the ResourceVersion that it
	// carries, and returns their new versions: in one transaction where that is possible,
	// else one after the other. After an error the objects that versions are returned for
	// are written, the first ones.
	Write(ctx context.Context, objs []objects.Object) (versions []string, err error)
}

// BinderConfig is what a Binder is made of.
type BinderConfig struct {
	Writer Writer
	// Completes says that nobody else binds a claim to the volume that was found for it:
	// there is no volume controller. Then PreBind writes both sides at once. A volume that
	// is to be made is waited for in any case.
	Completes bool
	// After is the clock; nil: time.After.
	After func(time.Duration) <-chan time.Time
}

// Binder does the work of placements on goroutines of their own. It shares nothing with
// the scheduling goroutine but the view of the API.
type Binder struct {
	cfg  BinderConfig
	view *apiView
}

// Binder makes a binder for the works of this cache.
func (c *Cache) Binder(cfg BinderConfig) *Binder {
	if cfg.After == nil {
		cfg.After = time.After
	}
	return &Binder{cfg: cfg, view: c.view}
}

// PreBind writes what was decided and waits until all claims are bound, at most for
// timeout. It may be called on any goroutine, once for each work. After an error the
// work is to be unreserved on the scheduling goroutine.
//
// Differs from upstream: it looks as soon as something happens, and the first time at once,
// not only every second.
func (b *Binder) PreBind(ctx context.Context, w *Work, timeout time.Duration) error {
	if !w.PreBindNeeded() {
		return nil
	}
	defer b.view.remove(w)
	if err := b.write(ctx, w); err != nil {
		return err
	}
	if err := b.wait(ctx, w, timeout); err != nil {
		return fmt.Errorf("binding volumes: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("All PVCs for pod are bound", "pod", klog.KObj(w.pod))
	return nil
}

// write sends volumes first, then claims, as upstream does.
func (b *Binder) write(ctx context.Context, w *Work) error {
	var objs []objects.Object
	var written []*string
	add := func(obj objects.Object, version *string) {
		objs, written = append(objs, obj), append(written, version)
	}
	for i := range w.matches {
		p := &w.matches[i]
		if !b.cfg.Completes {
			add(p.pv, &p.version)
			continue
		}
		pv, pvc := bound(p)
		add(pv, &p.version)
		add(pvc, new(string))
	}
	for i := range w.provisions {
		add(w.provisions[i].pvc, &w.provisions[i].version)
	}
	versions, err := b.cfg.Writer.Write(ctx, objs)
	for i, version := range versions {
		*written[i] = version
	}
	return err
}

func (b *Binder) wait(ctx context.Context, w *Work, timeout time.Duration) error {
	deadline := b.cfg.After(timeout)
	for {
		done, err := b.view.check(w)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return context.DeadlineExceeded
		case <-w.wake:
		case <-b.cfg.After(checkPeriod):
		}
	}
}

// Complete does the work of a placement in memory, where there is nowhere to write it: the
// volumes that were found are bound, and claims whose volumes are to be made keep the
// selected node. It returns the objects that changed, for those who keep them.
func (c *Cache) Complete(w *Work) []objects.Object {
	if w == nil {
		return nil
	}
	c.view.remove(w)
	var out []objects.Object
	for i := range w.matches {
		p := &w.matches[i]
		p.volume.assumed = nil
		pv, pvc := bound(p)
		c.Set(pv)
		c.Set(pvc)
		out = append(out, pv, pvc)
	}
	for i := range w.provisions {
		p := &w.provisions[i]
		p.claim.assumed = nil
		c.Set(p.pvc)
		out = append(out, p.pvc)
	}
	return out
}
