package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/shardsched/shardsched/cmd/internal/serving/authority"
)

// collector takes spans until the test ends, and tells what certificate came with each batch, empty without one.
func collector(t *testing.T, c credentials.TransportCredentials) (address string, batches <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 16)
	s := grpc.NewServer(grpc.Creds(c), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		p, _ := peer.FromContext(stream.Context())
		name := ""
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			name = info.State.PeerCertificates[0].Subject.CommonName
		}
		got <- name
		return stream.SendMsg(&emptypb.Empty{})
	}))
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String(), got
}

// sendSpan has a worker make one span and end.
func sendSpan(t *testing.T, c Config) error {
	t.Helper()
	c.Enabled = true
	p, stop, err := c.Worker(t.Context(), Service{Name: "w"}, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	_, span := p.Tracer("t").Start(t.Context(), "a")
	span.End()
	stop()
	return nil
}

// TestSpansAreSentOverTLS has collectors that take TLS with a client's certificate only, and plain gRPC only.
func TestSpansAreSentOverTLS(t *testing.T) {
	a := authority.New(t)
	files := a.Issue(t.TempDir(), authority.Subject{CommonName: "spans"})
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM)
	secure, overTLS := collector(t, credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert}))
	plain, inPlain := collector(t, insecure.NewCredentials())
	own := map[string]string{"CERTIFICATE": files.CA, "CLIENT_CERTIFICATE": files.Cert, "CLIENT_KEY": files.Key}
	with := func(name, value string) map[string]string {
		m := map[string]string{name: value}
		for k, v := range own {
			m[k] = v
		}
		return m
	}
	for _, test := range []struct {
		name      string
		endpoint  string
		variables map[string]string
		batches   <-chan string
		want      string
	}{
		{"the endpoint of a flag", secure, own, overTLS, "spans"},
		{"a URL of the environment", "", with("ENDPOINT", "https://"+secure), overTLS, "spans"},
		{"the variables of traces", secure, map[string]string{
			"TRACES_CERTIFICATE": files.CA, "TRACES_CLIENT_CERTIFICATE": files.Cert, "TRACES_CLIENT_KEY": files.Key}, overTLS, "spans"},
		{"nothing said", plain, nil, inPlain, ""},
		{"a plain URL of the environment", "", map[string]string{"ENDPOINT": "http://" + plain}, inPlain, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.variables {
				t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			}
			if err := sendSpan(t, Config{Endpoint: test.endpoint}); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-test.batches:
				if got != test.want {
					t.Errorf("want a certificate of %q, got %q", test.want, got)
				}
			default:
				t.Error("want spans at the collector, got none")
			}
		})
	}
}

// TestASecureCollectorIsNotSentPlainSpans holds that the scheme of a URL counts where it is the system's authorities that sign.
func TestASecureCollectorIsNotSentPlainSpans(t *testing.T) {
	plain, batches := collector(t, insecure.NewCredentials())
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://"+plain)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
	if err := sendSpan(t, Config{}); err != nil {
		t.Fatal(err)
	}
	if len(batches) > 0 {
		t.Error("got spans without TLS")
	}
}

func TestFilesForSpansMustBeThere(t *testing.T) {
	for _, name := range []string{"CERTIFICATE", "TRACES_CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_"+name, "/none")
			if err := sendSpan(t, Config{Endpoint: "127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "tracing: OTEL_EXPORTER_OTLP_C") {
				t.Errorf("want an error, got %v", err)
			}
		})
	}
}
