package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/shardsched/shardsched/cmd/internal/serving/authority"
)

// files issues a certificate of the cluster c for a role, with the path of a name where there is one.
func files(t *testing.T, a *authority.Authority, dir, path string, serial int64) TLS {
	t.Helper()
	f := a.Issue(dir, authority.Subject{Serial: serial, CommonName: path, URIs: []string{"spiffe://example.org/shardsched/c/" + path}})
	return TLS{CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA}
}

func open(t *testing.T, files TLS, cluster string) *Guard {
	t.Helper()
	g, err := files.Open(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestWithoutTLSOnlyLoopback(t *testing.T) {
	for address, allowed := range map[string]bool{
		"127.0.0.1:0": true, "localhost:1": true, "[::1]:0": true, "127.8.8.8:1": true,
		":7450": false, "0.0.0.0:1": false, "10.0.0.1:1": false, "[::]:1": false, "example.com:1": false,
	} {
		err := TLS{}.CheckAddress("listen", address)
		if (err == nil) != allowed {
			t.Errorf("%s: got %v, want allowed %v", address, err, allowed)
		}
		if err != nil && !strings.Contains(err.Error(), "--tls-cert-file") {
			t.Errorf("%s: got %v, want a word about the flags that help", address, err)
		}
	}
	if err := (TLS{}).CheckAddress("listen", "nonsense"); err == nil || !strings.Contains(err.Error(), "HOST:PORT") {
		t.Errorf("got %v, want a word about HOST:PORT", err)
	}
}

func TestFilesGoTogether(t *testing.T) {
	if err := (TLS{CertFile: "a", KeyFile: "b"}).Validate(); err == nil {
		t.Error("got no error for a certificate without an authority")
	}
	if _, err := (TLS{CertFile: "/none", KeyFile: "/none", CAFile: "/none"}).Open("c"); err == nil {
		t.Error("got no error for files that do not exist")
	}
}

// serveEndpoint serves HTTPS until the test ends, and returns its address.
func serveEndpoint(t *testing.T, g *Guard) string {
	t.Helper()
	l, err := g.Listen("http-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Endpoint{Gatherer: prometheus.NewRegistry()}.Serve(ctx, l, g) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("got %v at the end, want none", err)
		}
	})
	return l.Addr().String()
}

// askHTTPS asks over a new connection, and returns the server's certificate and the answer's code.
func askHTTPS(c *tls.Config, address, path string) (serial int64, code int, err error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
	answer, err := client.Get("https://" + address + path)
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	return answer.TLS.PeerCertificates[0].SerialNumber.Int64(), answer.StatusCode, nil
}

// TestMutualTLS serves HTTPS: a client of the authority gets an answer, one without
// a certificate gets none, and a rotated certificate is shown without a restart.
func TestMutualTLS(t *testing.T) {
	a, dir := authority.New(t), t.TempDir()
	server := files(t, a, dir, "coordinator", 2)
	address := serveEndpoint(t, open(t, server, "c"))
	client := open(t, files(t, a, t.TempDir(), "reader", 9), "")
	config, err := client.clientConfig(Coordinator, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := askHTTPS(config, address, "/healthz"); err != nil || got != 2 {
		t.Errorf("got certificate %v, %v; want 2", got, err)
	}
	if _, _, err := askHTTPS(&tls.Config{RootCAs: config.RootCAs}, address, "/healthz"); err == nil {
		t.Error("got an answer without a client certificate")
	}
	files(t, a, dir, "coordinator", 3)
	if got, _, err := askHTTPS(config, address, "/healthz"); err != nil || got != 3 {
		t.Errorf("after a rotation got certificate %v, %v; want 3", got, err)
	}
	authority.Replace(t, server.CertFile, []byte("half"))
	if got, _, err := askHTTPS(config, address, "/healthz"); err != nil || got != 3 {
		t.Errorf("amid a rotation got certificate %v, %v; want 3 still", got, err)
	}
}

func TestEndpoint(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "shardsched_test_total"}))
	tests := []struct {
		name     string
		endpoint Endpoint
		path     string
		code     int
		body     string
	}{
		{"metrics", Endpoint{}, "/metrics", 200, "shardsched_test_total 0"},
		{"healthy", Endpoint{}, "/healthz", 200, "ok"},
		{"live", Endpoint{}, "/livez", 200, "ok"},
		{"not ready", Endpoint{Ready: func() error { return errors.New("catching up") }}, "/readyz", 503, "catching up"},
		{"ready", Endpoint{Ready: func() error { return nil }}, "/readyz", 200, "ok"},
		{"no profiles", Endpoint{}, "/debug/pprof/", 404, ""},
		{"profiles", Endpoint{Profiling: true}, "/debug/pprof/", 200, "goroutine"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.endpoint.Gatherer = registry
			w := httptest.NewRecorder()
			test.endpoint.Handler(&Guard{}).ServeHTTP(w, httptest.NewRequest("GET", test.path, nil))
			body, _ := io.ReadAll(w.Body)
			if w.Code != test.code || !strings.Contains(string(body), test.body) {
				t.Errorf("got %d %q, want %d with %q", w.Code, body, test.code, test.body)
			}
		})
	}
}

// serveHealth serves gRPC until the test ends, and returns its address.
func serveHealth(t *testing.T, g *Guard) string {
	t.Helper()
	l, err := g.Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(g.ServerOptions()...)
	healthpb.RegisterHealthServer(s, health.NewServer())
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// askHealth asks over a new connection.
func askHealth(t *testing.T, c credentials.TransportCredentials, address string) error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	return err
}

// TestTheServerMustBeWhoItIsAskedFor dials servers with certificates of one authority, for one address.
func TestTheServerMustBeWhoItIsAskedFor(t *testing.T) {
	a := authority.New(t)
	client := open(t, files(t, a, t.TempDir(), "coordinator", 2), "c")
	for _, test := range []struct {
		path string
		role Role
		id   string
		want string // in the error; empty: none
	}{
		{"worker", Worker, "w1", ""},
		{"worker/w1", Worker, "w1", ""},
		{"worker/w1", Worker, "w1_a0b1", ""},
		{"worker/w1", Worker, "w12", "want a certificate for w12"},
		{"worker/w1", Worker, "w2", "want a certificate for w2"},
		{"worker", Coordinator, "", "want the role coordinator"},
		{"coordinator", Worker, "w1", "want the role worker"},
		{"coordinator/host", Coordinator, "", ""},
		{"../d/worker", Worker, "w1", "is not spiffe://"},
	} {
		server := open(t, files(t, a, t.TempDir(), test.path, 3), "c")
		err := askHealth(t, client.ClientCredentials(test.role, test.id), serveHealth(t, server))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s dialled as %s %s: want error %q, got %v", test.path, test.role, test.id, test.want, err)
		}
	}
	server := serveHealth(t, open(t, files(t, a, t.TempDir(), "worker", 3), "c"))
	if err := askHealth(t, new(Guard).ClientCredentials(Worker, ""), server); err == nil {
		t.Error("got an answer without TLS")
	}
}
