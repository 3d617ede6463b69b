package console

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// slow answers each call after a while, and counts them. The time is synctest's here: a Sleep lasts until all else stands still.
type slow struct {
	grpc.ClientConnInterface
	takes               time.Duration
	size                int
	calls, now, highest atomic.Int64
	err                 error
}

func (s *slow) Invoke(_ context.Context, _ string, request, reply any, _ ...grpc.CallOption) error {
	s.calls.Add(1)
	now := s.now.Add(1)
	for seen := s.highest.Load(); now > seen && !s.highest.CompareAndSwap(seen, now); seen = s.highest.Load() {
	}
	defer s.now.Add(-1)
	time.Sleep(s.takes) // by the clock of the test's bubble, as all sleeps here
	if s.err != nil {
		return s.err
	}
	note := request.(*pb.ExplainRequest).GetName() + string(make([]byte, s.size))
	proto.Merge(reply.(proto.Message), &pb.ExplainResponse{Note: note})
	return nil
}

func explain(ctx context.Context, s *shared, name string) (*pb.ExplainResponse, error) {
	return pb.NewSchedulerServiceClient(s).Explain(ctx, &pb.ExplainRequest{Name: name})
}

// held are the answers that are kept, and their bytes.
func held(s *shared) (answers, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.Len(), s.bytes
}

// TestManyViewersCostWhatOneCosts has a hundred viewers ask ten times within a second.
func TestManyViewersCostWhatOneCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &slow{takes: 100 * time.Millisecond}
		s := newShared(conn)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				for range 10 {
					if r, err := explain(t.Context(), s, "a"); err != nil || r.GetNote() != "a" {
						t.Errorf("got %v, %v", r, err)
					}
					time.Sleep(50 * time.Millisecond) // until the viewer's page asks again
				}
			})
		}
		all.Wait()
		if got := conn.calls.Load(); got != 1 {
			t.Errorf("got %d calls of a hundred viewers, want 1", got)
		}
		time.Sleep(2 * shareFor)
		if n, bytes := held(s); n != 0 || bytes != 0 {
			t.Errorf("got %d answers of %d bytes while nobody looks, want none", n, bytes)
		}
		explain(t.Context(), s, "a")
		if got := conn.calls.Load(); got != 2 {
			t.Errorf("got %d calls, want one more: the answer was too old", got)
		}
	})
}

// An answer belongs to who got it: what one page does to it others do not see.
func TestAnswersAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(&slow{})
		first, _ := explain(t.Context(), s, "a")
		first.Note = "changed"
		if second, _ := explain(t.Context(), s, "a"); second.GetNote() != "a" {
			t.Errorf("got %q, want the answer as it came", second.GetNote())
		}
		time.Sleep(2 * shareFor)
	})
}

// TestWhoLeavesTakesNobodyAlong has the viewer leave whose call others wait for.
func TestWhoLeavesTakesNobodyAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &slow{takes: time.Second}
		s := newShared(conn)
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := explain(ctx, s, "a"); status.Code(err) != codes.Canceled {
				t.Errorf("who has left: got %v, want canceled", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if _, err := explain(t.Context(), s, "a"); err != nil {
				t.Errorf("who has stayed: got %v, want the answer", err)
			}
		})
		synctest.Wait()
		leave()
		all.Wait()
		if got := conn.calls.Load(); got != 1 {
			t.Errorf("got %d calls, want 1", got)
		}
		time.Sleep(2 * shareFor)
	})
}

func TestCallsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &slow{takes: time.Second}
		s := newShared(conn)
		var all sync.WaitGroup
		for i := range 5 * maxCalls {
			all.Go(func() { explain(t.Context(), s, fmt.Sprint(i)) })
		}
		all.Wait()
		if got := conn.highest.Load(); got != maxCalls {
			t.Errorf("got %d calls at once, want %d", got, maxCalls)
		}
		conn.takes = 2 * callTimeout
		var busy atomic.Int64
		for i := range 2 * maxCalls {
			all.Go(func() {
				if _, err := explain(t.Context(), s, fmt.Sprint("late ", i)); status.Code(err) == codes.ResourceExhausted {
					busy.Add(1)
				}
			})
		}
		all.Wait()
		if busy.Load() == 0 {
			t.Errorf("nobody was told that the console is busy")
		}
		time.Sleep(2 * shareFor)
	})
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &slow{}
		s := newShared(conn)
		for i := range 2 * maxShared {
			explain(t.Context(), s, fmt.Sprint(i))
		}
		if got, _ := held(s); got != maxShared {
			t.Errorf("got %d answers, want %d", got, maxShared)
		}
		conn.size = 3 << 20
		for i := range 8 {
			explain(t.Context(), s, fmt.Sprint("large ", i))
			if _, bytes := held(s); bytes > maxSharedBytes {
				t.Fatalf("got %d bytes, want %d at the most", bytes, maxSharedBytes)
			}
		}
		if got, _ := held(s); got != 5 {
			t.Errorf("got %d answers of 3 MiB, want 5", got)
		}
		conn.err = status.Error(codes.Unavailable, "gone")
		before := conn.calls.Load()
		for range 3 {
			if _, err := explain(t.Context(), s, "an error"); status.Code(err) != codes.Unavailable {
				t.Errorf("got %v, want the error", err)
			}
		}
		if got := conn.calls.Load() - before; got != 3 {
			t.Errorf("got %d calls, want an error to be asked again", got)
		}
		time.Sleep(2 * shareFor)
	})
}
