package store

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// claimUse is what pods have to do with one resource claim.
type claimUse struct {
	ref  objects.Ref
	pods []*v1.Pod
	// made is how the claim is made, for the first of the pods.
	made objects.PodClaim
}

// usesOf are the claims of pods, each once: a transaction writes a key once.
func usesOf(pods []*v1.Pod) []claimUse {
	var uses []claimUse
	at := map[objects.Ref]int{}
	for _, p := range pods {
		for _, c := range objects.PodClaims(p) {
			i, known := at[c.Ref]
			if !known {
				i, at[c.Ref] = len(uses), len(uses)
				uses = append(uses, claimUse{ref: c.Ref, made: c})
			}
			uses[i].pods = append(uses[i].pods, p)
		}
	}
	return uses
}

func claimRefs(uses []claimUse) []objects.Ref {
	refs := make([]objects.Ref, len(uses))
	for i := range uses {
		refs[i] = uses[i].ref
	}
	return refs
}

// tendApplied does what the controller of resource claims does once the plans are committed: claims are made from templates, also
// for pods that waited for one, and those of pods that have ended are free.
func (s *Store) tendApplied(ctx context.Context, f lease.Fence, plans []plan) (int64, error) {
	var pods, ended []*v1.Pod
	namespaces := map[string]bool{} // with a template among the plans
	for i := range plans {
		switch obj := plans[i].obj.(type) {
		case *resourcev1.ResourceClaimTemplate:
			namespaces[obj.Namespace] = true
		case *v1.Pod:
			if objects.IsTerminal(obj) {
				ended = append(ended, obj)
			} else {
				pods = append(pods, obj)
			}
		}
	}
	freed, err := s.freeClaims(ctx, f, opApply, ended)
	if err != nil {
		return freed, err
	}
	for namespace := range namespaces {
		waiting, err := s.podsOfTemplates(ctx, namespace)
		if err != nil {
			return freed, fmt.Errorf("apply: %w", err)
		}
		pods = append(pods, waiting...)
	}
	made, err := s.makeResourceClaims(ctx, f, pods)
	return max(freed, made), err
}

// podsOfTemplates are the pods of a namespace whose claims are made from templates.
func (s *Store) podsOfTemplates(ctx context.Context, namespace string) ([]*v1.Pod, error) {
	var pods []*v1.Pod
	_, err := s.scan(ctx, s.keys.kind(objects.KindPod, namespace), func(kv *mvccpb.KeyValue) error {
		obj, err := decode(kv)
		if p, ok := obj.(*v1.Pod); ok && !objects.IsTerminal(p) && len(p.Status.ResourceClaimStatuses) > 0 {
			pods = append(pods, p)
		}
		return err
	})
	return pods, err
}

// makeResourceClaims makes what is missing of the claims of pods that are stored, where there is a template. What a pod of that name
// had before, or a dump says that it has, becomes this pod's.
func (s *Store) makeResourceClaims(ctx context.Context, f lease.Fence, pods []*v1.Pod) (int64, error) {
	uses := usesOf(pods)
	if len(uses) == 0 {
		return 0, nil
	}
	templates := make([]string, len(uses))
	for i, u := range uses {
		templates[i] = s.keys.object(objects.Ref{Kind: objects.KindResourceClaimTemplate, Namespace: u.ref.Namespace, Name: u.made.Template})
	}
	found, _, err := s.getAll(ctx, f, templates)
	if err != nil {
		return 0, fmt.Errorf("templates of resource claims: %w", err)
	}
	return s.settle(ctx, opApply, f, claimRefs(uses), func(i int, current *mvccpb.KeyValue) (*write, error) {
		if current == nil {
			return s.madeFrom(found[i], &uses[i])
		}
		return s.takenOver(current, uses[i].pods)
	})
}

// madeFrom is the write of a new claim; nil: there is no template.
func (s *Store) madeFrom(template *mvccpb.KeyValue, u *claimUse) (*write, error) {
	if template == nil || u.made.Template == "" {
		return nil, nil
	}
	obj, err := decode(template)
	if err != nil {
		return nil, err
	}
	t, ok := obj.(*resourcev1.ResourceClaimTemplate)
	if !ok {
		return nil, fmt.Errorf("%w: there is a %s under its key", objects.ErrConflict, objects.KindOf(obj))
	}
	p := plan{ref: u.ref, obj: objects.MakeClaim(u.pods[0], u.made, t)}
	_, err = s.decide(&p, nil)
	return &p.write, err
}

// takenOver is the write that makes pods the owner and users that a claim names by their names; nil: they are.
func (s *Store) takenOver(current *mvccpb.KeyValue, pods []*v1.Pod) (*write, error) {
	return s.editClaim(current, func(c *resourcev1.ResourceClaim) (bool, bool) {
		changed := false
		for _, p := range pods {
			for i := range c.OwnerReferences {
				o := &c.OwnerReferences[i]
				if o.Kind == string(objects.KindPod) && o.Name == p.Name && o.UID != p.UID {
					o.UID, changed = p.UID, true
				}
			}
			for i := range c.Status.ReservedFor {
				r := &c.Status.ReservedFor[i]
				if r.Resource == "pods" && r.Name == p.Name && r.UID != p.UID {
					r.UID, changed = p.UID, true
				}
			}
			changed = objects.ShareClaim(c, p) || changed
		}
		return changed, false
	})
}

