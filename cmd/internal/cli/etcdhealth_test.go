package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
)

// text is an error's, "" for nil.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestEtcdHealthTellsOfChanges plays answers and silence and holds what the log and
// /readyz say.
func TestEtcdHealthTellsOfChanges(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	log := logger.GetSink().(ktesting.Underlier).GetBuffer()
	clk := clocktesting.NewFakeClock(time.Now())
	var answer, cause error
	h := &etcdHealth{
		read:  func(context.Context) error { return answer },
		probe: func(context.Context) error { return cause },
		lease: 15 * time.Second, clock: clk,
	}
	if got, want := text(h.ready()), "etcd has not answered yet"; got != want {
		t.Errorf("before the first check: ready %q, want %q", got, want)
	}
	logged := 0
	for _, step := range []struct {
		name          string
		after         time.Duration
		answer, cause error
		ready, log    string // log: what is new, in part
	}{
		{"silent from the start", 0, context.DeadlineExceeded, errors.New("refused"), "etcd is not reachable: refused", `etcd is not reachable err="refused"`},
		{"silent again", 3 * time.Second, context.DeadlineExceeded, errors.New("refused"), "etcd is not reachable: refused", ""},
		{"answers", 3 * time.Second, nil, nil, "", "etcd is reachable again"},
		{"answers on", 3 * time.Second, nil, nil, "", ""},
		{"silent for less than the lease", 3 * time.Second, status.Error(codes.Unavailable, "gone"), nil, "", `etcd is not reachable err="rpc error: code = Unavailable desc = gone"`},
		{"silent for longer than the lease", 13 * time.Second, context.DeadlineExceeded, nil,
			"etcd is not reachable: it takes connections, but gave no answer in 3s: context deadline exceeded", ""},
		{"back", time.Second, nil, nil, "", "etcd is reachable again"},
		{"refuses", 20 * time.Second, errors.New("permission denied"), errors.New("not asked"), "etcd is not reachable: permission denied", `err="permission denied"`},
	} {
		clk.Step(step.after)
		answer, cause = step.answer, step.cause
		h.check(ctx)
		if got := text(h.ready()); got != step.ready {
			t.Errorf("%s: ready %q, want %q", step.name, got, step.ready)
		}
		added := log.String()[logged:]
		logged += len(added)
		if (step.log == "") != (added == "") || !strings.Contains(added, step.log) {
			t.Errorf("%s: logged %q, want %q", step.name, added, step.log)
		}
	}
}

// TestEtcdHealthAsksEtcd holds the read and the probe against an etcd that lives and then
// does not.
func TestEtcdHealthAsksEtcd(t *testing.T) {
	server, err := embedetcd.Start(t.Context(), embedetcd.Config{DataDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c, err := Etcd{Endpoints: []string{server.Endpoint()}}.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := newEtcdHealth(c, Etcd{}, "blue", 0)
	h.check(t.Context())
	if err := h.ready(); err != nil {
		t.Errorf("etcd lives: got %v, want ready", err)
	}
	if err := h.probe(t.Context()); err != nil {
		t.Errorf("etcd lives: the probe got %v, want nil", err)
	}
	server.Close()
	h.check(t.Context())
	if got := text(h.ready()); !strings.Contains(got, "connection refused") {
		t.Errorf("etcd is gone: ready %q, want connection refused", got)
	}
}

// TestProbeNamesTheCause dials servers in ways that can not work, and in ways that can.
func TestProbeNamesTheCause(t *testing.T) {
	quiet := func() *httptest.Server {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.EnableHTTP2 = true
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		return s
	}
	plain, secure, mutual, gone := quiet(), quiet(), quiet(), quiet()
	plain.Start()
	secure.StartTLS()
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	mutual.StartTLS()
	gone.Start()
	gone.Close()
	for _, s := range []*httptest.Server{plain, secure, mutual} {
		defer s.Close()
	}
	trusting := func(s *httptest.Server) *tls.Config {
		pool := x509.NewCertPool()
		pool.AddCert(s.Certificate())
		return &tls.Config{RootCAs: pool}
	}
	for _, x := range []struct {
		name      string
		endpoints []string
		config    *tls.Config
		want      string // in part; "": no error
	}{
		{"plain", []string{plain.URL}, nil, ""},
		{"host and port", []string{plain.Listener.Addr().String()}, nil, ""},
		{"TLS", []string{secure.URL}, trusting(secure), ""},
		{"one of two", []string{gone.URL, plain.URL}, nil, ""},
		{"refused", []string{gone.URL}, nil, gone.URL + ": dial tcp " + gone.Listener.Addr().String() + ": connect: connection refused"},
		{"another authority", []string{secure.URL}, &tls.Config{RootCAs: x509.NewCertPool()}, "its certificate is not trusted: tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"no client certificate", []string{mutual.URL}, trusting(mutual), "it refuses this client's certificate or TLS: remote error: tls: certificate required"},
		{"http at TLS", []string{"http://" + secure.Listener.Addr().String()}, trusting(secure), "it serves TLS, but is asked without"},
		{"https at plain", []string{"https://" + plain.Listener.Addr().String()}, nil, "no TLS handshake (does it serve plain http?)"},
	} {
		got := text(probeEndpoints(t.Context(), x.endpoints, x.config))
		if (x.want == "") != (got == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: got %q, want %q", x.name, got, x.want)
		}
	}
}
