package authority

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardsched/shardsched/cmd/internal/certs"
)

// Authority signs.
type Authority struct {
	t     testing.TB
	signs *certs.Authority
	// PEM is its own certificate, for a file of trusted authorities.
	PEM []byte
}

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	signs, err := certs.NewAuthority(pkix.Name{CommonName: "test authority"}, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	must(t, err)
	return &Authority{t, signs, signs.CertificatePEM()}
}

// Subject is what a certificate says of its holder.
type Subject struct {
	Serial     int64
	CommonName string
	// URIs and DNS are names, beside the address 127.0.0.1.
	URIs, DNS []string
}

// Files are where a certificate, its key and the authority's certificate are.
type Files struct{ Cert, Key, CA string }

// Issue writes a certificate for 127.0.0.1 with its key, and the authority's, into a folder. Those
// that are there already are replaced by others of a later time.
func (a *Authority) Issue(dir string, s Subject) Files {
	a.t.Helper()
	files := a.IssueLeaf(dir, s)
	Replace(a.t, files.CA, a.PEM)
	return files
}

// IssueLeaf is Issue without the authority's certificate.
func (a *Authority) IssueLeaf(dir string, s Subject) Files {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(max(s.Serial, 2)), Subject: pkix.Name{CommonName: s.CommonName},
		DNSNames: s.DNS, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, text := range s.URIs {
		u, err := url.Parse(text)
		must(a.t, err)
		template.URIs = append(template.URIs, u)
	}
	pair, err := a.signs.Issue(template)
	must(a.t, err)
	key, err := pair.KeyPEM()
	must(a.t, err)
	files := Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
	Replace(a.t, files.Key, key)
	Replace(a.t, files.Cert, pair.CertificatePEM())
	return files
}

// Replace writes a file. Its time is later than that of the one before, however fast they follow
// each other.
func Replace(t testing.TB, file string, text []byte) {
	t.Helper()
	before, err := os.Stat(file)
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must(t, os.WriteFile(file, text, 0o600))
	if err == nil {
		later := before.ModTime().Add(time.Second)
		must(t, os.Chtimes(file, later, later))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
