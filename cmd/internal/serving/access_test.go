package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/cmd/internal/serving/authority"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// lines is a log in memory.
type lines struct {
	mu      sync.Mutex
	text    strings.Builder
	written chan struct{} // closed, and made anew, at each line
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.written)
	l.written = make(chan struct{})
	return l.text.Write(p)
}

// until waits for a line, or for long: whoever is refused by TLS may know it before the log does.
func (l *lines) until(t *testing.T, want *regexp.Regexp, begin int) (got string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		l.mu.Lock()
		got, next := l.text.String()[begin:], l.written
		l.mu.Unlock()
		if want.MatchString(got) {
			return got
		}
		select {
		case <-next:
		case <-late:
			t.Errorf("want %s, got %s", want, got)
			return got
		}
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// tells gives a guard an access log in memory.
func tells(g *Guard) (*lines, *testingclock.FakeClock) {
	told, c := &lines{written: make(chan struct{})}, testingclock.NewFakeClock(time.Unix(1000, 0))
	g.access = newAccess(prometheus.NewRegistry(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(told))), c)
	return told, c
}

func (a *access) count(reason string) int {
	return int(testutil.ToFloat64(a.refusals.WithLabelValues(reason)))
}

// TestCallsAreTold makes calls that change objects, that read, and that are refused.
func TestCallsAreTold(t *testing.T) {
	a := authority.New(t)
	guard := open(t, files(t, a, t.TempDir(), "coordinator", 2), "c")
	told, _ := tells(guard)
	serve := func(g *Guard) string {
		l, err := g.Listen("listen", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(g.ServerOptions()...)
		pb.RegisterSchedulerServiceServer(s, pb.UnimplementedSchedulerServiceServer{})
		go s.Serve(l)
		t.Cleanup(s.Stop)
		return l.Addr().String()
	}
	guarded, plain := serve(guard), serve(guard.Plain())
	as := func(role string) credentials.TransportCredentials {
		return open(t, files(t, a, t.TempDir(), role, 3), "c").ClientCredentials(Coordinator, "")
	}
	apply := &pb.ApplyRequest{Objects: []*pb.Object{{Ref: &pb.ObjectRef{Kind: "Pod", Namespace: "ns", Name: "p"}}, {}}}
	refs := make([]*pb.ObjectRef, 9)
	for i := range refs {
		refs[i] = &pb.ObjectRef{Kind: "Node", Name: strings.Repeat("n", 1000)}
	}
	for _, test := range []struct {
		name, address string
		as            credentials.TransportCredentials
		call          string
		req           any
		want          string // a regular expression; empty: nothing is told
		reason        string // that is counted; empty: none
	}{
		{"a change", guarded, as("writer/w"), pb.SchedulerService_Apply_FullMethodName, apply,
			`identity="spiffe://example.org/shardsched/c/writer/w" from="127.0.0.1:\d+" call="/shardsched.v1.SchedulerService/Apply" objects=2 names="Pod ns/p,  " outcome="Unimplemented"`, ""},
		{"a trial", guarded, as("writer"), pb.SchedulerService_Apply_FullMethodName, &pb.ApplyRequest{DryRun: true}, ``, ""},
		{"long names", guarded, as("writer"), pb.SchedulerService_Delete_FullMethodName, &pb.DeleteRequest{Refs: refs}, `objects=9 names="Node n{251}… and 5 more"`, ""},
		{"without TLS", plain, insecure.NewCredentials(), pb.SchedulerService_Apply_FullMethodName, apply, `identity="" from="127.0.0.1:\d+" .* objects=2`, ""},
		{"a read", guarded, as("reader"), pb.SchedulerService_Explain_FullMethodName, &pb.ExplainRequest{}, ``, ""},
		{"a write that is refused", guarded, as("reader"), pb.SchedulerService_Apply_FullMethodName, apply,
			`"A call is refused" identity="spiffe://example.org/shardsched/c/reader" from="127.0.0.1:\d+" call="/shardsched.v1.SchedulerService/Apply" reason="forbidden: `, "forbidden"},
		{"nobody", guarded, as("../d/admin"), pb.SchedulerService_Apply_FullMethodName, apply, `"A call is refused" identity="" `, "unauthenticated"},
		{"no TLS", guarded, insecure.NewCredentials(), pb.SchedulerService_Apply_FullMethodName, apply, `"A connection is refused" from="127.0.0.1:\d+" reason="tls: first record does not look like a TLS handshake"`, "handshake"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, counted := len(told.String()), guard.access.count("handshake")+guard.access.count("unauthenticated")+guard.access.count("forbidden")
			conn, err := grpc.NewClient(test.address, grpc.WithTransportCredentials(test.as))
			if err != nil {
				t.Fatal(err)
			}
			err = conn.Invoke(t.Context(), test.call, test.req, &pb.ApplyResponse{})
			conn.Close()
			if got := told.until(t, regexp.MustCompile(test.want), before); test.want == "" && got != "" {
				t.Errorf("%v: want nothing told, got %s", err, got)
			}
			after := guard.access.count("handshake") + guard.access.count("unauthenticated") + guard.access.count("forbidden")
			if test.reason != "" && guard.access.count(test.reason) == 0 || (test.reason == "") != (after == counted) {
				t.Errorf("want %q counted, got %d refusals instead of %d", test.reason, after, counted)
			}
		})
	}
}

