package submit

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Object is one that can be applied.
type Object interface {
	runtime.Object
	metav1.Object
}

// Request encodes objects as one ApplyRequest of Kubernetes protobuf.
func Request[T Object](objects []T) (*pb.ApplyRequest, error) {
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	req := &pb.ApplyRequest{}
	for _, obj := range objects {
		kinds, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil {
			return nil, err
		}
		obj.GetObjectKind().SetGroupVersionKind(kinds[0])
		var raw bytes.Buffer
		if err := encoder.Encode(obj, &raw); err != nil {
			return nil, fmt.Errorf("encode %s %s/%s: %w", kinds[0].Kind, obj.GetNamespace(), obj.GetName(), err)
		}
		req.Objects = append(req.Objects, &pb.Object{
			Ref: &pb.ObjectRef{Kind: kinds[0].Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()},
			Raw: raw.Bytes(),
		})
	}
	return req, nil
}

// Apply applies a request until it is acknowledged, and returns the answer.
func (c *Client) Apply(ctx context.Context, req *pb.ApplyRequest) (resp *pb.ApplyResponse, err error) {
	err = c.Do(ctx, func(ctx context.Context, s pb.SchedulerServiceClient) (err error) {
		resp, err = s.Apply(ctx, req)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("apply %d objects, the first %s/%s: %w", len(req.Objects), req.Objects[0].Ref.Namespace,
			req.Objects[0].Ref.Name, err)
	}
	return resp, nil
}

// Ledger holds what was acknowledged. It is safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex
	acked map[string]uint64 // namespace/name to the revision that was told
}

// NewLedger is empty.
func NewLedger() *Ledger { return &Ledger{acked: map[string]uint64{}} }

// Note enters the objects of a request that was acknowledged.
func (l *Ledger) Note(req *pb.ApplyRequest, resp *pb.ApplyResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range req.Objects {
		l.acked[o.Ref.Namespace+"/"+o.Ref.Name] = resp.Revision
	}
}

// Len is how many objects were acknowledged.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// Names are the objects that were acknowledged, as namespace/name, sorted.
func (l *Ledger) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.acked))
}
