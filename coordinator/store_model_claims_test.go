package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// keep keeps an object's next version and tells of it. w.mu is held, or nobody else is there.
func (w *storeModel) keep(typ objects.EventType, obj objects.Object) {
	w.revision++
	obj.SetResourceVersion(strconv.Itoa(w.revision))
	w.others[objects.RefOf(obj)] = obj
	w.tell(typ, obj)
}

// claim names a claim that a pod is to have, most often a new one.
func (w *storeModel) claim() string {
	name := fmt.Sprintf("c%04d", w.names)
	if w.chance(20) {
		name = "shared"
	}
	c := build.Claim(name, "local").Obj()
	if w.others[objects.RefOf(c)] == nil {
		w.keep(objects.Added, c)
	}
	return name
}

// volume makes a volume for the pods of one node.
func (w *storeModel) volume() {
	w.names++
	w.keep(objects.Added, build.Volume(fmt.Sprintf("v%04d", w.names), "local").On(v1.LabelHostname, fmt.Sprintf("n%d", w.r.IntN(5))).Obj())
}

// Write is what the store's is: all or nothing, and only what has not changed.
func (w *storeModel) Write(_ context.Context, objs []objects.Object) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chance(5) {
		return nil, objects.ErrUnknown
	}
	for _, obj := range objs {
		switch now := w.others[objects.RefOf(obj)]; {
		case now == nil:
			return nil, objects.ErrNotFound
		case now.GetResourceVersion() != obj.GetResourceVersion():
			return nil, objects.ErrConflict
		}
	}
	var versions []string
	for _, obj := range objs {
		obj = obj.DeepCopyObject().(objects.Object)
		w.keep(objects.Modified, obj)
		versions = append(versions, obj.GetResourceVersion())
	}
	if w.chance(5) {
		return nil, objects.ErrUnknown // it was written
	}
	return versions, nil
}

// judgeClaims holds that claims and volumes belong together, and that bound pods have theirs
// where they are.
func (w *storeModel) judgeClaims() (problems []string) {
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	owners := map[types.UID]string{}
	for _, obj := range w.others {
		pv, ok := obj.(*v1.PersistentVolume)
		if !ok || pv.Spec.ClaimRef == nil {
			continue
		}
		if other := owners[pv.Spec.ClaimRef.UID]; other != "" {
			wrong("claim %s has volumes %s and %s", pv.Spec.ClaimRef.Name, other, pv.Name)
		}
		owners[pv.Spec.ClaimRef.UID] = pv.Name
	}
	for _, uid := range slices.Sorted(maps.Keys(w.binds)) {
		p := w.pods[uid]
		if p == nil || len(p.Spec.Volumes) == 0 {
			continue
		}
		name := p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
		c, _ := w.others[objects.Ref{Kind: objects.KindPersistentVolumeClaim, Namespace: "default", Name: name}].(*v1.PersistentVolumeClaim)
		if c == nil || c.Spec.VolumeName == "" || c.Annotations[storage.AnnBindCompleted] == "" || owners[c.UID] != c.Spec.VolumeName {
			wrong("pod %s is bound, and its claim is %v", p.Name, c)
			continue
		}
		pv := w.others[objects.Ref{Kind: objects.KindPersistentVolume, Name: c.Spec.VolumeName}].(*v1.PersistentVolume)
		at := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
		if !slices.Contains(at, p.Spec.NodeName) {
			wrong("pod %s is bound to %s, its volume %s is on %s", p.Name, p.Spec.NodeName, pv.Name, strings.Join(at, ", "))
		}
	}
	return problems
}
