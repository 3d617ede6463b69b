package serving

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
)

// TLS names the files of mutual TLS: all three, or none.
type TLS struct {
	CertFile, KeyFile, CAFile string
	// ConnectionAge is how long a connection lives; 0: an hour.
	ConnectionAge time.Duration
	// DNSRoles are roles of certificates without an Identity of their own: NAME=ROLE,…
	DNSRoles string
}

// AddFlags adds the flags.
func (t *TLS) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.CertFile, "tls-cert-file", t.CertFile, "certificate (PEM) that this process shows to its peers")
	fs.StringVar(&t.KeyFile, "tls-private-key-file", t.KeyFile, "private key (PEM) of --tls-cert-file")
	fs.StringVar(&t.CAFile, "tls-ca-file", t.CAFile, "certificates (PEM) of the authority that peers' certificates must be signed by")
	t.AddRoleFlag(fs)
}

// AddRoleFlag adds the flag for certificates without an Identity.
func (t *TLS) AddRoleFlag(fs *pflag.FlagSet) {
	fs.StringVar(&t.DNSRoles, "tls-dns-roles", t.DNSRoles, "`NAME=ROLE,…`: roles of certificates without a URI "+
		"spiffe://<domain>/shardsched/<cluster>/<role>, by DNS name; "+
		"*.NAME stands for every first label")
}

// Enabled tells whether TLS is asked for.
func (t TLS) Enabled() bool { return t != TLS{} }

// Validate refuses a part without the others.
func (t TLS) Validate() error {
	if _, err := parseDNSRoles(t.DNSRoles); err != nil {
		return err
	}
	if !t.Enabled() || (t.CertFile != "" && t.KeyFile != "" && t.CAFile != "") {
		return nil
	}
	return errors.New("--tls-cert-file, --tls-private-key-file and --tls-ca-file go together: mutual TLS needs all three")
}

// CheckAddress refuses, without TLS, an address that other machines reach.
func (t TLS) CheckAddress(flag, address string) error {
	return checkAddress(t.Enabled(), flag, address)
}

func checkAddress(enabled bool, flag, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--%s: %q is not HOST:PORT: %w", flag, address, err)
	}
	if enabled || loopback(host) {
		return nil
	}
	return fmt.Errorf("--%s: %s can be reached from other machines, which needs mutual TLS: give --tls-cert-file, --tls-private-key-file "+
		"and --tls-ca-file, or listen on 127.0.0.1",
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
