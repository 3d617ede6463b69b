package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestEveryCauseHasItsCode(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want codes.Code
	}{
		"nothing":                  {nil, codes.OK},
		"an invalid object":        {&store.InvalidError{}, codes.InvalidArgument},
		"a bad token":              {store.ErrBadToken, codes.InvalidArgument},
		"an unknown kind":          {objects.ErrUnknownKind, codes.InvalidArgument},
		"deposed":                  {lease.ErrDeposed, codes.FailedPrecondition},
		"unknown":                  {objects.ErrUnknown, codes.Unavailable},
		"unknown, for deposed":     {fmt.Errorf("%w: %w", objects.ErrUnknown, lease.ErrDeposed), codes.Unavailable},
		"not found":                {objects.ErrNotFound, codes.NotFound},
		"changed":                  {objects.ErrConflict, codes.Aborted},
		"bound":                    {objects.ErrAlreadyBound, codes.Aborted},
		"compacted":                {store.ErrCompacted, codes.OutOfRange},
		"etcd is away":             {rpctypes.ErrTimeout, codes.Unavailable},
		"etcd is away, as gRPC":    {status.Error(codes.Unavailable, "connection refused"), codes.Unavailable},
		"etcd is full":             {rpctypes.ErrNoSpace, codes.ResourceExhausted},
		"an attempt took too long": {context.DeadlineExceeded, codes.Unavailable},
		"etcd found a bug of ours": {rpctypes.ErrTooManyOps, codes.Internal},
		"a bug":                    {errors.New("a bug"), codes.Internal},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("apply: %w", err)
		}
		if got := status.Code(statusOf(t.Context(), err)); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{"its context": context.Canceled, "an open outcome": fmt.Errorf("%w: %w", objects.ErrUnknown, context.Canceled)} {
		if got := status.Code(statusOf(gone, err)); got != codes.Canceled {
			t.Errorf("a caller that is gone, with %s: got %v, want Canceled", name, got)
		}
	}
}

func TestMessagesAreCut(t *testing.T) {
	err := invalidArgument(strings.Repeat("ä", 10<<20))
	message := status.Convert(err).Message()
	if len(message) > maxMessageBytes || !utf8.ValidString(message) {
		t.Errorf("got %d bytes, valid %v, want at most %d and valid", len(message), utf8.ValidString(message), maxMessageBytes)
	}
}

func TestANotLeaderWithoutLeaderHasADetailToo(t *testing.T) {
	details := status.Convert(notLeader(nil)).Details()
	if len(details) != 1 {
		t.Fatalf("got %v, want one detail", details)
	}
	if d, ok := details[0].(*pb.NotLeader); !ok || d.GetLeader() != nil {
		t.Errorf("got %v, want a NotLeader without leader", details[0])
	}
}

// Coordinators on several hosts may all listen on loopback: the same address is another one there.
func TestALeaderOnLoopbackIsToldSo(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:7450": true, "localhost:7450": true, "[::1]:7450": true, "10.0.0.1:7450": false, "m1.example.com:7450": false} {
		got := status.Convert(notLeader(&pb.LeaderRecord{Id: "m1_x", Address: address})).Message()
		if strings.Contains(got, "an address of its own host") != want || !strings.Contains(got, "m1_x at "+address) {
			t.Errorf("%s: got %q, want told that it is of its own host: %v", address, got, want)
		}
	}
}
