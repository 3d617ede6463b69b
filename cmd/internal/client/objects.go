package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Kinds that a coordinator keeps.
const (
	KindNode      = string(objects.KindNode)
	KindPod       = string(objects.KindPod)
	KindNamespace = string(objects.KindNamespace)
)

// List reads all pages of a kind, and the revision that they are of. Empty
// namespace or name: all.
func (c *Client) List(ctx context.Context, kind, namespace, name string) (all []runtime.Object, revision uint64, err error) {
	revision, err = c.Pages(ctx, kind, namespace, name, func(page []runtime.Object) error {
		all = append(all, page...)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return all, revision, nil
}

// Pages is List page by page, of 500 objects each: one is read when each is through with the one before.
func (c *Client) Pages(ctx context.Context, kind, namespace, name string, each func([]runtime.Object) error) (revision uint64, err error) {
	request := &pb.ListObjectsRequest{Kind: kind, Namespace: namespace, Name: name}
	for {
		page, err := c.page(ctx, request)
		if err != nil {
			return 0, err
		}
		all, err := decode(page)
		if err != nil {
			return 0, err
		}
		if err := each(all); err != nil {
			return 0, err
		}
		request.ContinueToken = page.GetContinueToken()
		if request.ContinueToken == "" {
			return page.GetRevision(), nil
		}
	}
}

// Some reads the first objects of a kind, as many as limit says at the most.
func (c *Client) Some(ctx context.Context, kind, namespace string, limit uint32) ([]runtime.Object, error) {
	page, err := c.page(ctx, &pb.ListObjectsRequest{Kind: kind, Namespace: namespace, Limit: limit})
	if err != nil {
		return nil, err
	}
	return decode(page)
}

func (c *Client) page(ctx context.Context, request *pb.ListObjectsRequest) (page *pb.ListObjectsResponse, err error) {
	err = c.Do(ctx, func(ctx context.Context, s pb.SchedulerServiceClient) (err error) {
		page, err = s.ListObjects(ctx, request)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", cmp.Or(objects.Kind(request.GetKind()).Plural(), request.GetKind()), err)
	}
	return page, nil
}

func decode(page *pb.ListObjectsResponse) ([]runtime.Object, error) {
	all := make([]runtime.Object, 0, len(page.GetObjects()))
	for _, o := range page.GetObjects() {
		obj, err := objects.Decode(o.GetRaw())
		if err != nil {
			return nil, err
		}
		all = append(all, obj)
	}
	return all, nil
}

// Nodes lists all nodes.
func (c *Client) Nodes(ctx context.Context) ([]*v1.Node, error) {
	all, _, err := c.List(ctx, KindNode, "", "")
	if err != nil {
		return nil, err
	}
	return typed[*v1.Node](all), nil
}

// Pods lists the pods of a namespace; empty: of all.
func (c *Client) Pods(ctx context.Context, namespace string) ([]*v1.Pod, error) {
	all, _, err := c.List(ctx, KindPod, namespace, "")
	if err != nil {
		return nil, err
	}
	return typed[*v1.Pod](all), nil
}

func typed[T runtime.Object](all []runtime.Object) []T {
	out := make([]T, 0, len(all))
	for _, o := range all {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// settled is how long a stream must have lived for its break to be news: the
// call is then made again with all its patience.
const settled = 5 * time.Second

// Watch calls each for every change of a kind after a revision, until ctx ends
// or each fails. A broken stream is taken up again where it broke. An error with
// code OUT_OF_RANGE means that the revision is compacted: list again.
func (c *Client) Watch(ctx context.Context, kind, namespace string, after uint64,
	each func(pb.WatchEventType, runtime.Object) error) error {
	for {
		var own error // each's own error must not be taken for the server's
		err := c.Do(ctx, func(ctx context.Context, s pb.SchedulerServiceClient) error {
			began, from := c.config.Now(), after
			err := stream(ctx, s, &pb.WatchRequest{Kind: kind, Namespace: namespace, AfterRevision: after},
				func(answer *pb.WatchResponse) bool {
					after = max(after, answer.GetRevision())
					own = handle(answer, each)
					return own == nil
				})
			if own != nil || status.Code(err) == codes.Unavailable && (after > from || c.config.Now().Sub(began) > settled) {
				return nil
			}
			return err
		})
		if err := cmp.Or(own, err); err != nil {
			return err
		}
	}
}

// stream receives until each says no, or the stream ends, which always is an
// error: a stopping server's orderly end counts as UNAVAILABLE.
func stream(ctx context.Context, s pb.SchedulerServiceClient, request *pb.WatchRequest, each func(*pb.WatchResponse) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers, err := s.Watch(ctx, request)
	if err != nil {
		return err
	}
	for {
		answer, err := answers.Recv()
		if errors.Is(err, io.EOF) {
			return status.Error(codes.Unavailable, "the coordinator ended the watch")
		}
		if err != nil {
			return err
		}
		if !each(answer) {
			return nil
		}
	}
}

func handle(answer *pb.WatchResponse, each func(pb.WatchEventType, runtime.Object) error) error {
	for _, e := range answer.GetEvents() {
		obj, err := objects.Decode(e.GetObject().GetRaw())
		if err != nil {
			return err
		}
		if err := each(e.GetType(), obj); err != nil {
			return err
		}
	}
	return nil
}
