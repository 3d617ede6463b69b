package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// PEM is its own certificate, for a file of trusted authorities.
	PEM []byte
}

// New makes an authority.
func New(t testing.TB) *Authority {
	a := &Authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	must(t, err)
	a.cert, err = x509.ParseCertificate(der)
	must(t, err)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
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
	key := newKey(a.t)
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
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must(a.t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	files := Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
	Replace(a.t, files.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	Replace(a.t, files.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
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

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
