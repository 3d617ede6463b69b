package build

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Namespace makes a namespace with labels, written key, value, key, value.
func Namespace(name string, labels ...string) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("namespace-" + name), Labels: pairs(labels)}}
}

// Service makes a Service of the pods with all of the labels, written as in Namespace.
func Service(namespace, name string, labels ...string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("service-" + name)},
		Spec:       v1.ServiceSpec{Selector: pairs(labels)},
	}
}

// ReplicaSet makes a ReplicaSet of the pods that a selector matches.
func ReplicaSet(namespace, name, selector string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("ReplicaSet-" + name)},
		Spec:       appsv1.ReplicaSetSpec{Selector: Selector(selector)},
	}
}

func pairs(list []string) map[string]string {
	out := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		out[list[i]] = list[i+1]
	}
	return out
}
