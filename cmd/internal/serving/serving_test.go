package serving

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	a.must(err)
	a.cert, err = x509.ParseCertificate(der)
	a.must(err)
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	return key
}

func (a *authority) write(name, kind string, der []byte) string {
	file := filepath.Join(a.dir, name)
	a.must(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

// issue writes a certificate for 127.0.0.1 under the given number.
func (a *authority) issue(serial int64) TLS {
	key := a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	a.must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	return TLS{
		CertFile: a.write("cert.pem", "CERTIFICATE", der),
		KeyFile:  a.write("key.pem", "PRIVATE KEY", keyDER),
		CAFile:   filepath.Join(a.dir, "ca.pem"),
	}
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
	if _, err := (TLS{CertFile: "/none", KeyFile: "/none", CAFile: "/none"}).ServerConfig(); err == nil {
		t.Error("got no error for files that do not exist")
	}
}

// TestMutualTLS serves HTTPS: a client of the authority gets an answer, one without
// a certificate gets none, and a rotated certificate is shown without a restart.
func TestMutualTLS(t *testing.T) {
	a := newAuthority(t)
	files := a.issue(2)
	l, err := files.Listen("http-listen", "127.0.0.1:0")
	a.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Endpoint{Gatherer: prometheus.NewRegistry()}.Serve(ctx, l, files) }()

	config, err := files.ClientConfig()
	a.must(err)
	ask := func(c *tls.Config) (*big.Int, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
		answer, err := client.Get("https://" + l.Addr().String() + "/healthz")
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		return answer.TLS.PeerCertificates[0].SerialNumber, nil
	}
	if got, err := ask(config); err != nil || got.Int64() != 2 {
		t.Errorf("got certificate %v, %v; want 2", got, err)
	}
	if _, err := ask(&tls.Config{RootCAs: config.RootCAs}); err == nil {
		t.Error("got an answer without a client certificate")
	}
	rotated := a.issue(3)
	later := time.Now().Add(time.Minute)
	a.must(os.Chtimes(rotated.CertFile, later, later))
	if got, err := ask(config); err != nil || got.Int64() != 3 {
		t.Errorf("after a rotation got certificate %v, %v; want 3", got, err)
	}
	a.must(os.WriteFile(rotated.CertFile, []byte("half"), 0o600))
	if got, err := ask(config); err != nil || got.Int64() != 3 {
		t.Errorf("amid a rotation got certificate %v, %v; want 3 still", got, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("got %v at the end, want none", err)
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
			test.endpoint.Handler().ServeHTTP(w, httptest.NewRequest("GET", test.path, nil))
			body, _ := io.ReadAll(w.Body)
			if w.Code != test.code || !strings.Contains(string(body), test.body) {
				t.Errorf("got %d %q, want %d with %q", w.Code, body, test.code, test.body)
			}
		})
	}
}

// TestCredentialsForGRPC calls a gRPC server with and without a certificate.
func TestCredentialsForGRPC(t *testing.T) {
	a := newAuthority(t)
	files := a.issue(2)
	server, err := files.ServerCredentials()
	a.must(err)
	client, err := files.ClientCredentials()
	a.must(err)
	l, err := files.Listen("listen", "127.0.0.1:0")
	a.must(err)
	s := grpc.NewServer(grpc.Creds(server))
	healthpb.RegisterHealthServer(s, health.NewServer())
	go s.Serve(l)
	t.Cleanup(s.Stop)
	ask := func(c credentials.TransportCredentials) error {
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(c))
		a.must(err)
		defer conn.Close()
		_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		return err
	}
	if err := ask(client); err != nil {
		t.Errorf("got %v with a certificate, want none", err)
	}
	plain, err := TLS{}.ClientCredentials()
	a.must(err)
	if err := ask(plain); err == nil {
		t.Error("got an answer without TLS")
	}
}
