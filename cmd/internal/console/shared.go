package console

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// shareFor is how old an answer may be that a second viewer gets.
	shareFor = time.Second
	// maxShared and maxSharedBytes bound the answers that are kept for that second.
	maxShared      = 64
	maxSharedBytes = 16 << 20
	// maxCalls is how many calls are under way. The loop serves eight reads at a time: other clients keep half of them.
	maxCalls = 4
	// callTimeout ends a call that nobody answers.
	callTimeout = 20 * time.Second
)

// shared makes calls of the same method and request within a second one call. It is for calls that only read.
type shared struct {
	grpc.ClientConnInterface
	calls   singleflight.Group
	running *semaphore.Weighted

	mu    sync.Mutex
	kept  *simplelru.LRU[string, proto.Message] // guarded by mu, as is bytes
	bytes int
}

func newShared(conn grpc.ClientConnInterface) *shared {
	s := &shared{ClientConnInterface: conn, running: semaphore.NewWeighted(maxCalls)}
	s.kept, _ = simplelru.NewLRU(maxShared, func(_ string, m proto.Message) { s.bytes -= proto.Size(m) }) // the size is positive
	return s
}

// Invoke implements grpc.ClientConnInterface.
func (s *shared) Invoke(ctx context.Context, method string, request, reply any, opts ...grpc.CallOption) error {
	in, out := request.(proto.Message), reply.(proto.Message)
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(in)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "%s: %v", method, err)
	}
	key := method + "\x00" + string(text)
	if m, ok := s.recent(key); ok {
		proto.Merge(out, m)
		return nil
	}
	answered := s.calls.DoChan(key, func() (any, error) {
		// Who has asked first may leave before others that wait with them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		if err := s.running.Acquire(ctx, 1); err != nil {
			return nil, status.Error(codes.ResourceExhausted, "too many questions of the console are under way")
		}
		defer s.running.Release(1)
		m := out.ProtoReflect().New().Interface()
		if err := s.ClientConnInterface.Invoke(ctx, method, in, m, opts...); err != nil {
			return nil, err
		}
		s.keep(key, m)
		return m, nil
	})
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case a := <-answered:
		if a.Err != nil {
			return a.Err
		}
		proto.Merge(out, a.Val.(proto.Message))
		return nil
	}
}

func (s *shared) recent(key string) (proto.Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.Get(key)
}

// keep holds an answer for a second.
func (s *shared) keep(key string, m proto.Message) {
	size := proto.Size(m)
	if size > maxSharedBytes {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Remove(key)
	s.kept.Add(key, m)
	for s.bytes += size; s.bytes > maxSharedBytes; {
		s.kept.RemoveOldest()
	}
	time.AfterFunc(shareFor, func() { s.forget(key, m) })
}

// forget drops an answer, unless another has taken its place.
func (s *shared) forget(key string, m proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.kept.Peek(key); ok && now == m {
		s.kept.Remove(key)
	}
}
