package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Authority signs.
type Authority struct{ Pair }

// NewAuthority makes one that is good between two times.
func NewAuthority(subject pkix.Name, from, until time.Time) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: subject, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		NotBefore: from, NotAfter: until, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	made, err := sign(template, template, key, key)
	return &Authority{Pair{made, key}}, err
}

// Pair is a certificate with its key.
type Pair struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// Issue signs a certificate with a new key. Names, times, usages and, where there is one, the serial number are the template's.
func (a *Authority) Issue(template *x509.Certificate) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	of := *template
	of.KeyUsage, of.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
	made, err := sign(&of, a.Certificate, key, a.Key)
	return Pair{made, key}, err
}

// CertificatePEM is the certificate as a file holds it.
func (p Pair) CertificatePEM() []byte { return encode(p.Certificate) }

// KeyPEM is the key as a file holds it.
func (p Pair) KeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyutil.PrivateKeyBlockType, Bytes: der}), nil
}

func encode(all ...*x509.Certificate) (text []byte) {
	for _, c := range all {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw})...)
	}
	return text
}

// serialBits is as many as RFC 5280 lets a serial number have, less one so that it is positive.
const serialBits = 159

func sign(template, parent *x509.Certificate, key, signer crypto.Signer) (*x509.Certificate, error) {
	of := *template
	if of.SerialNumber == nil {
		n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
		if err != nil {
			return nil, err
		}
		of.SerialNumber = n.Add(n, big.NewInt(1))
	}
	der, err := x509.CreateCertificate(rand.Reader, &of, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }
