package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// A connection lives this long: what its certificate said at the start holds no longer. Calls under
// way may end in the time after; a watch goes on over the next connection.
const (
	maxConnectionAge      = time.Hour
	maxConnectionAgeGrace = 5 * time.Minute
)

// Guard is mutual TLS at work in one process: the files as they are at the moment, and who a peer
// must be. Without TLS it guards nothing.
type Guard struct {
	pair    *rotating[*tls.Certificate] // nil: without TLS
	roots   *rotating[*x509.CertPool]
	names   dnsRoles
	cluster string
	age     time.Duration
}

// Open reads the files for a process of a cluster; an empty one is that of the own certificate.
func (t TLS) Open(cluster string) (*Guard, error) {
	if err := t.Validate(); err != nil || !t.Enabled() {
		return &Guard{}, err
	}
	g := &Guard{pair: rotatingPair(t.CertFile, t.KeyFile), roots: rotatingRoots("--tls-ca-file", t.CAFile), cluster: cluster, age: maxConnectionAge}
	g.names, _ = parseDNSRoles(t.DNSRoles) // Validate has read them
	if _, err := g.roots.get(); err != nil {
		return nil, err
	}
	_, err := g.pair.get()
	return g, err
}

func rotatingPair(certFile, keyFile string) *rotating[*tls.Certificate] {
	return &rotating[*tls.Certificate]{files: []string{certFile, keyFile}, read: func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
		}
		return &c, nil
	}}
}

func rotatingRoots(flag, file string) *rotating[*x509.CertPool] {
	return &rotating[*x509.CertPool]{files: []string{file}, read: func() (*x509.CertPool, error) {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s holds no certificate", flag, file)
		}
		return pool, nil
	}}
}

// Enabled tells whether there is TLS.
func (g *Guard) Enabled() bool { return g.pair != nil }

// Listen opens a TCP listener. Without TLS the address must be a loopback one.
func (g *Guard) Listen(flag, address string) (net.Listener, error) {
	if err := checkAddress(g.Enabled(), flag, address); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return l, nil
}

// RequireSelf refuses an own certificate by which peers would not take this process for what it is.
func (g *Guard) RequireSelf(role Role, id string) error {
	if !g.Enabled() {
		return nil
	}
	c, err := g.pair.get()
	if err == nil {
		err = g.require(c.Leaf, role, id)
	}
	if err != nil {
		return fmt.Errorf("--tls-cert-file: %w", err)
	}
	return nil
}

// require checks that a certificate is for a role, and for a worker's id.
func (g *Guard) require(c *x509.Certificate, role Role, id string) error {
	who, err := g.identify(c)
	switch {
	case err != nil:
		return err
	case who.Role&role == 0:
		return fmt.Errorf("%s: want the role %s", who, role)
	case !who.mayBe(id):
		return fmt.Errorf("%s: want a certificate for %s", who, id)
	}
	return nil
}

// identify is who holds a verified certificate. A cluster or a domain that is not this process's
// is an error.
func (g *Guard) identify(c *x509.Certificate) (Identity, error) {
	who, err := g.names.identityOf(c)
	if err != nil || who.Cluster == "" {
		return who, err
	}
	domain, cluster := "", g.cluster
	if own, err := g.pair.get(); err == nil {
		if self, err := g.names.identityOf(own.Leaf); err == nil {
			domain = self.Domain
			if cluster == "" {
				cluster = self.Cluster
			}
		}
	}
	if cluster != "" && who.Cluster != cluster {
		return who, fmt.Errorf("%s: this is the cluster %s", who, cluster)
	}
	if domain != "" && who.Domain != domain {
		return who, fmt.Errorf("%s: this is the domain %s", who, domain)
	}
	return who, nil
}

// serverConfig is nil without TLS. Files are read at each handshake, and sessions never resumed:
// that would skip the look at the client's certificate.
func (g *Guard) serverConfig() *tls.Config {
	if !g.Enabled() {
		return nil
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		SessionTicketsDisabled: true,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pair, err := g.pair.get()
			if err != nil {
				return nil, err
			}
			roots, err := g.roots.get()
			return &tls.Config{
				MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true, NextProtos: []string{"h2", "http/1.1"},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, Certificates: []tls.Certificate{*pair},
			}, err
		},
	}
}

// clientConfig is for one handshake. The server's name is checked against the address dialled, and
// it must be of the role, and a worker of that id.
func (g *Guard) clientConfig(role Role, id string) (*tls.Config, error) {
	pair, err := g.pair.get()
	if err != nil {
		return nil, err
	}
	roots, err := g.roots.get()
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{*pair},
		VerifyConnection: func(s tls.ConnectionState) error { return g.require(s.PeerCertificates[0], role, id) },
	}, err
}

// ClientCredentials are those of a gRPC client whose server must be of the role, and a worker of
// that id. They are insecure without TLS.
func (g *Guard) ClientCredentials(role Role, id string) credentials.TransportCredentials {
	if !g.Enabled() {
		return insecure.NewCredentials()
	}
	return NewClientCredentials(func() (*tls.Config, error) { return g.clientConfig(role, id) })
}

// ServerOptions are those of a gRPC server: it asks every caller for a certificate, and lets through
// whom Callers names. Without TLS there are none.
func (g *Guard) ServerOptions() []grpc.ServerOption {
	if !g.Enabled() {
		return nil
	}
	return []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(g.serverConfig())),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: time.Minute, Timeout: 20 * time.Second, MaxConnectionAge: g.age, MaxConnectionAgeGrace: maxConnectionAgeGrace,
		}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := g.allowCall(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := g.allowCall(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, stream)
		}),
	}
}

func (g *Guard) allowCall(ctx context.Context, method string) error {
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return status.Error(codes.Unauthenticated, "no TLS")
	}
	err := g.allow(&info.State, method)
	switch {
	case errors.Is(err, errForbidden):
		return status.Error(codes.PermissionDenied, err.Error())
	case err != nil:
		return status.Error(codes.Unauthenticated, err.Error())
	}
	return nil
}

// errForbidden means that somebody is known, and may not.
var errForbidden = errors.New("forbidden")

// allow tells whether the peer of a connection may make a call.
func (g *Guard) allow(s *tls.ConnectionState, call string) error {
	callers := Callers(call)
	if callers == Everybody {
		return nil
	}
	if s == nil || len(s.PeerCertificates) == 0 {
		return errors.New("no client certificate")
	}
	who, err := g.identify(s.PeerCertificates[0])
	if err != nil {
		return err
	}
	if who.Role&callers == 0 {
		return fmt.Errorf("%w: %s is for the roles %s, not for %s", errForbidden, call, callers, who.Role)
	}
	return nil
}

// handle serves a path to whom Callers names.
func (g *Guard) handle(path string, h http.Handler) http.Handler {
	if !g.Enabled() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := g.allow(r.TLS, path)
		switch {
		case errors.Is(err, errForbidden):
			http.Error(w, err.Error(), http.StatusForbidden)
		case err != nil:
			http.Error(w, err.Error(), http.StatusUnauthorized)
		default:
			h.ServeHTTP(w, r)
		}
	})
}
