package serving

import (
	"context"
	"slices"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// inWorkBytes is how much the requests in work may take on the wire, all together. Decoded, a request of empty
// elements takes 50 to 200 times as much. Those of up to smallBytes do not count: they never wait for large ones.
const inWorkBytes, smallBytes = 8 << 20, 4 << 10

// Registrar registers services with s, a server that has the guard's options: a caller is asked who they are
// before their request is decoded, and a request that has come is decoded when there is room for it.
func (g *Guard) Registrar(s grpc.ServiceRegistrar) grpc.ServiceRegistrar {
	return registrar{s, g, semaphore.NewWeighted(inWorkBytes)}
}

type registrar struct {
	grpc.ServiceRegistrar
	guard  *Guard
	inWork *semaphore.Weighted // bytes
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(d *grpc.ServiceDesc, service any) {
	guarded := *d
	guarded.Methods = slices.Clone(d.Methods)
	for i := range guarded.Methods {
		m := &guarded.Methods[i]
		m.Handler = r.handler("/"+d.ServiceName+"/"+m.MethodName, m.Handler)
	}
	r.ServiceRegistrar.RegisterService(&guarded, service)
}

// callerKey is where a call's context has its caller, once that is known.
type callerKey struct{}

// handler is h for those who may make the call. Streams decode after their interceptors as they are.
func (r registrar) handler(call string, h grpc.MethodHandler) grpc.MethodHandler {
	decoder := protoCodec()
	return func(service any, ctx context.Context, receive func(any) error, next grpc.UnaryServerInterceptor) (answer any, err error) {
		defer r.guard.access.met(ctx, call, &err)
		who, err := r.guard.allowCall(ctx, call)
		if err != nil {
			return nil, err
		}
		taken := int64(0)
		defer func() { r.inWork.Release(taken) }()
		decode := func(m any) error {
			var raw received
			if err := receive(&raw); err != nil {
				return err
			}
			defer raw.Free()
			if bytes := min(int64(raw.Len()), inWorkBytes); bytes > smallBytes {
				if err := r.inWork.Acquire(ctx, bytes); err != nil {
					return status.FromContextError(err).Err()
				}
				taken = bytes
			}
			if err := decoder.Unmarshal(raw.BufferSlice, m); err != nil {
				return status.Errorf(codes.Internal, "decode the request: %v", err)
			}
			return nil
		}
		return h(service, context.WithValue(ctx, callerKey{}, who), decode, next)
	}
}

// received is a message that is not decoded.
type received struct{ mem.BufferSlice }

// codec decodes what is not to be received only.
type codec struct{ encoding.CodecV2 }

func protoCodec() encoding.CodecV2 { return encoding.GetCodecV2(proto.Name) }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, m any) error {
	if raw, ok := m.(*received); ok {
		data.Ref()
		raw.BufferSlice = data
		return nil
	}
	return c.CodecV2.Unmarshal(data, m)
}
