package serving

import (
	"crypto/x509"
	"net/url"
	"strings"
	"testing"
)

func TestWhoHoldsACertificate(t *testing.T) {
	roles, err := parseDNSRoles("*.worker.ns.svc=worker, scraper.example.org=metrics,other.example.org=reader")
	if err != nil {
		t.Fatal(err)
	}
	const ours = "spiffe://example.org/shardsched/c/reader"
	for _, test := range []struct {
		name      string
		uris, dns []string
		want      string // the identity, or a part of the error
	}{
		{"a URI", []string{ours}, nil, ours},
		{"a URI with a name", []string{ours + "/alice"}, nil, ours + "/alice"},
		{"a URI beside another's", []string{"spiffe://example.org/ns/a/sa/b", ours}, nil, ours},
		{"a URI goes before DNS names", []string{ours}, []string{"w.worker.ns.svc"}, ours},
		{"a DNS name", nil, []string{"scraper.example.org"}, "scraper.example.org (metrics)"},
		{"a DNS name below a wildcard", nil, []string{"x", "w-0.worker.ns.svc", "w-1.worker.ns.svc"}, "w-0.worker.ns.svc (worker)"},
		{"a wildcard itself", nil, []string{"*.worker.ns.svc"}, "*.worker.ns.svc (worker)"},
		{"a name two labels below a wildcard", nil, []string{"a.b.worker.ns.svc"}, "has no URI"},
		{"a wildcard's own name", nil, []string{"worker.ns.svc"}, "has no URI"},
		{"DNS names of two roles", nil, []string{"scraper.example.org", "other.example.org"}, "has no URI"},
		{"nothing", nil, nil, "has no URI"},
		{"another's URI", []string{"spiffe://example.org/ns/a/sa/b"}, nil, "has no URI"},
		{"two URIs", []string{ours, "spiffe://example.org/shardsched/c/admin"}, nil, "names two identities"},
		{"a role that does not exist", []string{"spiffe://example.org/shardsched/c/root"}, nil, `"root" is not a role`},
		{"no role", []string{"spiffe://example.org/shardsched/c"}, nil, "is not spiffe://"},
		{"an empty cluster", []string{"spiffe://example.org/shardsched//admin"}, nil, `"" is not letters`},
		{"one part too many", []string{ours + "/a/b"}, nil, "is not spiffe://"},
		{"an empty name", []string{ours + "/"}, nil, `"" is not letters`},
		{"a folder above", []string{"spiffe://example.org/shardsched/../c/admin"}, nil, "is not"},
		{"an escaped slash", []string{"spiffe://example.org/shardsched/c%2Fadmin/reader"}, nil, "is not letters"},
		{"a query", []string{ours + "?a"}, nil, "is not spiffe://"},
		{"a fragment", []string{ours + "#a"}, nil, "is not spiffe://"},
		{"a user", []string{"spiffe://me@example.org/shardsched/c/admin"}, nil, "is not spiffe://"},
		{"a port", []string{"spiffe://example.org:1/shardsched/c/admin"}, nil, "is not spiffe://"},
		{"no domain", []string{"spiffe:///shardsched/c/admin"}, nil, "is not spiffe://"},
	} {
		cert := &x509.Certificate{DNSNames: test.dns}
		for _, text := range test.uris {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			cert.URIs = append(cert.URIs, u)
		}
		who, err := roles.identityOf(cert)
		got := who.String()
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != test.want || !strings.Contains(got, test.want) {
			t.Errorf("%s: want %s, got %s", test.name, test.want, got)
		}
	}
}

func TestDNSRolesAreRead(t *testing.T) {
	for _, text := range []string{"a", "=reader", "a=root", "a=reader,", "a=reader,a=writer"} {
		if err := (TLS{DNSRoles: text}).Validate(); err == nil || !strings.Contains(err.Error(), "--tls-dns-roles") {
			t.Errorf("%q: want an error of --tls-dns-roles, got %v", text, err)
		}
	}
}

// FuzzIdentity holds that what is taken for an identity says nothing else: it is written as it was read.
func FuzzIdentity(f *testing.F) {
	for _, text := range []string{"spiffe://example.org/shardsched/c/worker/w1", "spiffe://e/shardsched/c%2F/admin", "spiffe://e:1/shardsched/c/admin?", "spiffe:shardsched/c/admin"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		who, err := dnsRoles(nil).identityOf(&x509.Certificate{URIs: []*url.URL{u}})
		if err == nil && !strings.EqualFold(who.String(), text) {
			t.Errorf("%q is read as %q", text, who)
		}
	})
}
