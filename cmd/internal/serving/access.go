package serving

import (
	"context"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

const (
	// linesASecond is how many lines the log gets of refused calls, and how many of changes: both are others'
	// to make.
	linesASecond = 10
	// namedObjects is how many objects a line names, namedBytes how long the names may be in all.
	namedObjects = 4
	namedBytes   = 256
)

// access tells of calls: of refused ones in a metric and in the log, of changes in the log. A nil one
// tells nothing.
type access struct {
	log      klog.Logger
	clock    clock.PassiveClock
	refusals *prometheus.CounterVec

	refusedLines, changeLines pace
}

// CountRefusals counts refused calls in r, and has log tell of them and of changes.
func (g *Guard) CountRefusals(r prometheus.Registerer, log klog.Logger) {
	g.access = newAccess(r, log, clock.RealClock{})
}

func newAccess(r prometheus.Registerer, log klog.Logger, c clock.PassiveClock) *access {
	a := &access{log: log, clock: c, refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "shardsched_refused_calls_total",
		Help: "Calls and connections refused, by reason: handshake (no TLS, or no certificate that counts), unauthenticated, forbidden, " +
			"busy, bug (of ours, that the call met).",
	}, []string{"reason"})}
	for _, reason := range []string{"handshake", "unauthenticated", "forbidden", "busy", bug} {
		a.refusals.WithLabelValues(reason)
	}
	r.MustRegister(a.refusals)
	return a
}

// bug is the metric's word for a call that panicked.
const bug = "bug"

// reasons are the metric's words for codes.
var reasons = map[codes.Code]string{
	codes.Unauthenticated: "unauthenticated", codes.PermissionDenied: "forbidden", codes.ResourceExhausted: "busy",
}

// refuse tells that somebody, from an address, may not make a call.
func (a *access) refuse(who, from, call string, err error) {
	a.refused(reasons[status.Code(err)], "A call is refused", "identity", who, "from", from, "call", call, "reason",
		status.Convert(err).Message())
}

// met recovers from a call that has panicked: it gives the caller an error, and tells of the bug. It is deferred.
func (a *access) met(ctx context.Context, call string, err *error) {
	v := recover()
	if v == nil {
		return
	}
	why := scan.Recovered(v)
	*err = status.Errorf(codes.Internal, "%s met a bug, which the server's log tells of", call)
	if a == nil {
		a = newAccess(prometheus.NewRegistry(), klog.Background(), clock.RealClock{}) // the log is told, even so
	}
	a.refused(bug, "A call met a bug", "from", from(ctx), "call", call, "reason", why.Error(), "stack", string(why.Stack))
}

// handshake tells that a connection got no further than TLS.
func (a *access) handshake(from, reason string) {
	a.refused("handshake", "A connection is refused", "from", from, "reason", reason)
}

func (a *access) refused(reason, message string, about ...any) {
	if a == nil {
		return
	}
	a.refusals.WithLabelValues(reason).Inc()
	if leftOut, tell := a.refusedLines.next(a.clock.Now()); tell {
		a.log.Info(message, append(about, "leftOut", leftOut)...)
	}
}

// ChangeLogged is the message of the log for a call that changes something.
const ChangeLogged = "A call to change objects"

// change tells of a call that changes something, and of what became of it.
func (a *access) change(who, from, call string, req any, err error) {
	if a == nil || Verb(call) == "get" {
		return
	}
	if r, ok := req.(*pb.ApplyRequest); ok && r.GetDryRun() {
		return
	}
	if leftOut, tell := a.changeLines.next(a.clock.Now()); tell {
		count, names := subjects(req)
		a.log.Info(ChangeLogged, "identity", who, "from", from, "call", call, "objects", count, "names", names,
			"outcome", status.Code(err).String(), "leftOut", leftOut)
	}
}

// subjects are what a change is about: how many objects, and the first of them by name.
func subjects(req any) (count int, names string) {
	var refs []*pb.ObjectRef
	switch r := req.(type) {
	case *pb.ApplyRequest:
		count = len(r.GetObjects())
		for _, o := range r.GetObjects()[:min(count, namedObjects)] {
			refs = append(refs, o.GetRef())
		}
	case *pb.DeleteRequest:
		count = len(r.GetRefs())
		refs = r.GetRefs()[:min(count, namedObjects)]
	}
	var text strings.Builder
	for _, r := range refs {
		if fmt.Fprintf(&text, "%.64s ", r.GetKind()); r.GetNamespace() != "" {
			fmt.Fprintf(&text, "%.64s/", r.GetNamespace())
		}
		fmt.Fprintf(&text, "%.256s, ", r.GetName())
	}
	names = strings.TrimSuffix(text.String(), ", ")
	if len(names) > namedBytes {
		names = names[:namedBytes] + "…"
	}
	if more := count - len(refs); more > 0 && names != "" {
		names += fmt.Sprintf(" and %d more", more)
	}
	return count, names
}

// handshakePrefix begins what net/http logs of a handshake that failed.
const handshakePrefix = "http: TLS handshake error from "

// httpLog is where net/http tells of connections.
func (a *access) httpLog() *log.Logger { return log.New(httpLog{a}, "", 0) }

type httpLog struct{ access *access }

// Write implements io.Writer.
func (h httpLog) Write(line []byte) (int, error) {
	if rest, ok := strings.CutPrefix(string(line), handshakePrefix); ok {
		from, reason, _ := strings.Cut(rest, ": ")
		h.access.handshake(from, strings.TrimSpace(reason))
	} else {
		klog.Background().Info("HTTP", "message", strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

// pace bounds lines of the log.
type pace struct {
	mu      sync.Mutex // guards what is below
	second  time.Time  // when the second began of which lines are counted
	lines   int
	leftOut int
}

// next tells whether the log gets a line, and how many were left out since the last.
func (p *pace) next(now time.Time) (leftOut int, tell bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.second) >= time.Second {
		p.second, p.lines = now, 0
	}
	if p.lines >= linesASecond {
		p.leftOut++
		return 0, false
	}
	p.lines++
	leftOut, p.leftOut = p.leftOut, 0
	return leftOut, true
}
