package expression

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Pod is what an expression reads of a pod.
type Pod struct {
	Name, Namespace, UID              string
	Labels, Annotations, NodeSelector map[string]string
	Owners                            []Owner
	Priority                          int64
	PriorityClassName                 string
	PreemptionPolicy                  string
	SchedulerName, ServiceAccountName string
	RuntimeClassName, OS              string
	HostNetwork                       bool
	Tolerations                       []Toleration
	// Requests is what a node must have room for.
	Requests                   map[string]Quantity
	Containers, InitContainers []Container
}

// Owner is an owner reference.
type Owner struct {
	APIVersion, Kind, Name string
	Controller             bool
}

// Toleration is a toleration as the pod has it.
type Toleration struct{ Key, Operator, Value, Effect string }

// Container is a container with what it asks for.
type Container struct {
	Name, Image string
	Requests    map[string]Quantity
}

// podValue is a pod as a record.
type podValue struct {
	language *language
	pod      *Pod
}

func (p *podValue) of() *structure { return p.language.kinds["shardsched.Pod"] }

func (p *podValue) at(i int) ref.Val {
	switch pod := p.pod; p.of().fields[i].name {
	case "name":
		return types.String(pod.Name)
	case "namespace":
		return types.String(pod.Namespace)
	case "uid":
		return types.String(pod.UID)
	case "labels":
		return p.texts(pod.Labels)
	case "annotations":
		return p.texts(pod.Annotations)
	case "nodeSelector":
		return p.texts(pod.NodeSelector)
	case "owners":
		return objects(p, "shardsched.Owner", pod.Owners, func(o Owner) []ref.Val {
			return []ref.Val{types.String(o.APIVersion), types.String(o.Kind), types.String(o.Name), types.Bool(o.Controller)}
		})
	case "priority":
		return types.Int(pod.Priority)
	case "priorityClassName":
		return types.String(pod.PriorityClassName)
	case "preemptionPolicy":
		return types.String(pod.PreemptionPolicy)
	case "schedulerName":
		return types.String(pod.SchedulerName)
	case "serviceAccountName":
		return types.String(pod.ServiceAccountName)
	case "runtimeClassName":
		return types.String(pod.RuntimeClassName)
	case "os":
		return types.String(pod.OS)
	case "hostNetwork":
		return types.Bool(pod.HostNetwork)
	case "tolerations":
		return objects(p, "shardsched.Toleration", pod.Tolerations, func(t Toleration) []ref.Val {
			return []ref.Val{types.String(t.Key), types.String(t.Operator), types.String(t.Value), types.String(t.Effect)}
		})
	case "requests":
		return p.amounts(pod.Requests)
	case "containers":
		return p.containers(pod.Containers)
	case "initContainers":
		return p.containers(pod.InitContainers)
	}
	return types.NewErr("no such field")
}

func (p *podValue) containers(list []Container) ref.Val {
	return objects(p, "shardsched.Container", list, func(c Container) []ref.Val {
		return []ref.Val{types.String(c.Name), types.String(c.Image), p.amounts(c.Requests)}
	})
}

func objects[T any](p *podValue, kind string, list []T, fields func(T) []ref.Val) ref.Val {
	out := make([]ref.Val, 0, len(list))
	for _, x := range list {
		out = append(out, &object{p.language.kinds[kind], fields(x)})
	}
	return types.NewRefValList(p.language.types, out)
}

func (p *podValue) texts(m map[string]string) ref.Val {
	entries := make(map[ref.Val]ref.Val, len(m))
	for k, v := range m {
		entries[types.String(k)] = types.String(v)
	}
	return newSortedMap(p.language.types, entries)
}

func (p *podValue) amounts(m map[string]Quantity) ref.Val {
	entries := make(map[ref.Val]ref.Val, len(m))
	for k, v := range m {
		entries[types.String(k)] = v
	}
	return newSortedMap(p.language.types, entries)
}

// ConvertToNative implements ref.Val.
func (p *podValue) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("a pod stays one")
}

// ConvertToType implements ref.Val.
func (p *podValue) ConvertToType(t ref.Type) ref.Val { return convertRecord(p, t) }

// Equal implements ref.Val.
func (p *podValue) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(p)) }

// Type implements ref.Val.
func (p *podValue) Type() ref.Type { return p.of().typ }

// Value implements ref.Val.
func (p *podValue) Value() any { return p }
