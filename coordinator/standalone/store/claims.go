package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// fillClasses tells the plans of claims that leave their storage class to the cluster which
// one that is: of those stored, and those of the same request.
func (s *Store) fillClasses(ctx context.Context, plans []plan) error {
	wanted := false
	var own []*storagev1.StorageClass
	for i := range plans {
		switch obj := plans[i].obj.(type) {
		case *v1.PersistentVolumeClaim:
			wanted = wanted || objects.NamesNoClass(obj)
		case *v1.Pod:
			wanted = wanted || slices.ContainsFunc(objects.EphemeralClaims(obj), objects.NamesNoClass)
		case *storagev1.StorageClass:
			own = append(own, obj)
		}
	}
	if !wanted {
		return nil
	}
	class, err := s.defaultClass(ctx, own)
	for i := range plans {
		plans[i].class = class
	}
	return err
}

// defaultClass is the default storage class among those stored, where those given, which are
// about to be written, take their places; empty: there is none.
func (s *Store) defaultClass(ctx context.Context, own []*storagev1.StorageClass) (string, error) {
	classes := map[string]*storagev1.StorageClass{}
	sel := Selector{Kind: objects.KindStorageClass}
	for page := new(Page); ; {
		var err error
		if page, err = s.List(ctx, sel, maxPage, page.Continue); err != nil {
			return "", fmt.Errorf("default storage class: %w", err)
		}
		for _, item := range page.Items {
			obj, err := objects.Decode(item.Raw)
			if err != nil {
				return "", fmt.Errorf("stored %s: %w", item.Ref, err)
			}
			if c, ok := obj.(*storagev1.StorageClass); ok {
				classes[c.Name] = c
			}
		}
		if page.Continue == "" {
			break
		}
	}
	for _, c := range own {
		c = c.DeepCopy()
		c.CreationTimestamp = metav1.NewTime(s.now())
		if stored := classes[c.Name]; stored != nil {
			c.CreationTimestamp = stored.CreationTimestamp
		}
		classes[c.Name] = c
	}
	if c := objects.DefaultStorageClass(slices.Collect(maps.Values(classes))); c != nil {
		return c.Name, nil
	}
	return "", nil
}

// makeClaims makes the claims of ephemeral volumes for the pods among the plans, which are
// committed. One that a pod of that name had before, or that a dump names by the uid that the
// pod had there, becomes this pod's; one of somebody else is left to him.
func (s *Store) makeClaims(ctx context.Context, f lease.Fence, plans []plan) (int64, error) {
	var claims []plan
	for i := range plans {
		pod, ok := plans[i].obj.(*v1.Pod)
		if !ok || objects.IsTerminal(pod) {
			continue
		}
		for _, c := range objects.EphemeralClaims(pod) {
			claims = append(claims, plan{ref: objects.RefOf(c), obj: c, class: plans[i].class})
		}
	}
	refs := make([]objects.Ref, len(claims))
	for i := range claims {
		refs[i] = claims[i].ref
	}
	return s.settle(ctx, opApply, f, refs, func(i int, current *mvccpb.KeyValue) (*write, error) {
		p := &claims[i]
		if current == nil {
			_, err := s.decide(p, nil)
			return &p.write, err
		}
		return adopt(p.obj, current)
	})
}

// adopt makes a claim that is there the pod's that c is owned by, if it was one of that name.
func adopt(c objects.Object, current *mvccpb.KeyValue) (*write, error) {
	there, err := decode(current)
	if err != nil {
		return nil, err
	}
	want, has := metav1.GetControllerOf(c), metav1.GetControllerOf(there)
	if has == nil || has.Kind != want.Kind || has.Name != want.Name || has.UID == want.UID {
		return nil, nil
	}
	owners := there.GetOwnerReferences()
	for i := range owners {
		if owners[i].UID == has.UID {
			owners[i].UID = want.UID
		}
	}
	raw, err := encode(there)
	return &write{key: string(current.Key), value: raw, seen: current.ModRevision}, err
}

// dropClaims removes the claims of pods that are gone, and frees those that they shared.
func (s *Store) dropClaims(ctx context.Context, f lease.Fence, pods []*v1.Pod) (int64, error) {
	dropped, err := s.dropVolumeClaims(ctx, f, pods)
	if err != nil {
		return dropped, err
	}
	freed, err := s.freeClaims(ctx, f, opDelete, pods)
	return max(dropped, freed), err
}

// dropVolumeClaims removes the claims of the ephemeral volumes of pods that are gone.
func (s *Store) dropVolumeClaims(ctx context.Context, f lease.Fence, pods []*v1.Pod) (int64, error) {
	var refs []objects.Ref
	var owners []*v1.Pod
	for _, pod := range pods {
		for _, c := range objects.EphemeralClaims(pod) {
			refs, owners = append(refs, objects.RefOf(c)), append(owners, pod)
		}
	}
	return s.settle(ctx, opDelete, f, refs, func(i int, current *mvccpb.KeyValue) (*write, error) {
		if current == nil {
			return nil, nil
		}
		obj, err := decode(current)
		if err != nil || !metav1.IsControlledBy(obj, owners[i]) {
			return nil, err
		}
		return &write{key: string(current.Key), seen: current.ModRevision}, nil
	})
}

// settle reads objects, commits what decide makes of each (nil: nothing), and decides anew
// where another write came before. The revision is one at which all is committed.
func (s *Store) settle(ctx context.Context, operation string, f lease.Fence, refs []objects.Ref,
	decide func(i int, current *mvccpb.KeyValue) (*write, error)) (int64, error) {
	if len(refs) == 0 {
		return 0, nil
	}
	keys, pending := make([]string, len(refs)), make([]int, len(refs))
	for i, r := range refs {
		keys[i], pending[i] = s.keys.object(r), i
	}
	current, revision, err := s.getAll(ctx, f, keys)
	if err != nil {
		return 0, fmt.Errorf("%s %s and others: %w", operation, refs[0], err)
	}
	for round := 0; len(pending) > 0; round++ {
		var ws []write
		var index []int
		for _, i := range pending {
			w, err := decide(i, current[i])
			if err != nil {
				return revision, fmt.Errorf("%s %s: %w", operation, refs[i], err)
			}
			if w != nil {
				ws, index = append(ws, *w), append(index, i)
			}
		}
		pending = pending[:0]
		for j, o := range s.commitAll(ctx, operation, f, ws) {
			i := index[j]
			switch {
			case o.conflict && round < replans:
				current[i], pending = o.current, append(pending, i)
			case o.conflict:
				err = worse(err, fmt.Errorf("%s %s: %w", operation, refs[i], objects.ErrConflict))
			case o.err != nil:
				err = worse(err, fmt.Errorf("%s %s: %w", operation, refs[i], o.err))
			}
			revision = max(revision, o.revision)
		}
		if err != nil {
			return revision, err
		}
	}
	return revision, nil
}
