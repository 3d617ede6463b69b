package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// A status travels in HTTP headers, so it stays short.
	maxMessageBytes    = 4 << 10
	maxViolations      = 50
	maxViolationsBytes = 16 << 10
)

// statusOf is the table from what the store says to what the client is told.
//
//	cause                            code                 repeat the call
//	not valid, no such kind, token   INVALID_ARGUMENT     no
//	deposed                          FAILED_PRECONDITION  at the leader (NotLeader detail)
//	outcome unknown, etcd is away    UNAVAILABLE          yes
//	not found                        NOT_FOUND            no
//	changed meanwhile, bound         ABORTED              after reading again
//	compacted                        OUT_OF_RANGE         after listing again
//	etcd is full                     RESOURCE_EXHAUSTED   when there is room
//	the caller is gone               CANCELED, DEADLINE_EXCEEDED
//	anything else                    INTERNAL             no: a bug of ours
func statusOf(ctx context.Context, err error) error {
	var invalid *store.InvalidError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return invalidObjects(invalid)
	case errors.Is(err, store.ErrBadToken), errors.Is(err, objects.ErrUnknownKind):
		return invalidArgument(err.Error())
	case errors.Is(err, objects.ErrUnknown) && ctx.Err() == nil:
		return newStatus(codes.Unavailable, err.Error())
	case errors.Is(err, lease.ErrDeposed):
		return notLeader(nil)
	case errors.Is(err, objects.ErrNotFound):
		return newStatus(codes.NotFound, err.Error())
	case errors.Is(err, objects.ErrConflict), errors.Is(err, objects.ErrAlreadyBound):
		return newStatus(codes.Aborted, err.Error())
	case errors.Is(err, store.ErrCompacted):
		return newStatus(codes.OutOfRange, err.Error())
	}
	return newStatus(etcdCode(ctx, err), err.Error())
}

// etcdCode is the code for what etcd's client says.
func etcdCode(ctx context.Context, err error) codes.Code {
	var etcd rpctypes.EtcdError
	code := status.Code(err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return codes.Canceled
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.As(err, &etcd):
		code = etcd.Code()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return codes.Unavailable
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return codes.Unavailable
	case codes.ResourceExhausted:
		return codes.ResourceExhausted
	}
	return codes.Internal
}

// schedulerStatus passes the scheduler's own statuses on.
func schedulerStatus(err error) error {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return newStatus(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return newStatus(codes.DeadlineExceeded, err.Error())
	}
	return newStatus(codes.Internal, err.Error())
}

// notLeader refuses, naming who leads; nil: nobody that this coordinator knows of.
func notLeader(leader *pb.LeaderRecord) error {
	message := "this coordinator does not lead, and no leader is known"
	if leader != nil {
		message = fmt.Sprintf("this coordinator does not lead; %s at %s does", leader.GetId(), leader.GetAddress())
		if isLoopback(leader.GetAddress()) {
			message += " (an address of its own host: from any other, ask there, or have it --advertise one)"
		}
	}
	return newStatus(codes.FailedPrecondition, message, &pb.NotLeader{Leader: leader})
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

func invalidArgument(message string) error { return newStatus(codes.InvalidArgument, message) }

// invalidObjects spells the field errors out, each with the object's place in the request.
func invalidObjects(invalid *store.InvalidError) error {
	detail := &errdetails.BadRequest{}
	size := 0
	for _, o := range invalid.Objects {
		for _, err := range o.Errs {
			v := &errdetails.BadRequest_FieldViolation{
				Field:       cut(strings.TrimSuffix(fmt.Sprintf("objects[%d].%s", o.Index, err.Field), "."), maxMessageBytes),
				Description: cut(fmt.Sprintf("%s: %s", o.Ref, err.ErrorBody()), maxMessageBytes),
			}
			size += len(v.Field) + len(v.Description)
			if len(detail.FieldViolations) == maxViolations || size > maxViolationsBytes {
				return newStatus(codes.InvalidArgument, invalid.Error(), detail)
			}
			detail.FieldViolations = append(detail.FieldViolations, v)
		}
	}
	return newStatus(codes.InvalidArgument, invalid.Error(), detail)
}

func newStatus(code codes.Code, message string, details ...protoadapt.MessageV1) error {
	s := status.New(code, cut(message, maxMessageBytes))
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return s.Err()
}

// cut shortens a text to at most so many bytes, not in the middle of a letter.
func cut(s string, limit int) string {
	const mark = "…"
	if len(s) <= limit {
		return s
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
