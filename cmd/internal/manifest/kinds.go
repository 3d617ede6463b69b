package manifest

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// accepted is a kind that matters here.
type accepted struct {
	gvk        schema.GroupVersionKind
	namespaced bool
	make       func() runtime.Object
}

// acceptedKinds lists them in the order in which messages name them: what a coordinator
// keeps, and what stands for pods.
func acceptedKinds() []accepted {
	var all []accepted
	first := []objects.Kind{objects.KindNode, objects.KindPod, objects.KindNamespace}
	for _, k := range append(first, objects.Kinds()...) {
		if slices.ContainsFunc(all, func(a accepted) bool { return a.gvk.Kind == string(k) }) {
			continue
		}
		all = append(all, accepted{k.GroupVersion().WithKind(string(k)), k.Namespaced(), func() runtime.Object { return objects.New(k) }})
	}
	apps, batch := appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	return append(all,
		accepted{schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), false,
			func() runtime.Object { return new(schedulingv1.PriorityClass) }},
		accepted{apps.WithKind("Deployment"), true, func() runtime.Object { return new(appsv1.Deployment) }},
		accepted{apps.WithKind("DaemonSet"), true, func() runtime.Object { return new(appsv1.DaemonSet) }},
		accepted{batch.WithKind("Job"), true, func() runtime.Object { return new(batchv1.Job) }},
		accepted{batch.WithKind("CronJob"), true, func() runtime.Object { return new(batchv1.CronJob) }},
	)
}

// verdict is what is done with a kind.
type verdict int

const (
	use verdict = iota
	skip
	refuse
)

// kinds decides about kinds. It is immutable once reading begins.
type kinds struct {
	byKind map[schema.GroupVersionKind]accepted
	names  string
}

func newKinds() *kinds {
	k := &kinds{byKind: map[schema.GroupVersionKind]accepted{}}
	var names []string
	for _, a := range acceptedKinds() {
		k.byKind[a.gvk] = a
		names = append(names, a.gvk.Kind)
	}
	k.names = strings.Join(names, ", ")
	return k
}

// judge says what to do with a kind, and why where it is refused.
func (k *kinds) judge(gvk schema.GroupVersionKind) (a accepted, v verdict, problem string) {
	if a, ok := k.byKind[gvk]; ok {
		return a, use, ""
	}
	for _, a := range k.byKind {
		if a.gvk.Kind == gvk.Kind && (a.gvk.Group == gvk.Group || gvk.Group == "extensions") {
			return a, refuse, fmt.Sprintf("%s is not served in version %s: use %s", gvk.Kind, gvk.GroupVersion(), a.gvk.GroupVersion())
		}
	}
	if scheme.Scheme.Recognizes(gvk) || beside(gvk) {
		return accepted{}, skip, ""
	}
	others := "other kinds of Kubernetes are skipped"
	if strings.Contains(gvk.Group, ".") {
		others += ", and custom resources whose CustomResourceDefinition is in the input"
	}
	return accepted{}, refuse, fmt.Sprintf("%q of %s is not a known kind; accepted are %s and Lists of them; %s",
		Clip(gvk.Kind), Clip(gvk.GroupVersion().String()), k.names, others)
}

// beside holds for kinds that belong to Kubernetes but not to its client's scheme.
func beside(gvk schema.GroupVersionKind) bool {
	switch gvk.Group {
	case "apiextensions.k8s.io", "apiregistration.k8s.io", "kustomize.config.k8s.io":
		return true
	}
	return false
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
