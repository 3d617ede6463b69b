package certs

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func folder(t *testing.T) Folder {
	return Folder{Dir: filepath.Join(t.TempDir(), "pki"), Now: now, Validity: 30 * day, CAValidity: 300 * day}
}

func create(t *testing.T, f Folder) {
	t.Helper()
	made, err := f.Create(pkix.Name{CommonName: "test"}, RoleUses("example.org", "default", "shardsched", nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range made {
		if !e.Made {
			t.Errorf("%s: want it made, got one that was there", e.Use)
		}
	}
}

func read(t *testing.T, f Folder, parts ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(f.path(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// verifies tells whether a use's certificate is taken by who trusts ca.crt.
func verifies(t *testing.T, f Folder, use string, ca []byte, usage x509.ExtKeyUsage) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatalf("want certificates, got %s", ca)
	}
	c, err := f.leaf(use)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: f.Now, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestAFolderIsMadeOnce(t *testing.T) {
	f := folder(t)
	create(t, f)
	for _, use := range []string{"coordinator", "worker", "reader", "writer", "metrics", "admin"} {
		if _, err := os.Stat(f.path(use, leafKey)); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(read(t, f, use, caCert), read(t, f, caCert)) {
			t.Errorf("%s: want the authority beside the certificate", use)
		}
		isServer := use == "coordinator" || use == "worker"
		if err := verifies(t, f, use, read(t, f, caCert), server); (err == nil) != isServer {
			t.Errorf("%s as a server: got %v", use, err)
		}
		if err := verifies(t, f, use, read(t, f, caCert), client); (err == nil) != (use != "worker") {
			t.Errorf("%s as a client: got %v", use, err)
		}
	}
	for _, file := range []string{caKey, "worker/tls.key"} {
		info, err := os.Stat(f.path(file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: want it for its owner only, got %v, %v", file, info.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(f.path("*", ".*")); len(left) > 0 {
		t.Errorf("want no temporary file left, got %q", left)
	}

	key, ca := read(t, f, "worker", leafKey), read(t, f, caKey)
	if err := os.RemoveAll(f.path("reader")); err != nil {
		t.Fatal(err)
	}
	again, err := f.Create(pkix.Name{CommonName: "another"}, RoleUses("example.org", "default", "shardsched", nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range again {
		if e.Made != (e.Use == "reader") {
			t.Errorf("%s: made anew: %t", e.Use, e.Made)
		}
	}
	if !bytes.Equal(key, read(t, f, "worker", leafKey)) || !bytes.Equal(ca, read(t, f, caKey)) {
		t.Error("want keys that were there left as they are")
	}
}

func TestTheAuthorityIsRotatedWithAnOverlap(t *testing.T) {
	f := folder(t)
	create(t, f)
	before := read(t, f, caCert)
	if err := f.Retire(); err == nil || !strings.Contains(err.Error(), "rotate-ca begins") {
		t.Errorf("retire without a rotation: got %v", err)
	}
	if err := f.Rotate(); err != nil {
		t.Fatal(err)
	}
	both := read(t, f, "worker", caCert)
	if trusted, err := f.Trusted(); err != nil || len(trusted) != 2 || !bytes.HasSuffix(both, before) {
		t.Fatalf("want the one before trusted, too: got %d, %v", len(trusted), err)
	}
	if err := verifies(t, f, "worker", both, server); err != nil {
		t.Errorf("a certificate of the one before: %v", err)
	}
	if err := f.Rotate(); err == nil || !strings.Contains(err.Error(), "a rotation is under way") {
		t.Errorf("rotate again: got %v", err)
	}
	if err := f.Retire(); err == nil || !strings.Contains(err.Error(), "admin/tls.crt is signed by the authority that would go: renew it first") {
		t.Errorf("retire before all are renewed: got %v", err)
	}
	if _, err := f.Renew("worker"); err != nil {
		t.Fatal(err)
	}
	if err := verifies(t, f, "worker", both, server); err != nil {
		t.Errorf("a renewed certificate, by both: %v", err)
	}
	if err := verifies(t, f, "worker", before, server); err == nil {
		t.Error("a renewed certificate, by the one before: want it refused")
	}
	if _, err := f.Renew(); err != nil {
		t.Fatal(err)
	}
	if err := f.Retire(); err != nil {
		t.Fatal(err)
	}
	if trusted, err := f.Trusted(); err != nil || len(trusted) != 1 {
		t.Errorf("want one authority at the end, got %d, %v", len(trusted), err)
	}
	for _, use := range []string{"worker", "coordinator"} {
		if err := verifies(t, f, use, read(t, f, use, caCert), server); err != nil {
			t.Errorf("%s at the end: %v", use, err)
		}
	}
}

// TestARotationThatEndsHalfwayLeavesTheOneBefore ends it between the certificate and the key.
func TestARotationThatEndsHalfwayLeavesTheOneBefore(t *testing.T) {
	f := folder(t)
	create(t, f)
	key, before := read(t, f, caKey), read(t, f, caCert)
	if err := f.Rotate(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.path(caKey), key, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Renew("worker"); err != nil {
		t.Fatal(err)
	}
	if err := verifies(t, f, "worker", before, server); err != nil {
		t.Errorf("want the one before to sign, got %v", err)
	}
	if err := f.Retire(); err != nil || !bytes.Equal(before, read(t, f, caCert)) {
		t.Errorf("want the one before alone again, got %v", err)
	}
}

func TestNamesOutliveARenewal(t *testing.T) {
	f := folder(t)
	if _, err := f.Create(pkix.Name{CommonName: "etcd"}, EtcdUses([]string{"*.etcd.svc", "10.0.0.1"})); err != nil {
		t.Fatal(err)
	}
	before, _ := f.List()
	f.Now = now.Add(20 * day)
	if _, err := f.Renew(); err != nil {
		t.Fatal(err)
	}
	after, _ := f.List()
	for i, b := range before {
		a := after[i].Certificate
		if !slices.Equal(a.DNSNames, b.Certificate.DNSNames) || a.Subject.CommonName != b.Certificate.Subject.CommonName ||
			len(a.IPAddresses) != len(b.Certificate.IPAddresses) || !slices.Equal(a.ExtKeyUsage, b.Certificate.ExtKeyUsage) {
			t.Errorf("%s: want the names of before, got %v", b.Use, a.DNSNames)
		}
		if got := a.NotAfter; !got.Equal(now.Add(50 * day)) {
			t.Errorf("%s: want another 30 days, got %s", b.Use, got)
		}
	}
	var common []string
	for _, e := range after {
		common = append(common, e.Use+" "+e.Certificate.Subject.CommonName)
	}
	want := []string{"admin-etcd root", "coordinator-etcd shardsched-coordinator", "etcd etcd", "worker-etcd shardsched-worker"}
	if !slices.Equal(common, want) {
		t.Errorf("got %q, want %q", common, want)
	}
}

func TestWhatIsWrongWithAFolderIsNamed(t *testing.T) {
	other := folder(t)
	create(t, other)
	for _, c := range []struct {
		name, want string
		spoil      func(t *testing.T, f *Folder)
	}{
		{"no authority", "ca.crt: no such file", func(t *testing.T, f *Folder) { f.Dir = t.TempDir() }},
		{"no certificate in it", "ca.crt: want certificates (PEM)", func(t *testing.T, f *Folder) { write(t, f.path(caCert), "text") }},
		{"no key in it", "ca.key: want a private key (PEM)", func(t *testing.T, f *Folder) { write(t, f.path(caKey), "text") }},
		{"another's key", "ca.key: want the key of a certificate of ", func(t *testing.T, f *Folder) {
			write(t, f.path(caKey), string(read(t, other, caKey)))
		}},
		{"a leaf as the authority", "ca.crt: want an authority's certificate", func(t *testing.T, f *Folder) {
			write(t, f.path(caCert), string(read(t, *f, "worker", leafCert)))
			write(t, f.path(caKey), string(read(t, *f, "worker", leafKey)))
		}},
		{"an authority that ends soon", "the authority ends on 2026-12-26, before a certificate of 720h0m0s would", func(t *testing.T, f *Folder) {
			f.Now = now.Add(290 * day)
		}},
		{"an authority shorter than its certificates", "want both above 0", func(t *testing.T, f *Folder) { f.Validity = 301 * day }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := folder(t)
			create(t, f)
			c.spoil(t, &f)
			if _, err := f.Renew("worker"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	f := folder(t)
	create(t, f)
	for _, use := range []string{"nobody", "../pki/worker", ""} {
		want := `want one of its certificates, admin, coordinator, metrics, reader, worker, writer, got "` + use + `"`
		if _, err := f.Renew(use); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("renew %q: got %v", use, err)
		}
		if _, err := f.List(use); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("list %q: got %v", use, err)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSecretsAreThoseOfPods(t *testing.T) {
	f := folder(t)
	create(t, f)
	secrets, err := f.Secrets("ns")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range secrets {
		names = append(names, s.Namespace+"/"+s.Name)
		use := strings.TrimSuffix(strings.TrimPrefix(s.Name, "shardsched-"), "-tls")
		for _, file := range []string{caCert, leafCert, leafKey} {
			if !bytes.Equal(s.Data[file], read(t, f, use, file)) {
				t.Errorf("%s: want the file %s", s.Name, file)
			}
		}
	}
	if want := []string{"ns/shardsched-coordinator-tls", "ns/shardsched-metrics-tls", "ns/shardsched-worker-tls"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if secrets, err = f.Secrets("ns", "admin"); err != nil || len(secrets) != 1 || secrets[0].Name != "shardsched-admin-tls" {
		t.Errorf("admin: got %v, %v", secrets, err)
	}
}

// TestWhatIsThereIsNotTakenForGoodUnseen spoils a folder, and asks for what is missing in it, for what is there, and for Secrets: each
// tells what is wrong and changes nothing.
func TestWhatIsThereIsNotTakenForGoodUnseen(t *testing.T) {
	other := folder(t)
	create(t, other)
	roles := RoleUses("example.org", "default", "shardsched", nil)
	for _, c := range []struct {
		name, want string
		asked      []Use
		spoil      func(t *testing.T, f Folder)
	}{
		{"another cluster", "admin/tls.crt is there, with the names spiffe://example.org/shardsched/default/admin; want spiffe://example.org/shardsched/other/admin",
			RoleUses("example.org", "other", "shardsched", nil)[5:], func(*testing.T, Folder) {}},
		{"another host", "*.shardsched-coordinator.shardsched.svc 10.0.0.1: remove its folder, and another is made", RoleUses("example.org", "default", "shardsched", []string{"10.0.0.1"}),
			func(*testing.T, Folder) {}},
		{"another's authority", "coordinator/tls.crt: want it signed by an authority of ", roles, func(t *testing.T, f Folder) {
			write(t, f.path(caCert), string(read(t, other, caCert)))
			write(t, f.path(caKey), string(read(t, other, caKey)))
		}},
		{"no authority", "coordinator/tls.crt: want it signed by an authority of ", roles, func(t *testing.T, f Folder) {
			remove(t, f.path(caCert))
			remove(t, f.path(caKey))
		}},
		{"another's key", "worker/tls.key: want the key of tls.crt, got another: renew makes both anew", roles, func(t *testing.T, f Folder) {
			write(t, f.path("worker", leafKey), string(read(t, other, "worker", leafKey)))
		}},
		{"no key", "worker/tls.key: no such file or directory: renew makes another", roles, func(t *testing.T, f Folder) {
			remove(t, f.path("worker", leafKey))
		}},
		{"no certificate", "worker/tls.crt: no such file", roles, func(t *testing.T, f Folder) { remove(t, f.path("worker", leafCert)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := folder(t)
			create(t, f)
			c.spoil(t, f)
			remove(t, f.path("reader", leafKey))
			remove(t, f.path("reader", leafCert))
			authority := exists(f.path(caCert))
			if _, err := f.Create(pkix.Name{}, c.asked); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if exists(f.path("reader", leafCert)) || exists(f.path(caCert)) != authority {
				t.Error("want nothing made")
			}
			_, listed := f.List()
			_, shown := f.Secrets("ns")
			if asked := strings.HasPrefix(c.name, "another cluster") || strings.HasPrefix(c.name, "another host"); (listed == nil) != asked || (shown == nil) != asked {
				t.Errorf("list: got %v; secrets: got %v", listed, shown)
			}
		})
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// TestACertificateWithoutItsKeyIsRenewed is what an end halfway leaves.
func TestACertificateWithoutItsKeyIsRenewed(t *testing.T) {
	f := folder(t)
	create(t, f)
	remove(t, f.path("worker", leafKey))
	if _, err := f.Renew(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.List(); err != nil {
		t.Error(err)
	}
}

func TestAFolderIsChangedByOneAtATime(t *testing.T) {
	f := folder(t)
	create(t, f)
	unlock, err := f.lock()
	if err != nil {
		t.Fatal(err)
	}
	_, created := f.Create(pkix.Name{}, RoleUses("example.org", "default", "shardsched", nil))
	_, renewed := f.Renew()
	for name, err := range map[string]error{"create": created, "renew": renewed, "rotate": f.Rotate(), "retire": f.Retire()} {
		if err == nil || !strings.Contains(err.Error(), "is being changed by another process") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	unlock()
	if err := f.Rotate(); err != nil {
		t.Error(err)
	}
}

// TestACertificateMayLastAsLongAsItsAuthority: a certificate's times are whole seconds.
func TestACertificateMayLastAsLongAsItsAuthority(t *testing.T) {
	f := folder(t)
	f.Now, f.Validity = now.Add(999*time.Millisecond), f.CAValidity
	create(t, f)
}
