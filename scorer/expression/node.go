package expression

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Node is what an expression reads of a row. Lists of texts are sorted, but for taints, which
// stand as in spec.taints.
type Node interface {
	Name() string
	Unschedulable() bool
	Label(key string) (value string, has bool)
	Labels(yield func(key, value string) bool)
	Annotation(key string) (value string, has bool)
	Taints(yield func(key, value, effect string) bool)
	// Allocatable and Requested are in thousandths for cpu, else in the resource's unit;
	// false: neither the node nor its pods know the resource. pods is one.
	Allocatable(resource string) (amount int64, has bool)
	Requested(resource string) (amount int64, has bool)
	Resources(yield func(resource string) bool)
	Pods() int64
	Images(yield func(name string) bool)
}

// The fields of a node, in the order of its structure.
const (
	nodeName = iota
	nodeLabels
	nodeAnnotations
	nodeTaints
	nodeUnschedulable
	nodeAllocatable
	nodeRequested
	nodeFree
	nodePods
	nodeImages
)

// nodeValue is a node as a record. Its fields are made when they are read.
type nodeValue struct {
	language *language
	node     Node
}

func (n *nodeValue) of() *structure { return n.language.kinds["shardsched.Node"] }

func (n *nodeValue) at(i int) ref.Val {
	switch i {
	case nodeName:
		return types.String(n.node.Name())
	case nodeLabels, nodeAnnotations, nodeAllocatable, nodeRequested, nodeFree:
		return &nodeMap{n, i}
	case nodeTaints:
		return n.taints()
	case nodeUnschedulable:
		return types.Bool(n.node.Unschedulable())
	case nodePods:
		return types.Int(n.node.Pods())
	case nodeImages:
		var list []string
		for name := range n.node.Images {
			list = append(list, name)
		}
		return types.NewStringList(n.language.types, list)
	}
	return types.NewErr("no such field")
}

func (n *nodeValue) taints() ref.Val {
	kind := n.language.kinds["shardsched.Taint"]
	var list []ref.Val
	n.node.Taints(func(key, value, effect string) bool {
		list = append(list, &object{kind, []ref.Val{types.String(key), types.String(value), types.String(effect)}})
		return true
	})
	return types.NewRefValList(n.language.types, list)
}

// ConvertToNative implements ref.Val.
func (n *nodeValue) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("a node stays one")
}

// ConvertToType implements ref.Val.
func (n *nodeValue) ConvertToType(t ref.Type) ref.Val { return convertRecord(n, t) }

// Equal implements ref.Val.
func (n *nodeValue) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(n)) }

// Type implements ref.Val.
func (n *nodeValue) Type() ref.Type { return n.of().typ }

// Value implements ref.Val.
func (n *nodeValue) Value() any { return n }

// nodeMap is one of a node's maps, looked up in the row.
type nodeMap struct {
	node  *nodeValue
	field int
}

// Find implements traits.Mapper.
func (m *nodeMap) Find(key ref.Val) (ref.Val, bool) {
	k, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	n, name := m.node.node, string(k)
	switch m.field {
	case nodeLabels:
		v, has := n.Label(name)
		return types.String(v), has
	case nodeAnnotations:
		v, has := n.Annotation(name)
		return types.String(v), has
	}
	has, amount := false, int64(0)
	switch m.field {
	case nodeAllocatable:
		amount, has = n.Allocatable(name)
	case nodeRequested:
		amount, has = n.Requested(name)
	case nodeFree:
		var used int64
		amount, has = n.Allocatable(name)
		used, _ = n.Requested(name)
		amount -= used
	}
	if name == "cpu" {
		return Thousandths(amount), has
	}
	return Whole(amount), has
}

// Contains implements traits.Container.
func (m *nodeMap) Contains(key ref.Val) ref.Val { _, ok := m.Find(key); return types.Bool(ok) }

// Get implements traits.Indexer.
func (m *nodeMap) Get(key ref.Val) ref.Val {
	v, ok := m.Find(key)
	if !ok {
		return types.ValOrErr(key, "no such key: %v", key)
	}
	return v
}

// keys are the map's, sorted. Annotations are not walked (Compile).
func (m *nodeMap) keys() []string {
	var list []string
	switch m.field {
	case nodeLabels:
		for k := range m.node.node.Labels {
			list = append(list, k)
		}
	case nodeAllocatable, nodeRequested, nodeFree:
		for k := range m.node.node.Resources {
			list = append(list, k)
		}
	}
	return list
}

// Iterator implements traits.Iterable.
func (m *nodeMap) Iterator() traits.Iterator {
	return types.NewStringList(m.node.language.types, m.keys()).Iterator()
}

// Size implements traits.Sizer.
func (m *nodeMap) Size() ref.Val { return types.Int(len(m.keys())) }

// IsZeroValue implements traits.Zeroer.
func (m *nodeMap) IsZeroValue() bool { return len(m.keys()) == 0 }

// ConvertToNative implements ref.Val.
func (m *nodeMap) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("a map stays one")
}

// ConvertToType implements ref.Val.
func (m *nodeMap) ConvertToType(t ref.Type) ref.Val { return convertMap(m, t) }

// Equal implements ref.Val.
func (m *nodeMap) Equal(other ref.Val) ref.Val { return equalMaps(m, other) }

// Type implements ref.Val.
func (m *nodeMap) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m *nodeMap) Value() any { return m }