// freeClaims has the claims of pods that are gone, or have ended, used by the others alone.
func (s *Store) freeClaims(ctx context.Context, f lease.Fence, operation string, pods []*v1.Pod) (int64, error) {
	uses := usesOf(pods)
	return s.settle(ctx, operation, f, claimRefs(uses), func(i int, current *mvccpb.KeyValue) (*write, error) {
		gone := map[types.UID]bool{}
		for _, p := range uses[i].pods {
			gone[p.UID] = true
		}
		return s.freed(current, func(uid types.UID) bool { return gone[uid] })
	})
}

// freePodGroupClaims has the claims of PodGroups that are gone used by others alone.
func (s *Store) freePodGroupClaims(ctx context.Context, f lease.Fence, list []*v1alpha2.PodGroup) (int64, error) {
	gone, known := map[types.UID]bool{}, map[objects.Ref]bool{}
	var refs []objects.Ref
	for _, g := range list {
		gone[g.UID] = true
		for _, ref := range objects.PodGroupClaims(g) {
			if !known[ref] {
				known[ref], refs = true, append(refs, ref)
			}
		}
	}
	return s.settle(ctx, opDelete, f, refs, func(_ int, current *mvccpb.KeyValue) (*write, error) {
		return s.freed(current, func(uid types.UID) bool { return gone[uid] })
	})
}

// freed is the write that frees a claim of pods that are gone; nil: it is free of them.
func (s *Store) freed(current *mvccpb.KeyValue, gone func(types.UID) bool) (*write, error) {
	return s.editClaim(current, func(c *resourcev1.ResourceClaim) (bool, bool) {
		now, over := objects.FreeClaim(c, gone)
		changed := now != c
		*c = *now
		return changed, over
	})
}

// editClaim is the write of what edit makes of a claim: a change, or its end.
func (s *Store) editClaim(current *mvccpb.KeyValue, edit func(*resourcev1.ResourceClaim) (changed, over bool)) (*write, error) {
	if current == nil {
		return nil, nil
	}
	obj, err := decode(current)
	if err != nil {
		return nil, err
	}
	c, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, fmt.Errorf("%w: there is a %s under its key", objects.ErrConflict, objects.KindOf(obj))
	}
	changed, over := edit(c)
	w := &write{key: string(current.Key), seen: current.ModRevision}
	switch {
	case over:
		return w, nil
	case !changed:
		return nil, nil
	}
	w.value, err = encode(c)
	return w, err
}

// Tend does for all resource claims what a leader before this one may have left undone: claims are used by pods that are there and
// have not ended, and each pod has those that are made from templates.
func (s *Store) Tend(ctx context.Context, f lease.Fence, all *objects.Snapshot) error {
	alive := map[types.UID]bool{}
	var waiting []*v1.Pod
	for _, p := range all.Pods {
		if objects.IsTerminal(p) {
			continue
		}
		alive[p.UID] = true
		if len(p.Status.ResourceClaimStatuses) > 0 {
			waiting = append(waiting, p)
		}
	}
	for _, obj := range all.Cluster {
		if g, ok := obj.(*v1alpha2.PodGroup); ok {
			alive[g.UID] = true
		}
	}
	gone := func(uid types.UID) bool { return !alive[uid] }
	var refs []objects.Ref
	there := map[objects.Ref]bool{}
	for _, obj := range all.Cluster {
		if c, ok := obj.(*resourcev1.ResourceClaim); ok {
			there[objects.RefOf(c)] = true
			if now, over := objects.FreeClaim(c, gone); over || now != c {
				refs = append(refs, objects.RefOf(c))
			}
		}
	}
	if _, err := s.settle(ctx, opDelete, f, refs, func(_ int, current *mvccpb.KeyValue) (*write, error) {
		return s.freed(current, gone)
	}); err != nil {
		return err
	}
	_, err := s.makeResourceClaims(ctx, f, lacking(waiting, there))
	return err
}

// lacking are the pods some of whose claims are not there.
func lacking(pods []*v1.Pod, there map[objects.Ref]bool) []*v1.Pod {
	var out []*v1.Pod
	for _, p := range pods {
		for _, c := range objects.PodClaims(p) {
			if c.Template != "" && !there[c.Ref] {
				out = append(out, p)
				break
			}
		}
	}
	return out
}

// markDeleted is the write that notes that a claim is to go, for pods use it; nil: it may go at once.
func (s *Store) markDeleted(current *mvccpb.KeyValue) *write {
	w, err := s.editClaim(current, func(c *resourcev1.ResourceClaim) (bool, bool) {
		if c.DeletionTimestamp == nil {
			c.DeletionTimestamp = &metav1.Time{Time: s.now()}
		}
		return len(c.Status.ReservedFor) > 0, false
	})
	if err != nil {
		return nil // what can not be read can be deleted all the same
	}
	return w
}
