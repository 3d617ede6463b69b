package expression

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// structure is a type with fields.
type structure struct {
	name   string
	typ    *types.Type
	fields []field
}

type field struct {
	name string
	typ  *types.Type
}

func newStructure(name string, fields ...field) *structure {
	return &structure{"shardsched." + name, types.NewObjectType("shardsched."+name, traits.FieldTesterType, traits.IndexerType), fields}
}

func (s *structure) index(name string) int {
	return slices.IndexFunc(s.fields, func(f field) bool { return f.name == name })
}

// record is a value of a structure.
type record interface {
	ref.Val
	of() *structure
	at(field int) ref.Val
}

// object is a record whose fields are known.
type object struct {
	kind   *structure
	values []ref.Val
}

func (o *object) of() *structure   { return o.kind }
func (o *object) at(i int) ref.Val { return o.values[i] }

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s stays one", o.kind.name)
}

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val { return convertRecord(o, t) }

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val {
	p, ok := other.(*object)
	if !ok || p.kind != o.kind {
		return types.False
	}
	for i := range o.values {
		if types.Equal(o.values[i], p.values[i]) != types.True {
			return types.False
		}
	}
	return types.True
}

// Type implements ref.Val.
func (o *object) Type() ref.Type { return o.kind.typ }

// Value implements ref.Val.
func (o *object) Value() any { return o }

// Get implements traits.Indexer, for objects whose type is not known before.
func (o *object) Get(index ref.Val) ref.Val { return getField(o, index) }

// IsSet implements traits.FieldTester.
func (o *object) IsSet(field ref.Val) ref.Val { return hasField(o, field) }

func convertRecord(r record, t ref.Type) ref.Val {
	switch t.TypeName() {
	case types.TypeType.TypeName():
		return r.of().typ
	case r.of().name:
		return r
	}
	return types.NewErr("type conversion error from '%s' to '%s'", r.of().name, t.TypeName())
}

func getField(r record, name ref.Val) ref.Val {
	if s, ok := name.(types.String); ok {
		if i := r.of().index(string(s)); i >= 0 {
			return r.at(i)
		}
	}
	return types.NewErr("no such field '%v'", name)
}

func hasField(r record, name ref.Val) ref.Val {
	v := getField(r, name)
	if types.IsError(v) {
		return v
	}
	return types.Bool(isSet(v))
}

// isSet tells whether a value is not its type's zero.
func isSet(v ref.Val) bool {
	if z, ok := v.(traits.Zeroer); ok {
		return !z.IsZeroValue()
	}
	if s, ok := v.(traits.Sizer); ok {
		return s.Size() != types.IntZero
	}
	return true
}

// The structures.
func structures() map[string]*structure {
	text, flag, number := cel.StringType, cel.BoolType, cel.IntType
	texts, amounts := cel.MapType(text, text), cel.MapType(text, quantityType)
	list := []*structure{
		newStructure("Taint", field{"key", text}, field{"value", text}, field{"effect", text}),
		newStructure("Toleration", field{"key", text}, field{"operator", text}, field{"value", text}, field{"effect", text}),
		newStructure("Container", field{"name", text}, field{"image", text}, field{"requests", amounts}),
		newStructure("Owner", field{"apiVersion", text}, field{"kind", text}, field{"name", text}, field{"controller", flag}),
		newStructure("Node", field{"name", text}, field{"labels", texts}, field{"annotations", texts},
			field{"taints", cel.ListType(cel.ObjectType("shardsched.Taint"))}, field{"unschedulable", flag},
			field{"allocatable", amounts}, field{"requested", amounts}, field{"free", amounts},
			field{"pods", number}, field{"images", cel.ListType(text)}),
		newStructure("Pod", field{"name", text}, field{"namespace", text}, field{"uid", text}, field{"labels", texts},
			field{"annotations", texts},
			field{"owners", cel.ListType(cel.ObjectType("shardsched.Owner"))},
			field{"priority", number}, field{"priorityClassName", text}, field{"preemptionPolicy", text}, field{"schedulerName", text},
			field{"serviceAccountName", text}, field{"runtimeClassName", text}, field{"os", text}, field{"hostNetwork", flag},
			field{"nodeSelector", texts}, field{"tolerations", cel.ListType(cel.ObjectType("shardsched.Toleration"))},
			field{"requests", amounts},
			field{"containers", cel.ListType(cel.ObjectType("shardsched.Container"))},
			field{"initContainers", cel.ListType(cel.ObjectType("shardsched.Container"))}),
	}
	out := make(map[string]*structure, len(list))
	for _, s := range list {
		out[s.name] = s
	}
	return out
}

// provider adds the structures to the types that CEL has.
type provider struct {
	*types.Registry
	kinds map[string]*structure
}

// FindIdent implements types.Provider.
func (p *provider) FindIdent(name string) (ref.Val, bool) {
	if s, ok := p.kinds[name]; ok {
		return s.typ, true
	}
	return p.Registry.FindIdent(name)
}

