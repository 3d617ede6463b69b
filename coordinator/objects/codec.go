package objects

import "errors"

// Encode writes Kubernetes protobuf: "k8s", a zero byte, and the object in an
// envelope that names its kind. Equal objects give equal bytes.
func Encode(obj Object) ([]byte, error) { return nil, errors.ErrUnsupported }

// Decode reads Kubernetes protobuf or JSON. JSON is read strictly: an unknown or
// duplicate field is an error that names it.
func Decode(raw []byte) (Object, error) { return nil, errors.ErrUnsupported }
