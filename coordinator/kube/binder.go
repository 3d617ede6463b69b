package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
)

const (
	// bindInFlight is how many binds are under way at once at the most, unless said otherwise.
	bindInFlight = 64
	// bindTries is how often a bind is asked for before its turn goes to another.
	bindTries = 10

	podTemplate     = "/api/v1/namespaces/{namespace}/pods/{name}"
	bindingTemplate = podTemplate + "/binding"
)

// BinderConfig is what a Binder is made of.
type BinderConfig struct {
	Clients *Clients
	// InFlight is how many binds are under way at once at the most; 0: 64.
	InFlight int
	// After is the clock; nil: time.After.
	After func(time.Duration) <-chan time.Time
}

// Binder binds pods through the API server. It is a bind.Binder.
type Binder struct {
	sender *sender
	slots  chan struct{}
	after  func(time.Duration) <-chan time.Time
	active atomic.Int64
}

// NewBinder makes one.
func NewBinder(cfg BinderConfig) *Binder {
	if cfg.InFlight <= 0 {
		cfg.InFlight = bindInFlight
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	return &Binder{sender: cfg.Clients.binds, slots: make(chan struct{}, cfg.InFlight), after: cfg.After}
}

// Busy tells whether binds are under way or wait for their turn.
func (b *Binder) Busy() bool { return b.active.Load() > 0 }

// Bind binds each pod by itself and tells done of each outcome as it comes, on goroutines
// of its own and on the caller's; it returns when all are told. What an error wraps says what
// is known:
//
//	nil                    the pod is on that node
//	lease.ErrDeposed         this process does not lead; nothing was sent
//	objects.ErrNotFound      the pod is gone, or another has its name
//	objects.ErrAlreadyBound  it is on another node
//	objects.ErrConflict      it is being deleted, or has scheduling gates
//	objects.ErrUnknown       not known: ask again. With it may come ErrDeposed
//	anything else          the API server refused, and the pod is not bound
//
// Bind may be called concurrently.
func (b *Binder) Bind(ctx context.Context, bindings []objects.Binding, done func(i int, err error)) {
	b.active.Add(int64(len(bindings)))
	var wg sync.WaitGroup
	for i := range bindings {
		select {
		case b.slots <- struct{}{}:
		case <-ctx.Done():
			b.active.Add(-1)
			done(i, bindError(&bindings[i], ctx.Err()))
			continue
		}
		one := func() {
			err := b.bind(ctx, &bindings[i])
			<-b.slots
			b.active.Add(-1)
			done(i, err)
		}
		if i == len(bindings)-1 {
			one() // there is nothing else to do here
			break
		}
		wg.Go(one)
	}
	wg.Wait()
}

// BindError is why a pod was not bound to a node.
type BindError struct {
	Namespace, Name, Node string
	Err                   error
}

func bindError(b *objects.Binding, err error) error {
	return &BindError{b.Pod.Namespace, b.Pod.Name, b.Node, err}
}

func (e *BindError) Error() string {
	return fmt.Sprintf("bind pod %s/%s to %s: %v", e.Namespace, e.Name, e.Node, e.Err)
}

func (e *BindError) Unwrap() error { return e.Err }

// Told is what kube-scheduler tells users of it: the API server's own words. The node is not
// among them, so that the same refusal is the same text on the next one.
func (e *BindError) Told() string {
	if a := (*answer)(nil); errors.As(e.Err, &a) && a.status != nil && a.status.Message != "" {
		return a.status.Message
	}
	return e.Err.Error()
}

// bind asks until the outcome is known, or its tries are over.
//
//	         201                    429, not sent: wait
//	POST -----------> bound        +-------------------+
//	 ^ |                           |                   |
//	 | +---------------------------+-------------------+
//	 | | any other answer, or none
//	 | v         on this node: bound
//	 | GET ----> gone, on another node, being deleted: that error
//	 | | neither
//	 | +-------> the POST was refused: its error
//	 +---------- the POST was left open: wait
//
// A POST may be repeated: the API server lets one of them through.
func (b *Binder) bind(ctx context.Context, x *objects.Binding) error {
	req, err := b.request(x)
	if err != nil {
		return bindError(x, err)
	}
	logger := klog.FromContext(ctx)
	var left error // why an earlier try was left open
	for n := 1; ; n++ {
		a, err := b.sender.send(ctx, req)
		why := cause(a, err)
		v := b.sender.judge(a, err)
		switch v {
		case ok:
			return nil
		case refused, open:
			if err, known := b.look(ctx, x, a, why); known {
				return err
			}
			if v == open {
				left = why
			} else if left == nil {
				return bindError(x, why)
			}
		}
		if end := b.sender.ended(ctx); end != nil {
			return bindError(x, unfinished(left, why, end))
		}
		if n == bindTries {
			return bindError(x, fmt.Errorf("%w after %d tries: %w", objects.ErrUnknown, n, why))
		}
		wait := waitBefore(n, a)
		logger.Info("Bind has no outcome yet, asking again", "pod", klog.KObj(x.Pod), "node", x.Node, "try", n, "wait", wait, "err", why)
		select {
		case <-ctx.Done():
			return bindError(x, unfinished(left, why, ctx.Err()))
		case <-b.after(wait):
		}
	}
}

// unfinished is the error of a write that nobody waits for any more.
func unfinished(left, why, end error) error {
	if left != nil {
		return fmt.Errorf("%w: %w; left open by: %w", objects.ErrUnknown, end, left)
	}
	if errors.Is(why, end) {
		return why
	}
	return fmt.Errorf("%w; last: %w", end, why)
}

// request is the POST of a binding. The uid is a precondition there.
func (b *Binder) request(x *objects.Binding) (request, error) {
	if x.Pod.Spec.NodeName != "" {
		return request{}, fmt.Errorf("%w to %s", objects.ErrAlreadyBound, x.Pod.Spec.NodeName)
	}
	body, err := b.sender.encode(&v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.Pod.Namespace, Name: x.Pod.Name, UID: x.Pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: x.Node},
	}, v1.SchemeGroupVersion)
	if err != nil {
		return request{}, err
	}
	return request{
		method: http.MethodPost, path: podPath(x.Pod, "/binding"), template: bindingTemplate,
		kind: kindBind, contentType: b.sender.contentType, body: body,
	}, nil
}