// FindStructType implements types.Provider.
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if s, ok := p.kinds[name]; ok {
		return types.NewTypeTypeWithParam(s.typ), true
	}
	return p.Registry.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	s, ok := p.kinds[name]
	if !ok {
		return p.Registry.FindStructFieldNames(name)
	}
	var names []string
	for _, f := range s.fields {
		names = append(names, f.name)
	}
	return names, true
}

// FindStructFieldType implements types.Provider.
func (p *provider) FindStructFieldType(name, fieldName string) (*types.FieldType, bool) {
	s, ok := p.kinds[name]
	if !ok {
		return p.Registry.FindStructFieldType(name, fieldName)
	}
	i := s.index(fieldName)
	if i < 0 {
		return nil, false
	}
	get := func(target any) (any, error) {
		r, ok := target.(record)
		if !ok || r.of() != s {
			return nil, fmt.Errorf("no such overload: %s.%s", s.name, fieldName)
		}
		if err, failed := r.at(i).(*types.Err); failed {
			return nil, err
		}
		return r.at(i), nil
	}
	return &types.FieldType{
		Type:    s.fields[i].typ,
		IsSet:   func(target any) bool { r, ok := target.(record); return ok && r.of() == s && isSet(r.at(i)) },
		GetFrom: get,
	}, true
}

// NativeToValue implements types.Adapter: maps that an expression makes are walked in the order
// of their keys.
func (p *provider) NativeToValue(v any) ref.Val {
	if entries, ok := v.(map[ref.Val]ref.Val); ok {
		return newSortedMap(p, entries)
	}
	return p.Registry.NativeToValue(v)
}

// sortedMap is a map that is walked in the order of its keys. It serves all maps of texts too.
type sortedMap struct {
	adapter types.Adapter
	keys    []ref.Val
	values  []ref.Val
}

func newSortedMap(a types.Adapter, entries map[ref.Val]ref.Val) *sortedMap {
	m := &sortedMap{adapter: a}
	for k := range entries {
		m.keys = append(m.keys, k)
	}
	slices.SortFunc(m.keys, compareKeys)
	for _, k := range m.keys {
		m.values = append(m.values, entries[k])
	}
	return m
}

// compareKeys orders keys of maps: bools, numbers, then texts.
func compareKeys(a, b ref.Val) int {
	x, y := rank(a), rank(b)
	if x != y {
		return x - y
	}
	if c, ok := a.(traits.Comparer); ok {
		if n, ok := c.Compare(b).(types.Int); ok {
			return int(n)
		}
	}
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

func rank(v ref.Val) int {
	switch v.(type) {
	case types.Bool:
		return 0
	case types.Int, types.Uint, types.Double:
		return 1
	case types.String:
		return 2
	}
	return 3
}

// Find implements traits.Mapper.
func (m *sortedMap) Find(key ref.Val) (ref.Val, bool) {
	if i, ok := slices.BinarySearchFunc(m.keys, key, compareKeys); ok {
		return m.values[i], true
	}
	return nil, false
}

// Contains implements traits.Container.
func (m *sortedMap) Contains(key ref.Val) ref.Val { _, ok := m.Find(key); return types.Bool(ok) }

// Get implements traits.Indexer.
func (m *sortedMap) Get(key ref.Val) ref.Val {
	v, ok := m.Find(key)
	if !ok {
		return types.ValOrErr(key, "no such key: %v", key)
	}
	return v
}

// Iterator implements traits.Iterable.
func (m *sortedMap) Iterator() traits.Iterator {
	return types.NewRefValList(m.adapter, m.keys).Iterator()
}

// Size implements traits.Sizer.
func (m *sortedMap) Size() ref.Val { return types.Int(len(m.keys)) }

// IsZeroValue implements traits.Zeroer.
func (m *sortedMap) IsZeroValue() bool { return len(m.keys) == 0 }

// ConvertToNative implements ref.Val.
func (m *sortedMap) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("a map stays one")
}

// ConvertToType implements ref.Val.
func (m *sortedMap) ConvertToType(t ref.Type) ref.Val { return convertMap(m, t) }

// Equal implements ref.Val.
func (m *sortedMap) Equal(other ref.Val) ref.Val { return equalMaps(m, other) }

// Type implements ref.Val.
func (m *sortedMap) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m *sortedMap) Value() any { return m }

func convertMap(m traits.Mapper, t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return m
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from 'map' to '%s'", t.TypeName())
}

func equalMaps(m traits.Mapper, other ref.Val) ref.Val {
	o, ok := other.(traits.Mapper)
	if !ok || m.Size() != o.Size() {
		return types.False
	}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		v, _ := m.Find(key)
		w, found := o.Find(key)
		if !found || types.Equal(v, w) != types.True {
			return types.False
		}
	}
	return types.True
}
