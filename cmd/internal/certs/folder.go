package certs

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// skew is how far behind a peer's clock may be.
const skew = 5 * time.Minute

const (
	caCert, caKey     = "ca.crt", "ca.key"
	leafCert, leafKey = "tls.crt", "tls.key"
)

// Folder is where an authority and its certificates are.
type Folder struct {
	Dir string
	// Now is the time at which certificates begin.
	Now time.Time
	// Validity is how long a certificate is good, CAValidity an authority.
	Validity, CAValidity time.Duration
}

// Entry is a certificate of a folder.
type Entry struct {
	Use         string
	Certificate *x509.Certificate
	// Made: it was not there before.
	Made bool
}

// Create makes what is missing of an authority and of certificates for the uses, and leaves what is there as it is.
func (f Folder) Create(subject pkix.Name, uses []Use) ([]Entry, error) {
	if err := f.checkTimes(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return nil, err
	}
	if !exists(f.path(caKey)) && !exists(f.path(caCert)) {
		if err := f.newAuthority(subject); err != nil {
			return nil, err
		}
	}
	a, trusted, err := f.authority()
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, use := range uses {
		e := Entry{Use: use.Name}
		if exists(f.path(use.Name, leafKey)) || exists(f.path(use.Name, leafCert)) {
			e.Certificate, err = f.leaf(use.Name)
		} else {
			e.Made = true
			e.Certificate, err = f.issue(a, trusted, use)
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Renew replaces certificates and their keys, those of all uses where none is named; their names stay.
func (f Folder) Renew(uses ...string) ([]Entry, error) {
	if err := f.checkTimes(); err != nil {
		return nil, err
	}
	a, trusted, err := f.authority()
	if err != nil {
		return nil, err
	}
	if len(uses) == 0 {
		if uses, err = f.uses(); err != nil {
			return nil, err
		}
	}
	var entries []Entry
	for _, name := range uses {
		before, err := f.leaf(name)
		if err != nil {
			return nil, err
		}
		made, err := f.issue(a, trusted, Use{name, x509.Certificate{
			Subject: before.Subject, URIs: before.URIs, DNSNames: before.DNSNames, IPAddresses: before.IPAddresses,
			ExtKeyUsage: before.ExtKeyUsage,
		}})
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{name, made, true})
	}
	return entries, nil
}

// Rotate makes another authority, which signs from now on. The one before stays trusted, and its key is replaced.
func (f Folder) Rotate() error {
	if err := f.checkTimes(); err != nil {
		return err
	}
	before, trusted, err := f.authority()
	if err != nil {
		return err
	}
	if len(trusted) > 1 {
		return fmt.Errorf("%s holds %d certificates, want one: a rotation is under way, which ends with retire-ca", f.path(caCert), len(trusted))
	}
	return f.newAuthority(before.Certificate.Subject, trusted...)
}

// Retire takes all authorities out of what is trusted, but for the one that signs. One that has signed a certificate of the folder
// can not go.
func (f Folder) Retire() error {
	a, trusted, err := f.authority()
	if err != nil {
		return err
	}
	if len(trusted) == 1 {
		return fmt.Errorf("%s holds one certificate, want two: rotate-ca begins a rotation", f.path(caCert))
	}
	all, err := f.List()
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := e.Certificate.CheckSignatureFrom(a.Certificate); err != nil {
			return fmt.Errorf("%s is signed by the authority that would go: renew it first", f.path(e.Use, leafCert))
		}
	}
	return f.trust([]*x509.Certificate{a.Certificate})
}

// List has the certificates of all uses, by name.
func (f Folder) List() ([]Entry, error) {
	uses, err := f.uses()
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, name := range uses {
		c, err := f.leaf(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Use: name, Certificate: c})
	}
	return entries, nil
}

// Trusted are the authorities, the one that signs first.
func (f Folder) Trusted() ([]*x509.Certificate, error) {
	_, trusted, err := f.authority()
	return trusted, err
}

func (f Folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.Dir}, parts...)...)
}

func (f Folder) checkTimes() error {
	if f.Validity <= 0 || f.CAValidity < f.Validity {
		return fmt.Errorf("a certificate of %s signed by an authority of %s: want both above 0, and the authority's not shorter", f.Validity,
			f.CAValidity)
	}
	return nil
}

