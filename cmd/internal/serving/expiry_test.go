package serving

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/shardsched/shardsched/cmd/internal/certs"
	"github.com/shardsched/shardsched/cmd/internal/serving/authority"
)

// TestTheMetricTellsWhichEndComesFirst has certificates that end before and after their authorities, and renews them.
func TestTheMetricTellsWhichEndComesFirst(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	dir := t.TempDir()
	crt, key, ca := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
	signer := func(hours int) *certs.Authority {
		a, err := certs.NewAuthority(pkix.Name{CommonName: "a"}, now.Add(-time.Hour), now.Add(time.Duration(hours)*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	leaf := func(a *certs.Authority, hours int) {
		pair, err := a.Issue(&x509.Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Duration(hours) * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		text, err := pair.KeyPEM()
		if err != nil {
			t.Fatal(err)
		}
		authority.Replace(t, key, text)
		authority.Replace(t, crt, pair.CertificatePEM())
	}
	trust := func(all ...*certs.Authority) {
		var text []byte
		for _, a := range all {
			text = append(text, a.CertificatePEM()...)
		}
		authority.Replace(t, ca, text)
	}
	short, long, foreign := signer(5), signer(50), signer(1)
	leaf(short, 10)
	trust(short)
	g, err := TLS{CertFile: crt, KeyFile: key, CAFile: ca}.Open("c")
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	TellEnds(r, map[string]End{
		"tls": g.End, "etcd": FilesEnd("etcd", crt, key, ""), "none": FilesEnd("none", "", "", ""), "plain": (&Guard{}).End,
		"https": PEMEnd(func() []byte { text, _ := os.ReadFile(crt); return text }), "broken": PEMEnd(func() []byte { return []byte("text") }),
	})
	for _, step := range []struct {
		name      string
		do        func()
		tls, file int // hours
	}{
		{"the authority ends first", func() {}, 5, 10},
		{"an overlap of authorities", func() { trust(long, short, foreign) }, 5, 10},
		{"a leaf of the new one", func() { leaf(long, 20) }, 20, 20},
		{"the new one alone", func() { trust(long) }, 20, 20},
		{"a leaf that has ended", func() { leaf(long, -2) }, -2, -2},
		{"an authority that does not sign it", func() { trust(foreign) }, -2, -2},
		{"a file that can't be read", func() { authority.Replace(t, crt, []byte("half")) }, -2, -2},
	} {
		step.do()
		families, err := r.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("%s: got %v, %v", step.name, families, err)
		}
		got := map[string]float64{}
		for _, m := range families[0].Metric {
			got[m.Label[0].GetValue()] = m.Gauge.GetValue()
		}
		at := func(hours int) float64 { return float64(now.Add(time.Duration(hours) * time.Hour).Unix()) }
		want := map[string]float64{"tls": at(step.tls), "etcd": at(step.file), "https": at(step.file)}
		if strings.HasPrefix(step.name, "a file") {
			delete(want, "https") // it is read from a text here, not from files that are kept
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %v, want %v", step.name, got, want)
		}
		for use, end := range want {
			if got[use] != end {
				t.Errorf("%s, %s: got %v h from now, want %v h", step.name, use, (got[use]-at(0))/3600, (end-at(0))/3600)
			}
		}
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Errorf("the metric: %v, %v", problems, err)
	}
}
