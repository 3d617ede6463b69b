package serving

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// slow answers nobody before all requests have come, and notes the most that it had at a time.
type slow struct {
	pb.UnimplementedSchedulerServiceServer
	come     sync.WaitGroup
	in, most atomic.Int64
}

func (s *slow) Apply(context.Context, *pb.ApplyRequest) (*pb.ApplyResponse, error) {
	n := s.in.Add(1)
	defer s.in.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	s.come.Wait()
	return &pb.ApplyResponse{}, nil
}

// arrivals tells a service of requests that have come.
type arrivals struct {
	codec
	service *slow
}

func (a arrivals) Unmarshal(data mem.BufferSlice, m any) error {
	defer a.service.come.Done()
	return a.codec.Unmarshal(data, m)
}

// TestRequestsInWorkAreBounded sends many requests of 3 MiB, of which two are within 8 MiB.
func TestRequestsInWorkAreBounded(t *testing.T) {
	const all = 16
	guard, service := &Guard{}, &slow{}
	service.come.Add(all)
	l, err := guard.Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(guard.ServerOptions(), grpc.ForceServerCodecV2(arrivals{codec{protoCodec()}, service}))...)
	pb.RegisterSchedulerServiceServer(guard.Registrar(s), service)
	conn := serveAndDial(t, s, l)
	client := pb.NewSchedulerServiceClient(conn)
	request := &pb.ApplyRequest{Objects: []*pb.Object{{}}}
	request.Objects[0].ProtoReflect().SetUnknown(append([]byte{0xfa, 0x7f, 0x80, 0x80, 0xc0, 0x01}, make([]byte, 3<<20)...))
	var done sync.WaitGroup
	for range all {
		done.Go(func() {
			if _, err := client.Apply(t.Context(), request); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if got := service.most.Load(); got > 2 {
		t.Errorf("got %d requests of 3 MiB in work, want 2 at the most", got)
	}
}

// TestSmallRequestsWaitForNoLargeOnes takes all the room that there is for requests in work.
func TestSmallRequestsWaitForNoLargeOnes(t *testing.T) {
	guard := &Guard{}
	l, err := guard.Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(guard.ServerOptions()...)
	r := guard.Registrar(s).(registrar)
	pb.RegisterSchedulerServiceServer(r, pb.UnimplementedSchedulerServiceServer{})
	if err := r.inWork.Acquire(t.Context(), inWorkBytes); err != nil {
		t.Fatal(err)
	}
	conn := serveAndDial(t, s, l)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // where it waits for room
	defer cancel()
	_, err = pb.NewSchedulerServiceClient(conn).GetSummary(ctx, &pb.GetSummaryRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v, want the answer of the service", err)
	}
}

// serveAndDial has a server serve on a listener until the test ends, and connects to it.
func serveAndDial(t *testing.T, s *grpc.Server, l net.Listener) *grpc.ClientConn {
	t.Helper()
	go s.Serve(l)
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
