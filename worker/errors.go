package worker

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardsched/shardsched/scorer/scan"
)

// wrongTermError refuses who does not lead.
type wrongTermError struct {
	cluster     string
	term, leads uint64
}

func (e *wrongTermError) Error() string {
	if e.term < e.leads {
		return fmt.Sprintf("cluster %q: term %d is over, term %d leads", e.cluster, e.term, e.leads)
	}
	return fmt.Sprintf("cluster %q: term %d does not lead, but %d (0: none does)", e.cluster, e.term, e.leads)
}

// unconfirmedError refuses a new term while nobody can tell whether it leads.
type unconfirmedError struct {
	term uint64
	err  error
}

func (e *unconfirmedError) Error() string {
	return fmt.Sprintf("term %d is new, and whether it leads is not known: %v", e.term, e.err)
}
func (e *unconfirmedError) Unwrap() error { return e.err }

// otherRulesError refuses a coordinator of another version.
type otherRulesError struct{ rules uint64 }

func (e *otherRulesError) Error() string {
	return fmt.Sprintf("rules %016x: this worker computes by the rules %016x", e.rules, scan.Rules())
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
//	wrong term        FAILED_PRECONDITION   the coordinator asks etcd whether it is deposed
//	unconfirmed term  UNAVAILABLE           etcd is away: try again
//	other rules       UNIMPLEMENTED         builds of two versions
//	too large         RESOURCE_EXHAUSTED    there is no room
//	bad request       INVALID_ARGUMENT      a bug of the coordinator's
//	context ended     CANCELLED or DEADLINE_EXCEEDED
//	a status          as it is
//	anything else     INTERNAL              a bug of ours
func toStatus(err error) error {
	var wrong *wrongTermError
	var unconfirmed *unconfirmedError
	var large *tooLargeError
	var rules *otherRulesError
	var bad *requestError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.As(err, &rules):
		return status.Error(codes.Unimplemented, err.Error())
	case errors.As(err, &large):
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.As(err, &unconfirmed):
		return status.Error(codes.Unavailable, err.Error())
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
