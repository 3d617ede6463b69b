package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
)

// volumeTries is how often a write is tried before the placement is given up.
const volumeTries = 10

// VolumeWriterConfig is what a VolumeWriter is made of.
type VolumeWriterConfig struct {
	Clients *Clients
	// After is the clock; nil: time.After.
	After func(time.Duration) <-chan time.Time
}

// VolumeWriter writes what placements decide about volumes and claims to the API server.
// It is a volumes.Writer.
//
// It sends JSON merge patches of just what a placement decides, a volume's claimRef and
// bound-by-controller annotation and a claim's selected-node annotation, for the version
// that was decided on. The objects in memory are trimmed of what no rule reads: an update,
// which upstream sends, would erase that.
type VolumeWriter struct {
	sender *sender
	after  func(time.Duration) <-chan time.Time
}

// NewVolumeWriter makes one.
func NewVolumeWriter(cfg VolumeWriterConfig) *VolumeWriter {
	if cfg.After == nil {
		cfg.After = time.After
	}
	return &VolumeWriter{sender: cfg.Clients.volumes, after: cfg.After}
}

// Write is part of volumes.Writer: one object after the other. The errors wrap
// objects.ErrConflict where an object changed since, objects.ErrNotFound, lease.ErrDeposed, or
// objects.ErrUnknown where nobody knows whether the last object was written.
func (w *VolumeWriter) Write(ctx context.Context, objs []objects.Object) ([]string, error) {
	versions := make([]string, 0, len(objs))
	for _, obj := range objs {
		change, err := changeOf(obj)
		if err != nil {
			return versions, err
		}
		version, err := w.write(ctx, change)
		if err != nil {
			return versions, fmt.Errorf("write %s: %w", objects.RefOf(obj), err)
		}
		versions = append(versions, version)
	}
	return versions, nil
}

// volumeChange is what is written of an object.
type volumeChange struct {
	path, template string
	patch          []byte
	ref            objects.Ref
	// empty makes an object to read into, and there tells whether it has the change.
	empty func() objects.Object
	there func(now objects.Object) bool
}

type volumePatch struct {
	Metadata volumePatchMeta  `json:"metadata"`
	Spec     *volumePatchSpec `json:"spec,omitempty"`
}

type volumePatchMeta struct {
	preconditions
	Annotations map[string]string `json:"annotations,omitempty"`
}

type volumePatchSpec struct {
	ClaimRef *v1.ObjectReference `json:"claimRef"`
}

func changeOf(obj objects.Object) (*volumeChange, error) {
	patch := volumePatch{Metadata: volumePatchMeta{
		preconditions: preconditions{UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion()},
		Annotations:   map[string]string{},
	}}
	c := &volumeChange{ref: objects.RefOf(obj)}
	keep := func(annotation string) {
		if value, ok := obj.GetAnnotations()[annotation]; ok {
			patch.Metadata.Annotations[annotation] = value
		}
	}
	same := func(now objects.Object) bool {
		for annotation, value := range patch.Metadata.Annotations {
			if now.GetAnnotations()[annotation] != value {
				return false
			}
		}
		return now.GetUID() == obj.GetUID()
	}
	switch obj := obj.(type) {
	case *v1.PersistentVolume:
		keep(storage.AnnBoundByController)
		patch.Spec = &volumePatchSpec{ClaimRef: obj.Spec.ClaimRef}
		c.path, c.template = "/api/v1/persistentvolumes/"+url.PathEscape(obj.Name), "/api/v1/persistentvolumes/{name}"
		c.there = func(now objects.Object) bool {
			is, want := now.(*v1.PersistentVolume).Spec.ClaimRef, obj.Spec.ClaimRef
			return same(now) && is != nil && want != nil && is.Namespace == want.Namespace && is.Name == want.Name && is.UID == want.UID
		}
	case *v1.PersistentVolumeClaim:
		keep(storage.AnnSelectedNode)
		c.path = "/api/v1/namespaces/" + url.PathEscape(obj.Namespace) + "/persistentvolumeclaims/" + url.PathEscape(obj.Name)
		c.template = "/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
		c.there = same
	default:
		return nil, fmt.Errorf("write %s: no placement decides about such", objects.RefOf(obj))
	}
	c.empty = func() objects.Object { return objects.New(c.ref.Kind) }
	c.patch = mustJSON(patch)
	return c, nil
}

// write patches an object until it is known whether it has the change, and returns its
// version.
func (w *VolumeWriter) write(ctx context.Context, c *volumeChange) (string, error) {
	var left error // why an earlier try was left open
	for n := 1; ; n++ {
		a, err := w.sender.send(ctx, request{
			method: http.MethodPatch, path: c.path, template: c.template, kind: kindVolume,
			contentType: mergePatchType, body: c.patch,
		})
		why := cause(a, err)
		switch v := w.sender.judge(a, err); {
		case v == ok:
			now := c.empty()
			if err := decodeInto(a.body, now); err != nil {
				return w.read(ctx, c)
			}
			return now.GetResourceVersion(), nil
		case v == refused && a.missing():
			return "", fmt.Errorf("%w: %w", objects.ErrNotFound, why)
		case v == refused && a.code == http.StatusConflict:
			// The version that the patch asks for is history: if it was this patch that
			// changed it, an earlier try was.
			version, err := w.read(ctx, c)
			if err == nil || !errors.Is(err, objects.ErrUnknown) {
				return version, err
			}
			left = why
		case v == refused:
			return "", why
		case v == open:
			left = why
		}
		if end := w.sender.ended(ctx); end != nil {
			return "", unfinished(left, why, end)
		}
		if n == volumeTries {
			return "", fmt.Errorf("%w after %d tries: %w", objects.ErrUnknown, n, why)
		}
		wait := waitBefore(n, a)
		klog.FromContext(ctx).Info("Volume is not written yet, trying again", "object", c.ref.String(), "try", n, "wait", wait, "err", why)
		select {
		case <-ctx.Done():
			return "", unfinished(left, why, ctx.Err())
		case <-w.after(wait):
		}
	}
}

// read returns the version of an object that has the change.
func (w *VolumeWriter) read(ctx context.Context, c *volumeChange) (string, error) {
	a, err := w.sender.send(ctx, request{method: http.MethodGet, path: c.path, template: c.template})
	switch {
	case err != nil || a.code != http.StatusOK && !a.missing():
		return "", fmt.Errorf("%w: %w", objects.ErrUnknown, cause(a, err))
	case a.missing():
		return "", fmt.Errorf("%w: %w", objects.ErrNotFound, a)
	}
	now := c.empty()
	if err := decodeInto(a.body, now); err != nil {
		return "", fmt.Errorf("%w: %w", objects.ErrUnknown, err)
	}
	if !c.there(now) {
		return "", fmt.Errorf("%w: it is at resourceVersion %s now", objects.ErrConflict, now.GetResourceVersion())
	}
	return now.GetResourceVersion(), nil
}
