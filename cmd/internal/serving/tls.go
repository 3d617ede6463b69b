package serving

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// TLS names the files of mutual TLS: all three, or none.
type TLS struct {
	CertFile, KeyFile, CAFile string
}

// AddFlags adds the three flags.
func (t *TLS) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.CertFile, "tls-cert-file", t.CertFile, "certificate (PEM) that this process shows to its peers")
	fs.StringVar(&t.KeyFile, "tls-private-key-file", t.KeyFile, "private key (PEM) of --tls-cert-file")
	fs.StringVar(&t.CAFile, "tls-ca-file", t.CAFile, "certificates (PEM) of the authority that peers' certificates must be signed by")
}

// Enabled tells whether TLS is asked for.
func (t TLS) Enabled() bool { return t != TLS{} }

// Validate refuses a part without the others.
func (t TLS) Validate() error {
	if !t.Enabled() || (t.CertFile != "" && t.KeyFile != "" && t.CAFile != "") {
		return nil
	}
	return errors.New("--tls-cert-file, --tls-private-key-file and --tls-ca-file go together: mutual TLS needs all three")
}

// ServerCredentials are those of a gRPC server, insecure without TLS.
func (t TLS) ServerCredentials() (credentials.TransportCredentials, error) {
	c, err := t.ServerConfig()
	if err != nil || c == nil {
		return insecure.NewCredentials(), err
	}
	return credentials.NewTLS(c), nil
}

// ClientCredentials are those of a gRPC client, insecure without TLS.
func (t TLS) ClientCredentials() (credentials.TransportCredentials, error) {
	c, err := t.ClientConfig()
	if err != nil || c == nil {
		return insecure.NewCredentials(), err
	}
	return credentials.NewTLS(c), nil
}

// ServerConfig is nil without TLS.
func (t TLS) ServerConfig() (*tls.Config, error) {
	pair, err := t.load()
	if err != nil || pair == nil {
		return nil, err
	}
	roots, err := t.roots()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  roots,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return pair.certificate()
		},
	}, nil
}

// ClientConfig is nil without TLS. The server's name is checked against the
// address dialled.
func (t TLS) ClientConfig() (*tls.Config, error) {
	pair, err := t.load()
	if err != nil || pair == nil {
		return nil, err
	}
	roots, err := t.roots()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return pair.certificate()
		},
	}, nil
}

func (t TLS) load() (*keyPair, error) {
	if err := t.Validate(); err != nil || !t.Enabled() {
		return nil, err
	}
	pair := &keyPair{certFile: t.CertFile, keyFile: t.KeyFile}
	if _, err := pair.certificate(); err != nil {
		return nil, err
	}
	return pair, nil
}

func (t TLS) roots() (*x509.CertPool, error) {
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca-file: %s holds no certificate", t.CAFile)
	}
	return pool, nil
}

// Listen opens a TCP listener. Without TLS the address must be a loopback one.
func (t TLS) Listen(flag, address string) (net.Listener, error) {
	if err := t.CheckAddress(flag, address); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return l, nil
}

// CheckAddress refuses, without TLS, an address that other machines reach.
func (t TLS) CheckAddress(flag, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--%s: %q is not HOST:PORT: %w", flag, address, err)
	}
	if t.Enabled() || loopback(host) {
		return nil
	}
	return fmt.Errorf("--%s: %s can be reached from other machines, which needs mutual TLS: give --tls-cert-file, --tls-private-key-file and --tls-ca-file, or listen on 127.0.0.1",
		flag, address)
}

// loopback holds for names too: "localhost" is the only one that can't be
// pointed elsewhere.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