// newAuthority writes one that trusts others, too. The certificate comes first: until the key is there, the one before signs.
func (f Folder) newAuthority(subject pkix.Name, others ...*x509.Certificate) error {
	a, err := NewAuthority(subject, f.Now.Add(-skew), f.Now.Add(f.CAValidity))
	if err != nil {
		return err
	}
	text, err := keyPEM(a.Key)
	if err != nil {
		return err
	}
	if err := f.trust(append([]*x509.Certificate{a.Certificate}, others...)); err != nil {
		return err
	}
	return replace(f.path(caKey), text, 0o600)
}

// trust writes the authorities beside each certificate, and last where they are read from.
func (f Folder) trust(trusted []*x509.Certificate) error {
	uses, err := f.uses()
	if err != nil {
		return err
	}
	text := encode(trusted...)
	for _, use := range uses {
		if err := replace(f.path(use, caCert), text, 0o644); err != nil {
			return err
		}
	}
	return replace(f.path(caCert), text, 0o644)
}

// authority reads the one that signs, and all that are trusted, that one first.
func (f Folder) authority() (*Authority, []*x509.Certificate, error) {
	trusted, err := readCertificates(f.path(caCert))
	if err != nil {
		return nil, nil, err
	}
	key, err := readKey(f.path(caKey))
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(trusted, func(c *x509.Certificate) bool { return belongs(c, key) })
	if i < 0 {
		return nil, nil, fmt.Errorf("%s: want the key of a certificate of %s, got another", f.path(caKey), f.path(caCert))
	}
	signs := trusted[i]
	if !signs.IsCA {
		return nil, nil, fmt.Errorf("%s: want an authority's certificate, got %s, which may not sign others", f.path(caCert), signs.Subject)
	}
	return &Authority{signs, key}, append([]*x509.Certificate{signs}, slices.Delete(trusted, i, i+1)...), nil
}

func belongs(c *x509.Certificate, key crypto.Signer) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(c.PublicKey)
}

func (f Folder) issue(a *Authority, trusted []*x509.Certificate, use Use) (*x509.Certificate, error) {
	template := use.template
	template.NotBefore, template.NotAfter = f.Now.Add(-skew), f.Now.Add(f.Validity)
	if end := a.Certificate.NotAfter; end.Before(template.NotAfter) {
		return nil, fmt.Errorf("%s: the authority ends on %s, before a certificate of %s would: rotate-ca makes another authority",
			f.path(caCert), end.Format(time.DateOnly), f.Validity)
	}
	pair, err := a.Issue(&template)
	if err != nil {
		return nil, err
	}
	key, err := pair.KeyPEM()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.path(use.Name), 0o700); err != nil {
		return nil, err
	}
	if err := replace(f.path(use.Name, caCert), encode(trusted...), 0o644); err != nil {
		return nil, err
	}
	if err := replace(f.path(use.Name, leafKey), key, 0o600); err != nil {
		return nil, err
	}
	return pair.Certificate, replace(f.path(use.Name, leafCert), pair.CertificatePEM(), 0o644)
}

// uses are the folders that have a certificate, sorted.
func (f Folder) uses() ([]string, error) {
	files, err := filepath.Glob(f.path("*", leafCert))
	var uses []string
	for _, file := range files {
		uses = append(uses, filepath.Base(filepath.Dir(file)))
	}
	return uses, err
}

func (f Folder) leaf(use string) (*x509.Certificate, error) {
	all, err := readCertificates(f.path(use, leafCert))
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func readCertificates(file string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all, err := cert.ParseCertsPEM(text)
	if err != nil {
		return nil, fmt.Errorf("%s: want certificates (PEM): %w", file, err)
	}
	return all, nil
}

func readKey(file string) (crypto.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, fmt.Errorf("%s: want a private key (PEM): %w", file, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: want a private key that can sign, got %T", file, key)
	}
	return signer, nil
}

// replace writes a file whole, or leaves what was there.
func replace(file string, text []byte, mode fs.FileMode) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Chmod(mode), temporary.Sync(), temporary.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.Rename(temporary.Name(), file)
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return !errors.Is(err, fs.ErrNotExist)
}
