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
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// skew is how far behind a peer's clock may be.
const skew = 5 * time.Minute

const (
	caCert, caKey     = "ca.crt", "ca.key"
	leafCert, leafKey = "tls.crt", "tls.key"
	lockFile          = ".lock"
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

// Create makes what is missing of an authority and of certificates for the uses, and leaves what is there as it is. Where that is not
// what is asked for, nothing is made.
func (f Folder) Create(subject pkix.Name, uses []Use) ([]Entry, error) {
	if err := f.checkTimes(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err := f.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	authorityThere := exists(f.path(caKey)) || exists(f.path(caCert))
	var a *Authority
	var trusted []*x509.Certificate
	if authorityThere {
		if a, trusted, err = f.authority(); err != nil {
			return nil, err
		}
	}
	entries := make([]Entry, len(uses))
	for i, use := range uses {
		entries[i].Use = use.Name
		if !exists(f.path(use.Name, leafKey)) && !exists(f.path(use.Name, leafCert)) {
			continue
		}
		c, err := f.good(use.Name, trusted)
		if err != nil {
			return nil, err
		}
		if got, want := Names(c), Names(&use.template); !slices.Equal(got, want) {
			return nil, fmt.Errorf("%s is there, with the names %s; want %s: remove its folder, and another is made", f.path(use.Name, leafCert),
				strings.Join(got, " "), strings.Join(want, " "))
		}
		entries[i].Certificate = c
	}
	if !authorityThere {
		if err := f.newAuthority(subject); err != nil {
			return nil, err
		}
		if a, trusted, err = f.authority(); err != nil {
			return nil, err
		}
	}
	for i, use := range uses {
		if e := &entries[i]; e.Certificate == nil {
			e.Made = true
			if e.Certificate, err = f.issue(a, trusted, use); err != nil {
				return nil, err
			}
		}
	}
	return entries, nil
}

// Renew replaces certificates and their keys, those of all uses where none is named; their names stay.
func (f Folder) Renew(uses ...string) ([]Entry, error) {
	if err := f.checkTimes(); err != nil {
		return nil, err
	}
	unlock, err := f.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	a, trusted, err := f.authority()
	if err != nil {
		return nil, err
	}
	if uses, err = f.named(uses); err != nil {
		return nil, err
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
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
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
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
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
		if !signed(e.Certificate, a.Certificate) {
			return fmt.Errorf("%s is signed by the authority that would go: renew it first", f.path(e.Use, leafCert))
		}
	}
	return f.trust([]*x509.Certificate{a.Certificate})
}

// List has the certificates of the uses, of all where none is named, and their names sorted. Each is good for its key, and signed by an
// authority of the folder.
func (f Folder) List(uses ...string) ([]Entry, error) {
	_, trusted, err := f.authority()
	if err != nil {
		return nil, err
	}
	if uses, err = f.named(uses); err != nil {
		return nil, err
	}
	var entries []Entry
	for _, name := range uses {
		c, err := f.good(name, trusted)
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

// lock keeps others from changing the folder: of two rotations at once, one would lose its authority.
func (f Folder) lock() (unlock func(), err error) {
	lock, err := fileutil.TryLockFile(f.path(lockFile), os.O_CREATE|os.O_WRONLY, fileutil.PrivateFileMode)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("%s is being changed by another process", f.Dir)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
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
	text, err := a.KeyPEM()
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
	return &Authority{Pair{signs, key}}, append([]*x509.Certificate{signs}, slices.Delete(trusted, i, i+1)...), nil
}

func belongs(c *x509.Certificate, key crypto.Signer) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(c.PublicKey)
}

func (f Folder) issue(a *Authority, trusted []*x509.Certificate, use Use) (*x509.Certificate, error) {
	template := use.template
	template.NotBefore, template.NotAfter = f.Now.Add(-skew), f.Now.Add(f.Validity).Truncate(time.Second) // as certificates have it
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
	// The certificate comes first: it has the names, by which renew makes another where the key was not written.
	if err := replace(f.path(use.Name, leafCert), pair.CertificatePEM(), 0o644); err != nil {
		return nil, err
	}
	return pair.Certificate, replace(f.path(use.Name, leafKey), key, 0o600)
}

// uses are the folders that have a certificate or a key, sorted.
func (f Folder) uses() ([]string, error) {
	var uses []string
	for _, file := range []string{leafCert, leafKey} {
		files, err := filepath.Glob(f.path("*", file))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			uses = append(uses, filepath.Base(filepath.Dir(file)))
		}
	}
	slices.Sort(uses)
	return slices.Compact(uses), nil
}

// named are the uses, which have to be there; all that are there where none is named.
func (f Folder) named(uses []string) ([]string, error) {
	there, err := f.uses()
	if err != nil || len(uses) == 0 {
		return there, err
	}
	for _, use := range uses {
		if !slices.Contains(there, use) {
			return nil, fmt.Errorf("%s: want one of its certificates, %s, got %q", f.Dir, strings.Join(there, ", "), use)
		}
	}
	return uses, nil
}

// good is a certificate that its key belongs to, and that one of the authorities has signed.
func (f Folder) good(use string, trusted []*x509.Certificate) (*x509.Certificate, error) {
	c, err := f.leaf(use)
	if err != nil {
		return nil, err
	}
	key, err := readKey(f.path(use, leafKey))
	if err != nil {
		return nil, fmt.Errorf("%w: renew makes another", err)
	}
	if !belongs(c, key) {
		return nil, fmt.Errorf("%s: want the key of %s, got another: renew makes both anew", f.path(use, leafKey), leafCert)
	}
	if !slices.ContainsFunc(trusted, func(a *x509.Certificate) bool { return signed(c, a) }) {
		return nil, fmt.Errorf("%s: want it signed by an authority of %s, got one that none of them has signed: renew makes another",
			f.path(use, leafCert), f.path(caCert))
	}
	return c, nil
}

func signed(c, by *x509.Certificate) bool { return c.CheckSignatureFrom(by) == nil }

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
