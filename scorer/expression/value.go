package expression

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxReason is how much of a failure's text is kept.
const maxReason = 400

// failure is why there is no value, as a value.
func failure(text string) ref.Val {
	if len(text) > maxReason {
		text = text[:maxReason] + "…"
	}
	return types.NewErr("%s", strings.ToValidUTF8(text, "\uFFFD"))
}

// encode writes a value for the wire. What can not be written is a failure.
func encode(v ref.Val) *pb.CelValue {
	out, err := encoded(v)
	if err == nil {
		err = out.Validate()
	}
	if err != nil {
		out, _ = encoded(failure("what the expression makes of the pod is not for nodes: " + err.Error()))
	}
	return out
}

func encoded(v ref.Val) (*pb.CelValue, error) {
	switch v := v.(type) {
	case *types.Err:
		return &pb.CelValue{Kind: &pb.CelValue_ErrorValue{ErrorValue: v.Error()}}, nil
	case types.Null:
		return &pb.CelValue{Kind: &pb.CelValue_NullValue{NullValue: true}}, nil
	case types.Bool:
		return &pb.CelValue{Kind: &pb.CelValue_BoolValue{BoolValue: bool(v)}}, nil
	case types.Int:
		return &pb.CelValue{Kind: &pb.CelValue_IntValue{IntValue: int64(v)}}, nil
	case types.Uint:
		return &pb.CelValue{Kind: &pb.CelValue_UintValue{UintValue: uint64(v)}}, nil
	case types.Double:
		return &pb.CelValue{Kind: &pb.CelValue_DoubleValue{DoubleValue: float64(v)}}, nil
	case types.String:
		return &pb.CelValue{Kind: &pb.CelValue_StringValue{StringValue: string(v)}}, nil
	case types.Bytes:
		return &pb.CelValue{Kind: &pb.CelValue_BytesValue{BytesValue: v}}, nil
	case Quantity:
		return &pb.CelValue{Kind: &pb.CelValue_QuantityValue{QuantityValue: v.String()}}, nil
	case types.Duration:
		return &pb.CelValue{Kind: &pb.CelValue_DurationValue{DurationValue: int64(v.Duration)}}, nil
	case types.Timestamp:
		at := &pb.CelTime{Seconds: v.Unix(), Nanos: uint32(v.Nanosecond())}
		return &pb.CelValue{Kind: &pb.CelValue_TimestampValue{TimestampValue: at}}, nil
	case *types.Optional:
		list := &pb.CelList{}
		if v.HasValue() {
			x, err := encoded(v.GetValue())
			if err != nil {
				return nil, err
			}
			list.Values = []*pb.CelValue{x}
		}
		return &pb.CelValue{Kind: &pb.CelValue_OptionalValue{OptionalValue: list}}, nil
	case *object:
		out := &pb.CelObject{Type: v.kind.name}
		for _, f := range v.values {
			x, err := encoded(f)
			if err != nil {
				return nil, err
			}
			out.Fields = append(out.Fields, x)
		}
		return &pb.CelValue{Kind: &pb.CelValue_ObjectValue{ObjectValue: out}}, nil
	case traits.Lister:
		list, err := encodedAll(v.Iterator(), nil)
		return &pb.CelValue{Kind: &pb.CelValue_ListValue{ListValue: list}}, err
	case traits.Mapper:
		list, err := encodedAll(v.Iterator(), v)
		return &pb.CelValue{Kind: &pb.CelValue_MapValue{MapValue: list}}, err
	}
	return nil, fmt.Errorf("it is a %s", v.Type().TypeName())
}

// encodedAll writes values, each with its entry where they are keys of a map.
func encodedAll(it traits.Iterator, of traits.Mapper) (*pb.CelList, error) {
	list := &pb.CelList{}
	for it.HasNext() == types.True {
		if len(list.Values) > pb.MaxCelArgument/8 {
			return nil, errors.New("it is too large")
		}
		key := it.Next()
		values := []ref.Val{key}
		if of != nil {
			values = append(values, of.Get(key))
		}
		for _, v := range values {
			x, err := encoded(v)
			if err != nil {
				return nil, err
			}
			list.Values = append(list.Values, x)
		}
	}
	return list, nil
}

