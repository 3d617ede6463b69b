package serving

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/util/cert"
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
	pair    *rotating[*tls.Certificate] // nil: this process shows none
	roots   *rotating[roots]            // nil: without TLS
	names   dnsRoles
	cluster string
	age     time.Duration
	tokens  Tokens  // nil: callers need a certificate
	access  *access // nil: nobody is told of calls
}

// Open reads the files for a process of a cluster; an empty one is that of the own certificate.
func (t TLS) Open(cluster string) (*Guard, error) {
	if err := t.Validate(); err != nil || !t.Enabled() {
		return &Guard{}, err
	}
	g, err := t.openRoots(cluster)
	if err != nil {
		return nil, err
	}
	g.pair = rotatingPair("--tls-cert-file, --tls-private-key-file", t.CertFile, t.KeyFile)
	_, err = g.pair.get()
	return g, err
}

func (t TLS) openRoots(cluster string) (*Guard, error) {
	g := &Guard{roots: rotatingRoots("--tls-ca-file", t.CAFile), cluster: cluster, age: cmp.Or(t.ConnectionAge, maxConnectionAge)}
	g.names, _ = parseDNSRoles(t.DNSRoles) // Validate has read them
	_, err := g.roots.get()
	return g, err
}

func rotatingPair(flags, certFile, keyFile string) *rotating[*tls.Certificate] {
	return &rotating[*tls.Certificate]{files: []string{certFile, keyFile}, read: func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flags, err)
		}
		return &c, nil
	}}
}

// roots are authorities that are trusted.
type roots struct {
	pool *x509.CertPool
	all  []*x509.Certificate
}

func rotatingRoots(flag, file string) *rotating[roots] {
	return &rotating[roots]{files: []string{file}, read: func() (roots, error) {
		pem, err := os.ReadFile(file)
		if err != nil {
			return roots{}, fmt.Errorf("%s: %w", flag, err)
		}
		all, err := cert.ParseCertsPEM(pem)
		if err != nil {
			return roots{}, fmt.Errorf("%s: %s: want certificates (PEM): %w", flag, file, err)
		}
		pool := x509.NewCertPool()
		for _, c := range all {
			pool.AddCert(c)
		}
		return roots{pool, all}, nil
	}}
}

// Enabled tells whether there is TLS.
func (g *Guard) Enabled() bool { return g.roots != nil }

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
	if own := g.own(); own != nil {
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

// own is the certificate that this process shows, nil without one.
func (g *Guard) own() *tls.Certificate {
	if g.pair == nil {
		return nil
	}
	c, _ := g.pair.get()
	return c
}

// serverConfig is nil without TLS. Files are read at each handshake, and sessions never resumed:
// that would skip the look at the client's certificate.
func (g *Guard) serverConfig() *tls.Config {
	if !g.Enabled() {
		return nil
	}
	asked := tls.RequireAndVerifyClientCert
	if g.tokens != nil {
		asked = tls.VerifyClientCertIfGiven
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		SessionTicketsDisabled: true,
		ClientAuth:             asked,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pair, err := g.pair.get()
			if err != nil {
				return nil, err
			}
			trusted, err := g.roots.get()
			return &tls.Config{
				MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true, NextProtos: []string{"h2", "http/1.1"},
				ClientAuth: asked, ClientCAs: trusted.pool, Certificates: []tls.Certificate{*pair},
			}, err
		},
	}
}

// clientConfig is for one handshake. The server's name is checked against the address dialled, and
// it must be of the role, and a worker of that id.
func (g *Guard) clientConfig(role Role, id string) (*tls.Config, error) {
	trusted, err := g.roots.get()
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: trusted.pool,
		VerifyConnection: func(s tls.ConnectionState) error { return g.require(s.PeerCertificates[0], role, id) },
	}
	if err != nil || g.pair == nil {
		return c, err
	}
	pair, err := g.pair.get()
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{*pair}
	return c, nil
}

// ClientCredentials are those of a gRPC client whose server must be of the role, and a worker of
// that id. They are insecure without TLS.
func (g *Guard) ClientCredentials(role Role, id string) credentials.TransportCredentials {
	if !g.Enabled() {
		return insecure.NewCredentials()
	}
	return NewClientCredentials(func() (*tls.Config, error) { return g.clientConfig(role, id) })
}

// handle serves a path to the callers that Callers names.
func (g *Guard) handle(path string, h http.Handler) http.Handler {
	if !g.Enabled() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.allow(r.Context(), r.TLS, "", path)
		if err != nil {
			g.access.refuse(who, r.RemoteAddr, path, err)
		}
		switch status.Code(err) {
		case codes.OK:
			h.ServeHTTP(w, r)
		case codes.PermissionDenied:
			http.Error(w, status.Convert(err).Message(), http.StatusForbidden)
		default:
			http.Error(w, status.Convert(err).Message(), http.StatusUnauthorized)
		}
	})
}
