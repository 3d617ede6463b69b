package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
)

// Use is what a certificate is for: the name of its folder, and what it says of its holder.
type Use struct {
	Name     string
	template x509.Certificate
}

var (
	server = x509.ExtKeyUsageServerAuth
	client = x509.ExtKeyUsageClientAuth
)

// RoleUses are a certificate for each role, as docs/security.md lists them. The words are valid parts of a URI. Hosts are more names and
// addresses by which coordinators and workers are dialled.
func RoleUses(domain, cluster, namespace string, hosts []string) []Use {
	of := func(role string, dns []string, usage ...x509.ExtKeyUsage) Use {
		use := Use{role, x509.Certificate{
			Subject:  pkix.Name{CommonName: "shardsched " + role},
			URIs:     []*url.URL{{Scheme: "spiffe", Host: domain, Path: "/shardsched/" + cluster + "/" + role}},
			DNSNames: dns, ExtKeyUsage: usage,
		}}
		if len(dns) > 0 {
			use.dial(hosts)
		}
		return use
	}
	service := "." + namespace + ".svc"
	return []Use{
		of("coordinator", []string{"shardsched" + service, "*.shardsched-coordinator" + service}, server, client),
		of("worker", []string{"*.shardsched-worker" + service}, server),
		of("reader", nil, client), of("writer", nil, client), of("metrics", nil, client), of("admin", nil, client),
	}
}

// dial adds hosts, DNS names and addresses.
func (u *Use) dial(hosts []string) {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			u.template.IPAddresses = append(u.template.IPAddresses, ip)
		} else {
			u.template.DNSNames = append(u.template.DNSNames, host)
		}
	}
}

// EtcdUses are etcd's own certificate, good for its members as servers and among themselves, and one for each user that
// deploy/etcd/roles.sh makes. Hosts are DNS names and addresses.
func EtcdUses(hosts []string) []Use {
	of := func(name, commonName string, usage ...x509.ExtKeyUsage) Use {
		return Use{name, x509.Certificate{Subject: pkix.Name{CommonName: commonName}, ExtKeyUsage: usage}}
	}
	member := of("etcd", "etcd", server, client)
	member.dial(hosts)
	return []Use{
		member,
		of("coordinator-etcd", "shardsched-coordinator", client), of("worker-etcd", "shardsched-worker", client),
		of("admin-etcd", "root", client),
	}
}

// Names are a certificate's names, or its common name where it has no other.
func Names(c *x509.Certificate) (names []string) {
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = []string{"CN=" + c.Subject.CommonName}
	}
	return names
}
