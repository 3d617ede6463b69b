package api

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Apply creates or updates objects. All are validated before any is written; the answer comes
// after etcd has committed.
func (s *Server) Apply(ctx context.Context, req *pb.ApplyRequest) (*pb.ApplyResponse, error) {
	t, err := s.beginStored(req)
	if err != nil {
		return nil, err
	}
	objs := make([]runtime.Object, len(req.GetObjects()))
	for i, o := range req.GetObjects() {
		obj, err := decode(o)
		if err != nil {
			return nil, invalidArgument(fmt.Sprintf("objects[%d]: %v", i, err))
		}
		objs[i] = obj
	}
	outcomes, revision, err := t.store.Apply(ctx, t.fence, objs, req.GetDryRun())
	if err != nil {
		return nil, statusOf(ctx, err)
	}
	return &pb.ApplyResponse{Outcomes: outcomes, Revision: uint64(revision)}, nil
}

// decode reads an object of a request and holds it against the reference, where there is one.
func decode(o *pb.Object) (objects.Object, error) {
	obj, err := objects.Decode(o.GetRaw())
	if err != nil {
		if ref := o.GetRef(); ref != nil {
			return nil, fmt.Errorf("%s: %w", refOf(ref), err)
		}
		return nil, err
	}
	objects.Default(obj)
	if o.GetRef() == nil {
		return obj, nil
	}
	if said, is := refOf(o.GetRef()), objects.RefOf(obj); said != is {
		return nil, fmt.Errorf("the reference says %s, the object is %s", said, is)
	}
	return obj, nil
}

func refOf(r *pb.ObjectRef) objects.Ref {
	return objects.Ref{Kind: objects.Kind(r.GetKind()), Namespace: r.GetNamespace(), Name: r.GetName()}
}

// Delete removes objects; the answer comes after etcd has committed.
func (s *Server) Delete(ctx context.Context, req *pb.DeleteRequest) (*pb.DeleteResponse, error) {
	t, err := s.beginStored(req)
	if err != nil {
		return nil, err
	}
	refs := make([]objects.Ref, len(req.GetRefs()))
	for i, r := range req.GetRefs() {
		refs[i] = refOf(r)
	}
	deleted, revision, err := t.store.Delete(ctx, t.fence, refs)
	if err != nil {
		return nil, statusOf(ctx, err)
	}
	return &pb.DeleteResponse{Deleted: deleted, Revision: uint64(revision)}, nil
}

// ListObjects pages through the objects of a kind, in the order of their keys.
func (s *Server) ListObjects(ctx context.Context, req *pb.ListObjectsRequest) (*pb.ListObjectsResponse, error) {
	t, err := s.beginStored(req)
	if err != nil {
		return nil, err
	}
	page, err := list(ctx, t.store, req)
	if err != nil {
		return nil, statusOf(ctx, err)
	}
	resp := &pb.ListObjectsResponse{ContinueToken: page.Continue, Revision: uint64(page.Revision)}
	for i := range page.Items {
		if name := req.GetName(); name == "" || name == page.Items[i].Ref.Name {
			resp.Objects = append(resp.Objects, object(&page.Items[i]))
		}
	}
	return resp, nil
}

// list reads the page that a request asks for; one object is a page of its own. A name in all
// namespaces is looked for page by page, so that pages may be empty.
func list(ctx context.Context, st *store.Store, req *pb.ListObjectsRequest) (*store.Page, error) {
	sel := selector(req.GetKind(), req.GetNamespace())
	one := objects.Ref{Kind: sel.Kind, Namespace: sel.Namespace, Name: req.GetName()}
	if one.Name == "" || sel.Kind.Namespaced() && one.Namespace == "" {
		return st.List(ctx, sel, int(req.GetLimit()), req.GetContinueToken())
	}
	item, revision, err := st.Get(ctx, one)
	switch {
	case errors.Is(err, objects.ErrNotFound):
		return &store.Page{Revision: revision}, nil
	case err != nil:
		return nil, err
	}
	return &store.Page{Items: []store.Item{item}, Revision: revision}, nil
}

// selector drops the namespace of a kind that has none.
func selector(kind, namespace string) store.Selector {
	sel := store.Selector{Kind: objects.Kind(kind)}
	if sel.Kind.Namespaced() {
		sel.Namespace = namespace
	}
	return sel
}

func object(item *store.Item) *pb.Object {
	return &pb.Object{
		Ref:      &pb.ObjectRef{Kind: string(item.Ref.Kind), Namespace: item.Ref.Namespace, Name: item.Ref.Name},
		Raw:      item.Raw,
		Revision: uint64(item.Revision),
	}
}
