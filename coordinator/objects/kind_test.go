package objects_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/objects"
)

func TestEveryKindIsOneOfKubernetes(t *testing.T) {
	seen := map[string]objects.Kind{}
	for _, kind := range objects.Kinds() {
		gvk := kind.GroupVersion().WithKind(string(kind))
		if !scheme.Scheme.Recognizes(gvk) {
			t.Errorf("%s is not one of Kubernetes", gvk)
		}
		obj := objects.New(kind)
		obj.SetName("a")
		if got := objects.KindOf(obj); got != kind {
			t.Errorf("kind of a new %s: got %q", kind, got)
		}
		raw := encode(t, obj)
		// Kubernetes' own reader finds the same object behind the bytes.
		theirs, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), raw)
		if err != nil {
			t.Errorf("%s: Kubernetes can not read it: %v", kind, err)
		} else if got := objects.KindOf(theirs); got != kind {
			t.Errorf("%s: Kubernetes reads a %q", kind, got)
		}
		again, err := objects.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := again.GetObjectKind().GroupVersionKind(); got != gvk {
			t.Errorf("read back: got %s, want %s", got, gvk)
		}
		if before := seen[kind.Plural()]; before != "" {
			t.Errorf("%s and %s are both called %s", before, kind, kind.Plural())
		}
		seen[kind.Plural()] = kind
	}
	if kinds := objects.Kinds(); kinds[len(kinds)-1] != objects.KindPod {
		t.Errorf("the last kind to be loaded is %s, want Pod", kinds[len(kinds)-1])
	}
}

func TestKindsAreNamedAsWithKubectl(t *testing.T) {
	for word, want := range map[string]objects.Kind{
		"po": "Pod", "pod": "Pod", "Pods": "Pod", "no": "Node", "ns": "Namespace",
		"svc": "Service", "services": "Service", "rc": "ReplicationController", "rs": "ReplicaSet", "sts": "StatefulSet",
		"statefulsets.apps": "StatefulSet", "statefulset.v1.apps": "StatefulSet", "sts.v2.apps": "", "sts.batch": "",
		"pv": "PersistentVolume", "pvc": "PersistentVolumeClaim", "sc": "StorageClass", "storageclasses.storage.k8s.io": "StorageClass",
		"csinode": "CSINode", "csidrivers": "CSIDriver", "csistoragecapacities": "CSIStorageCapacity", "volumeattachment": "VolumeAttachment",
		"pdb": "PodDisruptionBudget", "poddisruptionbudgets.policy": "PodDisruptionBudget", "pdb.apps": "",
		"deviceclass": "DeviceClass", "resourceslices": "ResourceSlice", "resourceclaims.resource.k8s.io": "ResourceClaim",
		"resourceclaimtemplate": "ResourceClaimTemplate", "resourceclaims.v1beta1.resource.k8s.io": "", "devicetaintrules": "",
		"podgroup": "PodGroup", "podgroups.scheduling.k8s.io": "PodGroup", "podgroups.v1.scheduling.k8s.io": "",
		"": "", ".": "", "deploy": "", "nodes.": "Node", "secrets": "",
	} {
		if got, ok := objects.KindNamed(word); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", word, got, ok, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(objects.Kinds()).Draw(t, "kind")
		word := rapid.SampledFrom([]string{kind.Plural(), kind.Singular(), string(kind), strings.ToUpper(kind.Plural())}).Draw(t, "word")
		if got, _ := objects.KindNamed(word); got != kind {
			t.Errorf("%q: got %q, want %q", word, got, kind)
		}
	})
}

func TestObjectsAreSortedForLoading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SliceOf(rapid.SampledFrom(objects.Kinds())).Draw(t, "kinds")
		objs := make([]objects.Object, len(kinds))
		for i, k := range kinds {
			objs[i] = objects.New(k)
			objs[i].SetGeneration(int64(i))
		}
		objects.Sort(objs)
		at := map[objects.Kind]int{}
		for i, k := range objects.Kinds() {
			at[k] = i
		}
		for i := 1; i < len(objs); i++ {
			a, b := objs[i-1], objs[i]
			ka, kb := objects.KindOf(a), objects.KindOf(b)
			if at[ka] > at[kb] || ka == kb && a.GetGeneration() > b.GetGeneration() {
				t.Fatalf("got %s %d before %s %d", ka, a.GetGeneration(), kb, b.GetGeneration())
			}
		}
	})
}
