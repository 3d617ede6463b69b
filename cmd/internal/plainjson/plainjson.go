package plainjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Marshal writes m as indented JSON with a newline at its end.
func Marshal(m proto.Message) ([]byte, error) {
	compact, err := message(nil, m.ProtoReflect())
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func message(b []byte, m protoreflect.Message) ([]byte, error) {
	fields := m.Descriptor().Fields()
	order := make([]protoreflect.FieldDescriptor, fields.Len())
	for i := range order {
		order[i] = fields.Get(i)
	}
	slices.SortFunc(order, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number()) - int(b.Number()) })
	b = append(b, '{')
	for i, f := range order {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, name(f)...)
		b = append(b, '"', ':')
		var err error
		if b, err = field(b, m, f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.FullName(), err)
		}
	}
	return append(b, '}'), nil
}

func name(f protoreflect.FieldDescriptor) string {
	if isMessage(f, (*durationpb.Duration)(nil)) {
		return f.JSONName() + "Seconds"
	}
	return f.JSONName()
}

func isMessage(f protoreflect.FieldDescriptor, m proto.Message) bool {
	return f.Kind() == protoreflect.MessageKind && f.Message().FullName() == m.ProtoReflect().Descriptor().FullName()
}

func field(b []byte, m protoreflect.Message, f protoreflect.FieldDescriptor) ([]byte, error) {
	switch {
	case f.IsMap():
		return nil, fmt.Errorf("maps have no order")
	case f.IsList():
		list := m.Get(f).List()
		b = append(b, '[')
		for i := range list.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = value(b, f, list.Get(i)); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case f.HasPresence() && !m.Has(f):
		return append(b, "null"...), nil
	}
	return value(b, f, m.Get(f))
}

func value(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		switch m := v.Message().Interface().(type) {
		case *durationpb.Duration:
			return scalar(b, m.AsDuration().Seconds())
		case *timestamppb.Timestamp:
			return scalar(b, m.AsTime().Format(time.RFC3339Nano))
		}
		return message(b, v.Message())
	case protoreflect.EnumKind:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return scalar(b, string(e.Name()))
		}
		return scalar(b, v.Enum())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return append(b, "null"...), nil
		}
	}
	return scalar(b, v.Interface())
}

func scalar(b []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(b, text...), err
}
