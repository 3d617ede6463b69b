package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Kind is a kind that has a say in scheduling: what a coordinator keeps, and what stands for pods.
type Kind struct {
	schema.GroupVersionKind
	// Plural is the kind's name in an API server's paths: nodes. Short is kubectl's: no; empty: it has none.
	Plural, Short string
	Namespaced    bool
	// New makes an empty object.
	New func() runtime.Object
}

// Kinds lists them in the order in which messages name them.
func Kinds() []Kind {
	var all []Kind
	first := []objects.Kind{objects.KindNode, objects.KindPod, objects.KindNamespace}
	for _, k := range append(first, objects.Kinds()...) {
		if !slices.ContainsFunc(all, func(a Kind) bool { return a.Kind == string(k) }) {
			all = append(all, Kind{k.GroupVersion().WithKind(string(k)), k.Plural(), k.Short(), k.Namespaced(),
				func() runtime.Object { return objects.New(k) }})
		}
	}
	const inNamespace = true
	apps, batch := appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	return append(all,
		Kind{apps.WithKind("Deployment"), "deployments", "deploy", inNamespace, func() runtime.Object { return new(appsv1.Deployment) }},
		Kind{apps.WithKind("DaemonSet"), "daemonsets", "ds", inNamespace, func() runtime.Object { return new(appsv1.DaemonSet) }},
		Kind{batch.WithKind("Job"), "jobs", "", inNamespace, func() runtime.Object { return new(batchv1.Job) }},
		Kind{batch.WithKind("CronJob"), "cronjobs", "cj", inNamespace, func() runtime.Object { return new(batchv1.CronJob) }},
	)
}

// verdict is what is done with a kind.
type verdict int

const (
	use verdict = iota
	skip
	// foreign is a custom resource's: its group is not one of Kubernetes.
	foreign
	refuse
)

// kinds decides about kinds. It is immutable once reading begins.
type kinds struct {
	byKind map[schema.GroupVersionKind]Kind
	names  string
}

func newKinds() *kinds {
	k := &kinds{byKind: map[schema.GroupVersionKind]Kind{}}
	var names []string
	for _, a := range Kinds() {
		k.byKind[a.GroupVersionKind] = a
		names = append(names, a.Kind)
	}
	k.names = strings.Join(names, ", ")
	return k
}

// judge says what to do with a kind, and why where it is refused, or would be if custom resources were.
func (k *kinds) judge(gvk schema.GroupVersionKind) (a Kind, v verdict, problem string) {
	if a, ok := k.byKind[gvk]; ok {
		return a, use, ""
	}
	for _, a := range k.byKind {
		if a.Kind == gvk.Kind && (a.Group == gvk.Group || gvk.Group == "extensions") {
			return a, refuse, fmt.Sprintf("%s is not served in version %s: use %s", gvk.Kind, gvk.GroupVersion(), a.GroupVersion())
		}
	}
	if scheme.Scheme.Recognizes(gvk) || beside(gvk) {
		return Kind{}, skip, ""
	}
	kind, version := Clip(gvk.Kind), Clip(gvk.GroupVersion().String())
	if k.custom(gvk) {
		return Kind{}, foreign, fmt.Sprintf("%q of %s is a custom resource, which has no say in scheduling", kind, version)
	}
	return Kind{}, refuse, fmt.Sprintf("%q of %s is not a known kind; accepted are %s and Lists of them; other kinds of Kubernetes are "+
		"skipped, and custom resources", kind, version, k.names)
}

// custom tells of kinds of groups that are not Kubernetes' own. Theirs are domain names. One of a group below k8s.io that has the name
// of an accepted kind is taken for a slip of the pen.
func (k *kinds) custom(gvk schema.GroupVersionKind) bool {
	if !strings.Contains(gvk.Group, ".") || scheme.Scheme.IsGroupRegistered(gvk.Group) {
		return false
	}
	if !strings.HasSuffix(gvk.Group, ".k8s.io") {
		return true
	}
	for a := range k.byKind {
		if a.Kind == gvk.Kind {
			return false
		}
	}
	return true
}

// beside holds for kinds that belong to Kubernetes but not to its client's scheme.
func beside(gvk schema.GroupVersionKind) bool {
	switch gvk.Group {
	case "apiextensions.k8s.io", "apiregistration.k8s.io", "kustomize.config.k8s.io":
		return true
	}
	return false
}

// Autoscaler is a HorizontalPodAutoscaler: it sets how many replicas its target has.
type Autoscaler struct {
	Namespace, Name string
	// Kind and Target name what it scales.
	Kind, Target string
	Min, Max     int32
}

// autoscaler reads what all versions of a HorizontalPodAutoscaler have in common.
func autoscaler(h header, raw []byte, namespace string) (Autoscaler, bool) {
	var hpa struct {
		Spec struct {
			ScaleTargetRef struct {
				Kind string `json:"kind"`
				Name string `json:"name"`
			} `json:"scaleTargetRef"`
			MinReplicas *int32 `json:"minReplicas"`
			MaxReplicas int32  `json:"maxReplicas"`
		} `json:"spec"`
	}
	if err := unmarshal(raw, &hpa); err != nil {
		return Autoscaler{}, false
	}
	a := Autoscaler{Namespace: cmp.Or(h.Metadata.Namespace, namespace), Name: h.Metadata.Name, Kind: hpa.Spec.ScaleTargetRef.Kind,
		Target: hpa.Spec.ScaleTargetRef.Name, Min: 1, Max: hpa.Spec.MaxReplicas}
	if hpa.Spec.MinReplicas != nil {
		a.Min = *hpa.Spec.MinReplicas
	}
	return a, true
}

// customKind is what a CustomResourceDefinition defines.
func customKind(raw []byte) (schema.GroupKind, bool) {
	var crd struct {
		Spec struct {
			Group string `json:"group"`
			Names struct {
				Kind string `json:"kind"`
			} `json:"names"`
		} `json:"spec"`
	}
	if err := unmarshal(raw, &crd); err != nil || crd.Spec.Names.Kind == "" {
		return schema.GroupKind{}, false
	}
	return schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}, true
}
