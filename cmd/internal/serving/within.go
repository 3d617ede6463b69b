package serving

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Within connects this process to a service of its own: a call needs no listener and no bytes, and nobody is asked who they
// are. A call that panics ends with an error, as with a server. Streams are refused. maxBytes bounds a message either way.
func (g *Guard) Within(desc *grpc.ServiceDesc, service any, maxBytes int) grpc.ClientConnInterface {
	w := &within{service: service, access: g.access, maxBytes: maxBytes, methods: map[string]grpc.MethodDesc{}}
	for _, m := range desc.Methods {
		w.methods["/"+desc.ServiceName+"/"+m.MethodName] = m
	}
	return w
}

type within struct {
	service  any
	access   *access
	maxBytes int
	methods  map[string]grpc.MethodDesc // by full name
}

// Invoke implements grpc.ClientConnInterface.
func (w *within) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) (err error) {
	m, ok := w.methods[method]
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	defer w.access.met(ctx, method, &err)
	if err := w.bound(method, "request", request); err != nil {
		return err
	}
	answer, err := m.Handler(w.service, ctx, func(in any) error {
		proto.Merge(in.(proto.Message), request.(proto.Message))
		return nil
	}, nil)
	if err != nil {
		return status.Convert(err).Err()
	}
	if err := w.bound(method, "answer", answer); err != nil {
		return err
	}
	proto.Merge(reply.(proto.Message), answer.(proto.Message))
	return nil
}

func (w *within) bound(method, what string, m any) error {
	if size := proto.Size(m.(proto.Message)); size > w.maxBytes {
		return status.Errorf(codes.ResourceExhausted, "%s: the %s has %d bytes, want %d at the most", method[strings.LastIndex(method, "/")+1:],
			what, size, w.maxBytes)
	}
	return nil
}

// NewStream implements grpc.ClientConnInterface.
func (w *within) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, fmt.Errorf("within a process: %w", status.Error(codes.Unimplemented, "no streams"))
}
