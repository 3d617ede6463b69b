package objects

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

const (
	// protobufMagic opens every Kubernetes protobuf.
	protobufMagic = "k8s\x00"
	// maxStrictErrors bounds how many unknown fields one error lists.
	maxStrictErrors = 8
)

// ErrUnknownKind says that an object is none of Kinds.
var ErrUnknownKind = errors.New("unknown kind")

// Encode writes Kubernetes protobuf: "k8s", a zero byte, and the object in an
// envelope that names its kind. Equal objects give equal bytes.
func Encode(obj Object) ([]byte, error) {
	kind := KindOf(obj)
	if !kind.Known() {
		return nil, fmt.Errorf("encode %T: %w", obj, ErrUnknownKind)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: string(kind)}}
	size := uint64(obj.Size())
	raw := 1 + protowire.SizeVarint(size) + int(size)
	out := make([]byte, len(protobufMagic)+envelope.Size()+raw)
	copy(out, protobufMagic)
	if _, err := envelope.NestedMarshalTo(out[len(protobufMagic):], sized{obj}, size); err != nil {
		return nil, fmt.Errorf("encode %s: %w", RefOf(obj), err)
	}
	return out, nil
}

// sized gives an Object the method set that runtime.Unknown asks for.
type sized struct{ Object }

func (s sized) MarshalTo(data []byte) (int, error) {
	return s.MarshalToSizedBuffer(data[:s.Size()])
}

// Decode reads Kubernetes protobuf or JSON. JSON is read strictly: an unknown or
// duplicate field is an error that names it.
func Decode(raw []byte) (Object, error) {
	if bytes.HasPrefix(raw, []byte(protobufMagic)) {
		return decodeProtobuf(raw[len(protobufMagic):])
	}
	if trimmed := bytes.TrimLeft(raw, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		return decodeJSON(trimmed)
	}
	return nil, fmt.Errorf("%d bytes are neither Kubernetes protobuf nor a JSON object", len(raw))
}

func decodeProtobuf(raw []byte) (Object, error) {
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(raw); err != nil {
		return nil, fmt.Errorf("kubernetes protobuf envelope: %w", err)
	}
	if envelope.ContentEncoding != "" {
		return nil, fmt.Errorf("kubernetes protobuf with content encoding %q is not supported", short(envelope.ContentEncoding))
	}
	obj, err := newOf(metav1.TypeMeta{APIVersion: envelope.APIVersion, Kind: envelope.Kind})
	if err != nil {
		return nil, err
	}
	if i := hugeExponent(envelope.Raw); i >= 0 && protobufQuantityAt(envelope.Raw, i) {
		return nil, fmt.Errorf("%s: %w", envelope.Kind, errExponent)
	}
	if err := obj.Unmarshal(envelope.Raw); err != nil {
		return nil, fmt.Errorf("%s in Kubernetes protobuf: %w", envelope.Kind, err)
	}
	setType(obj)
	return obj, nil
}

func decodeJSON(raw []byte) (Object, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(raw, &meta); err != nil {
		return nil, fmt.Errorf("JSON: %w", err)
	}
	obj, err := newOf(meta)
	if err != nil {
		return nil, err
	}
	// An escape may hide an exponent from the quick look.
	if hugeExponent(raw) >= 0 || bytes.Contains(raw, []byte(`\u`)) {
		if err := checkQuantities(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", meta.Kind, err)
		}
	}
	strict, err := kjson.UnmarshalStrict(raw, obj)
	if err != nil {
		// The decoder does not say where a quantity was wrong.
		if located := checkQuantities(raw); located != nil {
			err = located
		}
		return nil, fmt.Errorf("%s: %w", meta.Kind, err)
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("%s: %w", meta.Kind, errors.Join(strict[:min(len(strict), maxStrictErrors)]...))
	}
	setType(obj)
	return obj, nil
}

func newOf(meta metav1.TypeMeta) (Object, error) {
	kind := Kind(meta.Kind)
	obj := New(kind)
	if obj == nil {
		return nil, fmt.Errorf("%w: %q (known: %s)", ErrUnknownKind, short(meta.Kind), kindNames())
	}
	if want := kind.GroupVersion().String(); meta.APIVersion != want {
		return nil, fmt.Errorf("%s: apiVersion %q, want %q", meta.Kind, short(meta.APIVersion), want)
	}
	return obj, nil
}

func kindNames() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

func setType(obj Object) {
	kind := KindOf(obj)
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersion().WithKind(string(kind)))
}
