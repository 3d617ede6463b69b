package submit

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// coordinator answers Apply with one scripted error after the other, then acknowledges.
type coordinator struct {
	pb.UnimplementedSchedulerServiceServer
	address string

	mu     sync.Mutex
	script []error
	asked  int
}

func (c *coordinator) Apply(_ context.Context, req *pb.ApplyRequest) (*pb.ApplyResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if len(c.script) > 0 {
		err := c.script[0]
		c.script = c.script[1:]
		return nil, err
	}
	return &pb.ApplyResponse{Revision: 42, Outcomes: make([]pb.ApplyOutcome, len(req.Objects))}, nil
}

// refuses replaces what the coordinator says before it acknowledges.
func (c *coordinator) refuses(errs ...error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.script = errs
}

func serve(t *testing.T) *coordinator {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &coordinator{address: l.Addr().String()}
	s := grpc.NewServer()
	pb.RegisterSchedulerServiceServer(s, c)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return c
}

// leads is a follower's refusal; empty: nobody leads.
func leads(t *testing.T, address string) error {
	t.Helper()
	detail := &pb.NotLeader{}
	if address != "" {
		detail.Leader = &pb.LeaderRecord{Address: address}
	}
	s, err := status.New(codes.FailedPrecondition, "does not lead").WithDetails(detail)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

func TestApplyGoesOnUntilTheLeaderAcknowledges(t *testing.T) {
	a, b := serve(t), serve(t)
	unavailable := status.Error(codes.Unavailable, "etcd is away")
	cases := []struct {
		name    string
		a, b    []error
		retries int
	}{
		{"the first leads", nil, nil, 0},
		{"a follower names the leader", []error{leads(t, b.address)}, nil, 1},
		{"nobody leads for a while", []error{leads(t, "")}, []error{leads(t, "")}, 2},
		{"etcd is away for a while", []error{unavailable}, []error{unavailable}, 2},
		{"a leader that does not know yet that it leads", []error{leads(t, a.address)}, []error{leads(t, a.address)}, 2},
		{"the named leader is gone", []error{leads(t, "127.0.0.1:1")}, nil, 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a.refuses(c.a...)
			b.refuses(c.b...)
			client := New(a.address, b.address)
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, err := Request(pods("x", "y"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Apply(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			ledger := NewLedger()
			ledger.Note(req, resp)
			if got, want := ledger.Names(), []string{"default/x", "default/y"}; !slices.Equal(got, want) || ledger.Len() != 2 {
				t.Errorf("acknowledged: got %v, want %v", got, want)
			}
			if got := client.Retries(); got > c.retries || c.retries > 0 && got == 0 {
				t.Errorf("retries: got %d, want up to %d", got, c.retries)
			}
		})
	}
}

func TestApplyReturnsWhatAnotherAttemptDoesNotMend(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.Internal, codes.Aborted, codes.FailedPrecondition} {
		c := serve(t)
		c.refuses(status.Error(code, "no"))
		client := New(c.address)
		defer client.Close()
		req, err := Request(pods("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Apply(t.Context(), req); status.Code(err) != code {
			t.Errorf("got %v, want code %v", err, code)
		}
		if c.asked != 1 {
			t.Errorf("%v: asked %d times, want once", code, c.asked)
		}
	}
}

func pods(names ...string) []Object {
	var out []Object
	for _, n := range names {
		out = append(out, build.Pod(n).Obj())
	}
	return out
}
