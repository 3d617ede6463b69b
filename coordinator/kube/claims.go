package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// claimTries is how often a request is tried that the API server has not taken up.
const claimTries = 10

// ClaimWriterConfig is what a ClaimWriter is made of.
type ClaimWriterConfig struct {
	Clients *Clients
	// After is the clock; nil: time.After.
	After func(time.Duration) <-chan time.Time
}

// ClaimWriter writes claims of devices to the API server. It is a devices.Writer and a devices.StatusWriter.
//
// Claims are written whole, as upstream does: what the API server refuses is a conflict, and the caller reads the claim
// anew. Errors are those of the API server. A write whose outcome nobody knows wraps objects.ErrUnknown, and is not tried
// again: a second write would be in conflict with the first.
type ClaimWriter struct {
	sender *sender
	after  func(time.Duration) <-chan time.Time
}

// NewClaimWriter makes one.
func NewClaimWriter(cfg ClaimWriterConfig) *ClaimWriter {
	if cfg.After == nil {
		cfg.After = time.After
	}
	return &ClaimWriter{sender: cfg.Clients.claims, after: cfg.After}
}

const (
	claimsPath     = "/apis/resource.k8s.io/v1/namespaces/"
	claimsTemplate = claimsPath + "{namespace}/resourceclaims"
	claimTemplate  = claimsTemplate + "/{name}"
)

func claimPath(namespace, name string) string {
	return claimsPath + url.PathEscape(namespace) + "/resourceclaims/" + url.PathEscape(name)
}

// Get is part of devices.Writer.
func (w *ClaimWriter) Get(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error) {
	return w.claim(ctx, request{method: http.MethodGet, path: claimPath(namespace, name), template: claimTemplate})
}

// Create is part of devices.Writer.
func (w *ClaimWriter) Create(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	return w.write(ctx, http.MethodPost, claimsPath+url.PathEscape(claim.Namespace)+"/resourceclaims", claimsTemplate, claim)
}

// Update is part of devices.Writer.
func (w *ClaimWriter) Update(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	return w.write(ctx, http.MethodPut, claimPath(claim.Namespace, claim.Name), claimTemplate, claim)
}

// UpdateStatus is part of devices.StatusWriter.
func (w *ClaimWriter) UpdateStatus(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	return w.write(ctx, http.MethodPut, claimPath(claim.Namespace, claim.Name)+"/status", claimTemplate+"/status", claim)
}

// claimPatch is a strategic merge patch of resourceclaims/status: reservedFor is merged by uid.
type claimPatch struct {
	Metadata preconditions `json:"metadata"`
	Status   struct {
		ReservedFor []consumerPatch `json:"reservedFor"`
	} `json:"status"`
}

type consumerPatch struct {
	Patch string    `json:"$patch"`
	UID   types.UID `json:"uid"`
}

// Unreserve is part of devices.Writer.
func (w *ClaimWriter) Unreserve(ctx context.Context, claim *resourcev1.ResourceClaim, pod *v1.Pod) error {
	patch := claimPatch{Metadata: preconditions{UID: claim.UID}}
	patch.Status.ReservedFor = []consumerPatch{{"delete", pod.UID}}
	return w.send(ctx, request{
		method: http.MethodPatch, path: claimPath(claim.Namespace, claim.Name) + "/status", template: claimTemplate + "/status",
		kind: kindClaim, contentType: strategicPatchType, body: mustJSON(patch),
	}, nil)
}

// Delete is part of devices.Writer.
func (w *ClaimWriter) Delete(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	return w.send(ctx, request{
		method: http.MethodDelete, path: claimPath(claim.Namespace, claim.Name), template: claimTemplate, kind: kindClaim,
	}, nil)
}

// extendedPatch is a strategic merge patch of pods/status.
type extendedPatch struct {
	Metadata preconditions `json:"metadata"`
	Status   struct {
		Claim *v1.PodExtendedResourceClaimStatus `json:"extendedResourceClaimStatus"`
	} `json:"status"`
}

// TellPod is part of devices.StatusWriter. An API server whose gate DRAExtendedResource is off drops what it is told: the kubelet would
// start the pod without its devices, so that is an error.
func (w *ClaimWriter) TellPod(ctx context.Context, pod *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error {
	patch := extendedPatch{Metadata: preconditions{UID: pod.UID}}
	patch.Status.Claim = status
	now := &v1.Pod{}
	if err := w.send(ctx, request{
		method: http.MethodPatch, path: podPath(pod, "/status"), template: statusTemplate,
		kind: kindClaim, contentType: strategicPatchType, body: mustJSON(patch),
	}, now); err != nil {
		return err
	}
	if now.Status.ExtendedResourceClaimStatus == nil {
		return errNoExtended
	}
	return nil
}

var errNoExtended = errors.New("the API server keeps no status.extendedResourceClaimStatus: its feature gate DRAExtendedResource is off, " +
	"as it is by default before Kubernetes 1.36")

func (w *ClaimWriter) write(ctx context.Context, method, path, template string,
	claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	body, err := w.sender.encode(claim, resourcev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return w.claim(ctx, request{
		method: method, path: path, template: template, kind: kindClaim, contentType: w.sender.contentType, body: body,
	})
}

// claim sends a request whose answer is a claim.
func (w *ClaimWriter) claim(ctx context.Context, r request) (*resourcev1.ResourceClaim, error) {
	now := &resourcev1.ResourceClaim{}
	if err := w.send(ctx, r, now); err != nil {
		return nil, err
	}
	now.SetManagedFields(nil)
	return now, nil
}

// send sends a request until the API server has taken it up, and reads the answer. A patch may be sent twice.
func (w *ClaimWriter) send(ctx context.Context, r request, into runtime.Object) error {
	var left error // why an earlier try was left open
	for n := 1; ; n++ {
		a, err := w.sender.send(ctx, r)
		why := cause(a, err)
		switch v := w.sender.judge(a, err); {
		case v == ok && into == nil:
			return nil
		case v == ok:
			if err := decodeInto(a.body, into); err != nil {
				return fmt.Errorf("%w: read the answer: %w", objects.ErrUnknown, err)
			}
			return nil
		case v == refused:
			return a.asAPIError(&r)
		case v == deposed:
			return why
		case v == open && r.method != http.MethodPatch && r.method != http.MethodGet:
			return fmt.Errorf("%w: %w", objects.ErrUnknown, why)
		case v == open:
			left = why
		}
		if end := w.sender.ended(ctx); end != nil {
			return unfinished(left, why, end)
		}
		if n == claimTries {
			return fmt.Errorf("gave up after %d tries: %w", n, why)
		}
		wait := waitBefore(n, a)
		klog.FromContext(ctx).Info("A resource claim is not written yet, trying again", "path", r.path, "try", n, "wait", wait, "err", why)
		select {
		case <-ctx.Done():
			return unfinished(left, why, ctx.Err())
		case <-w.after(wait):
		}
	}
}

// asAPIError is a refusal as client-go words it.
func (a *answer) asAPIError(r *request) error {
	if a.status != nil {
		return &apierrors.StatusError{ErrStatus: *a.status}
	}
	return apierrors.NewGenericServerResponse(a.code, r.method, resourcev1.Resource("resourceclaims"), "", string(a.body), 0, true)
}
