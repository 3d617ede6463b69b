package workload

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deployment makes the pods that are missing and the ReplicaSet that owns them. Where pods
// are there whose ReplicaSet is not, it is made too: all but its selector is known by its
// name, and that follows from the Deployment's.
func (x *Expander) deployment(w *appsv1.Deployment) Made {
	self := owner{"Deployment", w.Namespace, w.Name}
	if x.controlled[self] {
		return Made{}
	}
	hash := templateHash(&w.Spec.Template)
	m := newMaker(w, &w.Spec.Template, appsv1.SchemeGroupVersion.String(), "ReplicaSet", w.Name+"-"+hash)
	m.labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	first, count := x.missing(self, or(w.Spec.Replicas, 1))
	made := Made{Pods: m.generated(first, count)}
	if count > 0 || len(x.owned[self]) == 0 {
		made.ReplicaSets = append(made.ReplicaSets, replicaSet(w, hash, count))
	}
	for _, name := range x.replicaSetsOf(self) {
		if hash := strings.TrimPrefix(name, w.Name+"-"); hash != m.labels[appsv1.DefaultDeploymentUniqueLabelKey] {
			made.ReplicaSets = append(made.ReplicaSets, replicaSet(w, hash, len(x.owned[owner{"ReplicaSet", w.Namespace, name}])))
		}
	}
	return made
}

// replicaSetsOf names the ReplicaSets that own a Deployment's pods and are not in the input.
func (x *Expander) replicaSetsOf(deployment owner) []string {
	names := map[string]bool{}
	for _, p := range x.owned[deployment] {
		if by, ok := controller(p); ok && !x.there[by] {
			names[by.name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// ReplicaSet makes that of a Deployment's template.
func ReplicaSet(w *appsv1.Deployment, replicas int) *appsv1.ReplicaSet {
	return replicaSet(w, templateHash(&w.Spec.Template), replicas)
}

// ReplicaSetNamed makes that of a Deployment's pods of another template, which is not known: all but the template follows
// from the Deployment and the name's end.
func ReplicaSetNamed(w *appsv1.Deployment, name string, replicas int) *appsv1.ReplicaSet {
	return replicaSet(w, strings.TrimPrefix(name, w.Name+"-"), replicas)
}

// replicaSet is that of a Deployment whose pods have a template of the given hash.
func replicaSet(w *appsv1.Deployment, hash string, replicas int) *appsv1.ReplicaSet {
	name := w.Name + "-" + hash
	template := w.Spec.Template.DeepCopy()
	template.Labels = with(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	selector := &metav1.LabelSelector{}
	if w.Spec.Selector != nil {
		selector = w.Spec.Selector.DeepCopy()
	}
	selector.MatchLabels = with(selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	by := newMaker(w, template, appsv1.SchemeGroupVersion.String(), "Deployment", w.Name).owner
	return &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.Namespace, UID: UID("ReplicaSet", w.Namespace, name),
			Labels: maps.Clone(template.Labels), OwnerReferences: []metav1.OwnerReference{by},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(replicas)), MinReadySeconds: w.Spec.MinReadySeconds, Selector: selector, Template: *template,
		},
	}
}
