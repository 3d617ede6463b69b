package serving

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/cert"
)

// End tells when a certificate that is in use ends, or the first of those that it is signed by; the zero time: there is none.
type End func() time.Time

// End is that of the certificate which this process shows.
func (g *Guard) End() time.Time {
	if g.pair == nil || g.roots == nil {
		return time.Time{}
	}
	return endOf(g.pair, g.roots)
}

// FilesEnd is the end of a certificate's file, or none where its name is empty. Authorities are read, too, where they have a file. what
// names the files in errors; they are read again when they change.
func FilesEnd(what, certFile, keyFile, caFile string) End {
	if certFile == "" {
		return func() time.Time { return time.Time{} }
	}
	pair, trusted := rotatingPair(what, certFile, keyFile), (*rotating[roots])(nil)
	if caFile != "" {
		trusted = rotatingRoots(what, caFile)
	}
	return func() time.Time { return endOf(pair, trusted) }
}

// PEMEnd is the end of the certificates in a text.
func PEMEnd(read func() []byte) End {
	return func() time.Time {
		chain, err := cert.ParseCertsPEM(read())
		if err != nil {
			return time.Time{}
		}
		return endOfChain(chain, nil)
	}
}

func endOf(pair *rotating[*tls.Certificate], trusted *rotating[roots]) time.Time {
	c, err := pair.get()
	if err != nil {
		return time.Time{}
	}
	var chain, authorities []*x509.Certificate
	for _, der := range c.Certificate {
		if one, err := x509.ParseCertificate(der); err == nil {
			chain = append(chain, one)
		}
	}
	if trusted != nil {
		if known, err := trusted.get(); err == nil {
			authorities = known.all
		}
	}
	return endOfChain(chain, authorities)
}

// endOfChain is the first end in a chain, a leaf first, and of what signed its last certificate: of several authorities with that key,
// the one that is good for longest.
func endOfChain(chain, authorities []*x509.Certificate) time.Time {
	var first, signed time.Time
	for _, c := range chain {
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	for _, a := range authorities {
		if len(chain) > 0 && a.NotAfter.After(signed) && chain[len(chain)-1].CheckSignatureFrom(a) == nil {
			signed = a.NotAfter
		}
	}
	if !signed.IsZero() && signed.Before(first) {
		return signed
	}
	return first
}

// expirations is a collector.
type expirations struct {
	desc *prometheus.Desc
	ends map[string]End
}

// TellEnds registers when certificates end, by what they are for.
func TellEnds(r prometheus.Registerer, ends map[string]End) {
	r.MustRegister(expirations{prometheus.NewDesc("shardsched_certificate_expiration_timestamp_seconds",
		"When a certificate of this process ends, or the first of those that it is signed by, by what it is for: tls (clients and workers), "+
			"https, etcd, kubeconfig.", []string{"use"}, nil), ends})
}

// Describe implements prometheus.Collector.
func (e expirations) Describe(descs chan<- *prometheus.Desc) { descs <- e.desc }

// Collect implements prometheus.Collector.
func (e expirations) Collect(metrics chan<- prometheus.Metric) {
	for use, end := range e.ends {
		if at := end(); !at.IsZero() {
			metrics <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(at.Unix()), use)
		}
	}
}