func podPath(p *v1.Pod, subresource string) string {
	return "/api/v1/namespaces/" + url.PathEscape(p.Namespace) + "/pods/" + url.PathEscape(p.Name) + subresource
}

// look reads the pod from where it is kept and tells what became of the binding; known
// is false where the pod is as if nothing had happened, or can't be read.
//
//nolint:revive // the error is a finding
func (b *Binder) look(ctx context.Context, x *objects.Binding, a *answer, why error) (err error, known bool) {
	if a != nil && a.missing() {
		return bindError(x, fmt.Errorf("%w: %w", objects.ErrNotFound, why)), true
	}
	pod, err := b.get(ctx, x.Pod)
	switch {
	case errors.Is(err, objects.ErrNotFound):
		return bindError(x, fmt.Errorf("%w: %w", objects.ErrNotFound, why)), true
	case err != nil:
		klog.FromContext(ctx).Info("Pod can not be read to see whether it is bound", "pod", klog.KObj(x.Pod), "node", x.Node, "err", err)
		return nil, false
	case pod.UID != x.Pod.UID:
		return bindError(x, fmt.Errorf("%w: uid %s was replaced by %s: %w", objects.ErrNotFound, x.Pod.UID, pod.UID, why)), true
	case pod.Spec.NodeName == x.Node:
		return nil, true
	case pod.Spec.NodeName != "":
		return bindError(x, fmt.Errorf("%w to %s: %w", objects.ErrAlreadyBound, pod.Spec.NodeName, why)), true
	case pod.DeletionTimestamp != nil:
		return bindError(x, fmt.Errorf("%w: the pod is being deleted: %w", objects.ErrConflict, why)), true
	case len(pod.Spec.SchedulingGates) > 0:
		return bindError(x, fmt.Errorf("%w: the pod has scheduling gates: %w", objects.ErrConflict, why)), true
	}
	return nil, false
}

// get reads a pod, as of now: not from the API server's cache.
func (b *Binder) get(ctx context.Context, p *v1.Pod) (*v1.Pod, error) {
	a, err := b.sender.send(ctx, request{method: http.MethodGet, path: podPath(p, ""), template: podTemplate})
	switch {
	case err != nil:
		return nil, err
	case a.missing():
		return nil, objects.ErrNotFound
	case a.code != http.StatusOK:
		return nil, a
	}
	var pod v1.Pod
	if err := decodeInto(a.body, &pod); err != nil {
		return nil, err
	}
	return &pod, nil
}

// decodeInto reads an answer's object.
func decodeInto(body []byte, into runtime.Object) error {
	return runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, into)
}