// decode reads a value that was validated.
func (l *language) decode(x *pb.CelValue) (ref.Val, error) {
	switch v := x.GetKind().(type) {
	case *pb.CelValue_ErrorValue:
		return failure(v.ErrorValue), nil
	case *pb.CelValue_NullValue:
		return types.NullValue, nil
	case *pb.CelValue_BoolValue:
		return types.Bool(v.BoolValue), nil
	case *pb.CelValue_IntValue:
		return types.Int(v.IntValue), nil
	case *pb.CelValue_UintValue:
		return types.Uint(v.UintValue), nil
	case *pb.CelValue_DoubleValue:
		return types.Double(v.DoubleValue), nil
	case *pb.CelValue_StringValue:
		return types.String(v.StringValue), nil
	case *pb.CelValue_BytesValue:
		return types.Bytes(v.BytesValue), nil
	case *pb.CelValue_QuantityValue:
		q, err := ParseQuantity(v.QuantityValue)
		return q, err
	case *pb.CelValue_DurationValue:
		return types.Duration{Duration: time.Duration(v.DurationValue)}, nil
	case *pb.CelValue_TimestampValue:
		return types.Timestamp{Time: time.Unix(v.TimestampValue.GetSeconds(), int64(v.TimestampValue.GetNanos())).UTC()}, nil
	case *pb.CelValue_OptionalValue:
		list, err := l.decodeAll(v.OptionalValue.GetValues())
		if err != nil || len(list) == 0 {
			return types.OptionalNone, err
		}
		return types.OptionalOf(list[0]), nil
	case *pb.CelValue_ObjectValue:
		return l.decodeObject(v.ObjectValue.GetType(), v.ObjectValue.GetFields())
	case *pb.CelValue_ListValue:
		list, err := l.decodeAll(v.ListValue.GetValues())
		return types.NewRefValList(l.types, list), err
	case *pb.CelValue_MapValue:
		return l.decodeMap(v.MapValue.GetValues())
	}
	return nil, errors.New("expected a value")
}

func (l *language) decodeObject(typ string, fields []*pb.CelValue) (ref.Val, error) {
	kind := l.kinds[typ]
	list, err := l.decodeAll(fields)
	switch {
	case err != nil:
		return nil, err
	case kind == nil:
		return nil, fmt.Errorf("no type %.80q", typ)
	case len(list) != len(kind.fields):
		return nil, fmt.Errorf("%s: expected %d fields, got %d", kind.name, len(kind.fields), len(list))
	}
	for i, f := range kind.fields {
		if !fits(f.typ, list[i]) {
			return nil, fmt.Errorf("%s.%s: expected %s, got %s", kind.name, f.name, f.typ, list[i].Type().TypeName())
		}
	}
	return &object{kind, list}, nil
}

func (l *language) decodeMap(values []*pb.CelValue) (ref.Val, error) {
	list, err := l.decodeAll(values)
	if err != nil {
		return nil, err
	}
	m := &sortedMap{adapter: l.types}
	for i := 0; i+1 < len(list); i += 2 {
		if n := len(m.keys); rank(list[i]) > 2 || n > 0 && compareKeys(m.keys[n-1], list[i]) >= 0 {
			return nil, errors.New("map: expected ascending keys")
		}
		m.keys, m.values = append(m.keys, list[i]), append(m.values, list[i+1])
	}
	return m, nil
}

func (l *language) decodeAll(list []*pb.CelValue) ([]ref.Val, error) {
	out := make([]ref.Val, 0, len(list))
	for _, x := range list {
		v, err := l.decode(x)
		if err != nil {
			return nil, err
		}
		if types.IsError(v) {
			return nil, errors.New("a failure within a value")
		}
		out = append(out, v)
	}
	return out, nil
}

// fits tells whether a value is of a type, as far as its surface goes. A failure is of each.
func fits(t *types.Type, v ref.Val) bool {
	if types.IsError(v) {
		return true
	}
	switch t.Kind() {
	case types.DynKind, types.AnyKind, types.TypeParamKind, types.ErrorKind:
		return true
	case types.NullTypeKind:
		return v == types.NullValue
	}
	if v == types.NullValue {
		return t.IsAssignableType(types.NullType)
	}
	return t.TypeName() == v.Type().TypeName()
}
