package cli

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// create does to an input what an API server and its controllers do to objects that are
// created, and a store does elsewhere: all get a UID, made from their names; pods have
// their label keys merged into their selectors and get the claims of their ephemeral volumes;
// claims get the default storage class. What comes from a cluster is so already and stays.
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
	fallback := objects.DefaultStorageClass(classes)
	for _, obj := range in.Cluster {
		assignUID(obj)
		if c, ok := obj.(*v1.PersistentVolumeClaim); ok && fallback != nil && objects.NamesNoClass(c) {
			c.Spec.StorageClassName = &fallback.Name
		}
	}
}

func assignUID(obj objects.Object) {
	if obj.GetUID() == "" {
		ref := objects.RefOf(obj)
		obj.SetUID(workload.UID(string(ref.Kind), ref.Namespace, ref.Name))
	}
}
