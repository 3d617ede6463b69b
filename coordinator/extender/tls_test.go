package extender_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/extender"
)

// pair is a certificate and its key.
type pair struct{ cert, key []byte }

// issue makes a certificate for a name, signed by an authority; nil: by itself.
func issue(t *testing.T, name string, by *pair) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), BasicConstraintsValid: true, IsCA: by == nil,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := made, any(key)
	if by != nil {
		c, err := tls.X509KeyPair(by.cert, by.key)
		if err != nil {
			t.Fatal(err)
		}
		parent, signer = c.Leaf, c.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, made, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})}
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// secure serves over TLS to whom the authority has certified.
func secure(t *testing.T, authority pair, name string) string {
	t.Helper()
	own := issue(t, name, &authority)
	cert, err := tls.X509KeyPair(own.cert, own.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.cert)
	s := httptest.NewUnstartedServer(text(`{"NodeNames":["a"]}`))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestTLS(t *testing.T) {
	authority := issue(t, "authority", nil)
	mine := issue(t, "client", &authority)
	url := secure(t, authority, "extender.example.com")
	files := configv1.ExtenderTLSConfig{
		ServerName: "extender.example.com", CAFile: file(t, authority.cert), CertFile: file(t, mine.cert), KeyFile: file(t, mine.key),
	}
	data := configv1.ExtenderTLSConfig{ServerName: "extender.example.com", CAData: authority.cert, CertData: mine.cert, KeyData: mine.key}
	change := func(f func(*configv1.ExtenderTLSConfig)) *configv1.ExtenderTLSConfig {
		c := data
		f(&c)
		return &c
	}
	for _, c := range []struct {
		name  string
		tls   *configv1.ExtenderTLSConfig
		https bool
		err   string // of the call
		made  string // of making the client
	}{
		{name: "files", tls: &files},
		{name: "data", tls: &data, https: true},
		{name: "data before files", tls: change(func(c *configv1.ExtenderTLSConfig) { c.CAFile, c.CertFile, c.KeyFile = "/none", "/none", "/none" })},
		{name: "another name", tls: change(func(c *configv1.ExtenderTLSConfig) { c.ServerName = "" }), err: "certificate"},
		{name: "no authority", tls: change(func(c *configv1.ExtenderTLSConfig) { c.CAData = nil }), err: "unknown authority"},
		{name: "no authority, but enableHTTPS", tls: change(func(c *configv1.ExtenderTLSConfig) { c.CAData = nil }), https: true},
		{name: "insecure", tls: change(func(c *configv1.ExtenderTLSConfig) { c.CAData, c.Insecure = nil, true })},
		{name: "no certificate of one's own", tls: &configv1.ExtenderTLSConfig{Insecure: true}, err: "certificate required"},
		{name: "insecure, and an authority", tls: change(func(c *configv1.ExtenderTLSConfig) { c.Insecure = true }), made: "specifying a root certificates file with the insecure flag is not allowed"},
		{name: "no such file", tls: change(func(c *configv1.ExtenderTLSConfig) { c.CAData, c.CAFile = nil, "/none" }), made: "no such file"},
		{name: "a key that is none", tls: change(func(c *configv1.ExtenderTLSConfig) { c.KeyData = []byte("x") }), made: "tls: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := everything(url)
			x.TLSConfig, x.EnableHTTPS = c.tls, c.https
			e, err := extender.New(&x, extender.Options{})
			if c.made != "" || err != nil {
				if c.made == "" || err == nil || !strings.Contains(err.Error(), c.made) {
					t.Fatalf("client is made with %v, want %q", err, c.made)
				}
				return
			}
			f, err := e.FilterNodes(t.Context(), pod("p"), nodes("a"))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error is %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || len(f.Kept) != 1 {
				t.Errorf("filter is %v (%v), want a kept", f, err)
			}
		})
	}
}

func TestHugeAnswerIsRefused(t *testing.T) {
	s := serve(t, text(`{"Error":"`+string(bytes.Repeat([]byte("x"), 65<<20))+`"}`))
	_, err := client(t, everything(s.URL)).FilterNodes(t.Context(), pod("p"), nodes("a"))
	if err == nil || !strings.Contains(err.Error(), "answer of extender at URL "+s.URL+"/f is larger than ") {
		t.Errorf("error is %.200v, want one about its size", err)
	}
}
