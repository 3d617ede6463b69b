package objects

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Kind names a kind of object as Kubernetes does.
type Kind string

// The kinds that a standalone scheduler keeps.
const (
	KindNode      Kind = "Node"
	KindPod       Kind = "Pod"
	KindNamespace Kind = "Namespace"
)

// Kinds returns every kind, in the order in which they should be loaded.
func Kinds() []Kind { return []Kind{KindNamespace, KindNode, KindPod} }

// Plural is the kind's name in keys and on command lines: nodes, pods, namespaces.
// It is empty for an unknown kind.
func (k Kind) Plural() string {
	switch k {
	case KindNode:
		return "nodes"
	case KindPod:
		return "pods"
	case KindNamespace:
		return "namespaces"
	}
	return ""
}

// Namespaced tells whether objects of the kind live in a namespace.
func (k Kind) Namespaced() bool { return k == KindPod }

// Known tells whether the kind is one of Kinds.
func (k Kind) Known() bool { return k.Plural() != "" }

// Ref names an object.
type Ref struct {
	Kind Kind
	// Empty for kinds without a namespace.
	Namespace string
	Name      string
}

// String is "Pod default/web" or "Node n1"; what is too long for a name is cut short.
func (r Ref) String() string {
	if r.Namespace == "" {
		return fmt.Sprintf("%s %s", short(string(r.Kind)), shortName(r.Name))
	}
	return fmt.Sprintf("%s %s/%s", short(string(r.Kind)), shortName(r.Namespace), shortName(r.Name))
}

func shortName(s string) string {
	if len(s) <= validation.DNS1123SubdomainMaxLength {
		return s
	}
	return short(s)
}

// Object is what *v1.Node, *v1.Pod and *v1.Namespace have in common.
type Object interface {
	runtime.Object
	metav1.Object
	Size() int
	Unmarshal([]byte) error
	MarshalToSizedBuffer([]byte) (int, error)
}

// New returns an empty object; nil for an unknown kind.
func New(k Kind) Object {
	switch k {
	case KindNode:
		return new(v1.Node)
	case KindPod:
		return new(v1.Pod)
	case KindNamespace:
		return new(v1.Namespace)
	}
	return nil
}

// KindOf tells an object's kind by its Go type; empty for a foreign one.
func KindOf(obj runtime.Object) Kind {
	switch obj.(type) {
	case *v1.Node:
		return KindNode
	case *v1.Pod:
		return KindPod
	case *v1.Namespace:
		return KindNamespace
	}
	return ""
}

// RefOf names an object of a known kind.
func RefOf(obj Object) Ref {
	return Ref{Kind: KindOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
