package cli

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// create does to an input what an API server and its controllers do to objects that are
// created, and a store does elsewhere: all get a UID, made from their names; pods have
// their label keys merged into their selectors and get the claims of their ephemeral volumes and templates;
// claims get the default storage class, and resource claims of pods that are gone are free. What comes from a cluster is so
// already and stays.
func create(in *Input) {
	there := map[objects.Ref]bool{}
	var classes []*storagev1.StorageClass
	for _, obj := range in.Cluster {
		there[objects.RefOf(obj)] = true
		if c, ok := obj.(*storagev1.StorageClass); ok {
			classes = append(classes, c)
		}
	}
	for _, p := range in.Pods {
		assignUID(p)
		objects.MergeLabelKeys(p, p.Labels)
		if objects.IsTerminal(p) {
			continue
		}
		for _, c := range objects.EphemeralClaims(p) {
			if !there[objects.RefOf(c)] {
				in.Cluster = append(in.Cluster, c)
			}
		}
	}
	createResourceClaims(in, there)
	fallback := objects.DefaultStorageClass(classes)
	for _, obj := range in.Cluster {
		assignUID(obj)
		if c, ok := obj.(*v1.PersistentVolumeClaim); ok && fallback != nil && objects.NamesNoClass(c) {
			c.Spec.StorageClassName = &fallback.Name
		}
	}
}

// createResourceClaims makes claims from templates, and frees those whose pods are gone or have ended.
func createResourceClaims(in *Input, there map[objects.Ref]bool) {
	templates := map[objects.Ref]*resourcev1.ResourceClaimTemplate{}
	for _, obj := range in.Cluster {
		if t, ok := obj.(*resourcev1.ResourceClaimTemplate); ok {
			templates[objects.RefOf(t)] = t
		}
	}
	alive := map[types.UID]bool{}
	for _, p := range in.Pods {
		if objects.IsTerminal(p) {
			continue
		}
		alive[p.UID] = true
		objects.NameClaims(p)
		for _, c := range objects.PodClaims(p) {
			t := templates[objects.Ref{Kind: objects.KindResourceClaimTemplate, Namespace: p.Namespace, Name: c.Template}]
			if t != nil && !there[c.Ref] {
				there[c.Ref] = true
				in.Cluster = append(in.Cluster, objects.MakeClaim(p, c, t))
			}
		}
	}
	for _, obj := range in.Cluster {
		if g, ok := obj.(*v1alpha2.PodGroup); ok {
			assignUID(g)
			alive[g.UID] = true
		}
	}
	kept := in.Cluster[:0]
	for _, obj := range in.Cluster {
		if c, ok := obj.(*resourcev1.ResourceClaim); ok {
			now, over := objects.FreeClaim(c, func(uid types.UID) bool { return !alive[uid] })
			if over {
				continue
			}
			obj = now
		}
		kept = append(kept, obj)
	}
	in.Cluster = kept
}

func assignUID(obj objects.Object) {
	if obj.GetUID() == "" {
		ref := objects.RefOf(obj)
		obj.SetUID(workload.UID(string(ref.Kind), ref.Namespace, ref.Name))
	}
}
