package serving

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
)

// Role is what somebody is for; values can be joined to a set.
type Role uint8

// The roles, as certificates name them.
const (
	Coordinator Role = 1 << iota
	Worker
	Reader
	Writer
	Metrics
	Admin
	// Everybody whom TLS lets in, whatever the certificate says.
	Everybody Role = 1<<8 - 1
)

var roleNames = [...]string{"coordinator", "worker", "reader", "writer", "metrics", "admin"}

// String lists the roles of the set.
func (r Role) String() string {
	if r == Everybody {
		return "everybody"
	}
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// parseRole is the role of a name.
func parseRole(name string) (Role, error) {
	for i, known := range roleNames {
		if name == known {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("%q is not a role: %s are", name, strings.Join(roleNames[:], ", "))
}

// Identity is who holds a certificate, by its one URI of this form:
//
//	spiffe://<domain>/shardsched/<cluster>/<role>[/name]
//
// Domain, Cluster and Name are empty where the role is that of a DNS name.
type Identity struct {
	Domain, Cluster string
	Role            Role
	DNS             string // the first name that has the role; empty: the role is the URI's
	// Name tells the holders of a role apart. A worker's is its id, or what comes before a _ in it;
	// empty: any id.
	Name string
}

// String is the URI, or the DNS name with its role.
func (i Identity) String() string {
	if i.DNS != "" {
		return i.DNS + " (" + i.Role.String() + ")"
	}
	text := "spiffe://" + i.Domain + identityPath + i.Cluster + "/" + i.Role.String()
	if i.Name != "" {
		text += "/" + i.Name
	}
	return text
}

// mayBe tells whether a worker's id, where there is one, is one that the holder may have.
func (i Identity) mayBe(id string) bool {
	return i.Name == "" || id == "" || id == i.Name || strings.HasPrefix(id, i.Name+"_")
}

const identityPath = "/shardsched/"

// parseIdentity reads a URI, which must have nothing but the parts of an identity.
func parseIdentity(u *url.URL) (Identity, error) {
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), identityPath), "/")
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if len(parts) < 2 || len(parts) > 3 || u.String() != bare.String() || !plain(u.Host) {
		return Identity{}, fmt.Errorf("%s is not spiffe://<domain>/shardsched/<cluster>/<role>[/name]", u)
	}
	for _, part := range parts {
		if !plain(part) {
			return Identity{}, fmt.Errorf("%s: %q is not letters, digits, '-', '.' and '_'", u, part)
		}
	}
	role, err := parseRole(parts[1])
	if err != nil {
		return Identity{}, fmt.Errorf("%s: %w", u, err)
	}
	id := Identity{Domain: u.Host, Cluster: parts[0], Role: role}
	if len(parts) == 3 {
		id.Name = parts[2]
	}
	return id, nil
}

// CheckIdentity refuses what can't be an Identity's domain or cluster.
func CheckIdentity(domain, cluster string) error {
	for _, part := range []string{domain, cluster} {
		if !plain(part) {
			return fmt.Errorf("%q is not letters, digits, '-', '.' and '_'", part)
		}
	}
	return nil
}

// plain tells whether a part of an identity has no character with a meaning of its own.
func plain(part string) bool {
	return part != "" && part != "." && part != ".." && !strings.ContainsFunc(part, func(r rune) bool {
		return !(r == '-' || r == '.' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	})
}

// dnsRoles are roles by DNS name. A name that begins with *. stands for those with another first label, too.
type dnsRoles map[string]Role

// parseDNSRoles reads NAME=ROLE,…
func parseDNSRoles(text string) (dnsRoles, error) {
	if text == "" {
		return nil, nil
	}
	roles := dnsRoles{}
	for entry := range strings.SplitSeq(text, ",") {
		name, roleName, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--tls-dns-roles: %q is not NAME=ROLE", entry)
		}
		role, err := parseRole(roleName)
		if err != nil {
			return nil, fmt.Errorf("--tls-dns-roles: %q: %w", entry, err)
		}
		if before, twice := roles[name]; twice && before != role {
			return nil, fmt.Errorf("--tls-dns-roles: %s is both %s and %s", name, before, role)
		}
		roles[name] = role
	}
	return roles, nil
}

// of is the role of a certificate's DNS name, 0 without one.
func (d dnsRoles) of(name string) Role {
	if role, ok := d[name]; ok {
		return role
	}
	_, rest, _ := strings.Cut(name, ".")
	return d["*."+rest]
}

// identityOf is who holds a certificate. A URI goes before DNS names.
func (d dnsRoles) identityOf(c *x509.Certificate) (Identity, error) {
	var ours []*url.URL
	for _, u := range c.URIs {
		if u.Scheme == "spiffe" && strings.HasPrefix(u.Path, identityPath) {
			ours = append(ours, u)
		}
	}
	if len(ours) > 1 {
		return Identity{}, fmt.Errorf("certificate %q names two identities, %s and %s", c.Subject, ours[0], ours[1])
	}
	if len(ours) == 1 {
		return parseIdentity(ours[0])
	}
	var role Role
	var by string
	for _, name := range c.DNSNames {
		if of := d.of(name); of != 0 {
			role, by = role|of, cmp.Or(by, name)
		}
	}
	if role == 0 || role&(role-1) != 0 {
		return Identity{}, fmt.Errorf("certificate %q (DNS names: %s) has no URI spiffe://<domain>/shardsched/<cluster>/<role>, and "+
			"--tls-dns-roles does not give its DNS names one role: see docs/security.md",
			c.Subject, strings.Join(c.DNSNames, ", "))
	}
	return Identity{DNS: by, Role: role}, nil
}
