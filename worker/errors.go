package worker

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// oldTermError refuses a deposed leader.
type oldTermError struct {
	cluster      string
	term, newest uint64
}

func (e *oldTermError) Error() string {
	return fmt.Sprintf("cluster %q: term %d is over, a leader of term %d has been here", e.cluster, e.term, e.newest)
}

// requestError is the caller's fault: what it sent can not be right.
type requestError struct {
	subject string
	err     error
}

func (e *requestError) Error() string { return e.subject + ": " + e.err.Error() }
func (e *requestError) Unwrap() error { return e.err }

// invalid makes a requestError about what the words of format name.
func invalid(err error, format string, args ...any) error {
	return &requestError{subject: fmt.Sprintf(format, args...), err: err}
}

// toStatus maps a cause to the code that the coordinator acts on:
//
//	old term          FAILED_PRECONDITION   the coordinator is deposed
//	bad request       INVALID_ARGUMENT      a bug of the coordinator's
//	context ended     CANCELLED or DEADLINE_EXCEEDED
//	a status          as it is
//	anything else     INTERNAL              a bug of ours
func toStatus(err error) error {
	var old *oldTermError
	var bad *requestError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &old):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.As(err, &bad):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Internal, err.Error())
}
