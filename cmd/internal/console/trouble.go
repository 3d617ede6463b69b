package console

import (
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// troublePath is the template of the page that says what is the matter. No page is served there.
const troublePath = "trouble"

// trouble is why there is no page.
type trouble struct {
	Code        int
	Title, Text string
	// Leader is the console of the coordinator that leads; empty: none is known.
	Leader string
	// Hints are what may help.
	Hints []string
	page  *page // that was asked for; nil: none
}

// troubleOf puts a call's error into words.
func troubleOf(s *status.Status, p *page) trouble {
	t := trouble{Code: httpCode(s), Title: "The scheduler does not answer", Text: s.Message(), page: p}
	if n := notLeader(s); n != nil {
		// A browser asks anew by itself after a 421.
		t.Code, t.Title = http.StatusServiceUnavailable, "This coordinator stands by"
		switch leader := n.GetLeader(); {
		case leader != nil:
			t.Text = fmt.Sprintf("%s leads, and knows what the cluster is like.", leader.GetId())
			if t.Leader = leader.GetConsole(); t.Leader == "" {
				t.Hints = []string{"The leader has no console that others reach. Its client API is at " + leader.GetAddress() + "."}
			}
		case n.GetHolder() != "":
			t.Text = s.Message() + "."
		default:
			t.Text = "No coordinator leads now. One will once the last leader's lease has run out."
		}
		return t
	}
	switch s.Code() {
	case codes.NotFound:
		t.Title = "Not found"
	case codes.InvalidArgument, codes.OutOfRange:
		t.Title = "This can not be asked"
	case codes.FailedPrecondition:
		t.Title = "Not here"
	case codes.ResourceExhausted:
		t.Title = "The scheduler is busy"
		t.Hints = []string{"It answers eight questions at a time. This page tries again."}
	case codes.PermissionDenied, codes.Unauthenticated:
		t.Title = "Not allowed"
	case codes.Unimplemented:
		t.Title = "The coordinator is older than this console"
		t.Text = "It does not know what this page asks: " + s.Message()
	case codes.DeadlineExceeded:
		t.Title = "The scheduler takes too long"
	}
	return t
}

// notLeader is the detail of a follower's refusal; nil: it is another error.
func notLeader(s *status.Status) *pb.NotLeader {
	if s.Code() != codes.FailedPrecondition {
		return nil
	}
	for _, d := range s.Details() {
		if n, ok := d.(*pb.NotLeader); ok {
			return n
		}
	}
	return nil
}

// httpCode is an HTTP status for a gRPC one.
func httpCode(s *status.Status) int {
	switch s.Code() {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.Aborted, codes.AlreadyExists:
		return http.StatusConflict
	case codes.FailedPrecondition:
		switch n := notLeader(s); {
		case n.GetLeader() != nil:
			return http.StatusMisdirectedRequest
		case n != nil:
			return http.StatusServiceUnavailable
		}
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable, codes.Canceled:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