// TestRefusalsOverHTTPAreTold asks with a certificate that is not for the path, and without any.
func TestRefusalsOverHTTPAreTold(t *testing.T) {
	a := authority.New(t)
	guard := open(t, files(t, a, t.TempDir(), "coordinator", 2), "c")
	told, _ := tells(guard)
	address := serveEndpoint(t, guard)
	config, err := open(t, files(t, a, t.TempDir(), "reader", 3), "").clientConfig(Coordinator, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, code, err := askHTTPS(config, address, "/metrics"); code != 403 {
		t.Errorf("want 403, got %d, %v", code, err)
	}
	if _, _, err := askHTTPS(&tls.Config{RootCAs: config.RootCAs}, address, "/metrics"); err == nil {
		t.Error("got an answer without a certificate")
	}
	for _, want := range []string{`call="/metrics"`, `reason="tls: client didn't provide a certificate"`} {
		told.until(t, regexp.MustCompile(want), 0)
	}
	if guard.access.count("forbidden") != 1 || guard.access.count("handshake") != 1 {
		t.Errorf("want a refusal of each sort, got %d and %d", guard.access.count("forbidden"), guard.access.count("handshake"))
	}
}

// TestTheLogIsBounded refuses more calls within a second than the log has lines for, and changes objects meanwhile.
func TestTheLogIsBounded(t *testing.T) {
	guard := &Guard{}
	told, c := tells(guard)
	refuse := func() { guard.access.refuse("who", "x", "/y", status.Error(codes.PermissionDenied, "no")) }
	for range linesASecond + 5 {
		refuse()
	}
	guard.access.change("who", "x", pb.SchedulerService_Delete_FullMethodName, &pb.DeleteRequest{}, nil)
	if got := strings.Count(told.String(), "\n"); got != linesASecond+1 {
		t.Errorf("want %d lines and one of a change, got %d", linesASecond, got)
	}
	c.Step(time.Second)
	refuse()
	if want := fmt.Sprintf("leftOut=%d", 5); !strings.Contains(told.String(), want) {
		t.Errorf("a second later: want %s, got %s", want, told)
	}
	if got := guard.access.count("forbidden"); got != linesASecond+6 {
		t.Errorf("want all %d counted, got %d", linesASecond+6, got)
	}
}

// TestEveryPathHasAnEntry goes over the paths that are served.
func TestEveryPathHasAnEntry(t *testing.T) {
	for path := range (Endpoint{Gatherer: prometheus.NewRegistry(), Profiling: true}).handlers() {
		if Callers(path) == 0 {
			t.Errorf("%s: want roles that may ask for it, got none", path)
		}
	}
}

// buggy is a service whose calls panic.
type buggy struct {
	pb.UnimplementedSchedulerServiceServer
}

func (buggy) GetSummary(context.Context, *pb.GetSummaryRequest) (*pb.GetSummaryResponse, error) {
	panic("of a call")
}

func (buggy) Watch(_ *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	stream.Send(&pb.WatchResponse{})
	panic("of a stream")
}

func (buggy) GetLeader(context.Context, *pb.GetLeaderRequest) (*pb.GetLeaderResponse, error) {
	return &pb.GetLeaderResponse{IsSelf: true}, nil
}

// Without a metric the log tells of a bug, all the same.
func TestACallThatPanicsIsInTheLog(t *testing.T) {
	defer klog.CaptureState().Restore()
	told := &lines{written: make(chan struct{})}
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(told))))
	call := func() (err error) {
		defer (&Guard{}).access.met(t.Context(), "/a/Call", &err)
		panic("poison")
	}
	if err := call(); status.Code(err) != codes.Internal || !strings.Contains(told.String(), "panic: poison") {
		t.Errorf("got %v and the log %q, want INTERNAL and the panic", err, told)
	}
}

func TestACallThatPanicsEndsByItself(t *testing.T) {
	guard := &Guard{}
	told, _ := tells(guard)
	l, err := guard.Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(guard.ServerOptions()...)
	pb.RegisterSchedulerServiceServer(s, buggy{})
	conn := serveAndDial(t, s, l)
	client := pb.NewSchedulerServiceClient(conn)
	check := func(what string, err error, n int) {
		t.Helper()
		if status.Code(err) != codes.Internal {
			t.Errorf("%s that panics: got %v, want INTERNAL", what, err)
		}
		if got := guard.access.count(bug); got != n {
			t.Errorf("%s that panics: %d are counted, want %d", what, got, n)
		}
		told.until(t, regexp.MustCompile(`(?s)"A call met a bug" from="127.0.0.1:\d+" call="/shardsched.v1.SchedulerService/\w+" reason="panic: of a `+what+`" .*access_test.go`), 0)
	}
	_, err = client.GetSummary(t.Context(), &pb.GetSummaryRequest{})
	check("call", err, 1)
	watch, err := client.Watch(t.Context(), &pb.WatchRequest{})
	for err == nil {
		_, err = watch.Recv()
	}
	check("stream", err, 2)
	if answer, err := client.GetLeader(t.Context(), &pb.GetLeaderRequest{}); !answer.GetIsSelf() {
		t.Errorf("a call after these: got %v, %v, want an answer", answer, err)
	}
}
