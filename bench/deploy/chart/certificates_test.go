package chart

import (
	"crypto/x509"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const withCertificates = `
certManager: {enabled: true, issuerRef: {name: ca}, etcdIssuerRef: {name: etcd}}
podMonitor: {enabled: true}`

// certificate is as much of a Certificate of cert-manager.io/v1 as the chart uses: its module would bring newer modules into what
// the API server is built from.
type certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretName  string          `json:"secretName"`
		CommonName  string          `json:"commonName"`
		URIs        []string        `json:"uris"`
		DNSNames    []string        `json:"dnsNames"`
		Usages      []string        `json:"usages"`
		Duration    metav1.Duration `json:"duration"`
		RenewBefore metav1.Duration `json:"renewBefore"`
		PrivateKey  struct {
			Algorithm      string `json:"algorithm"`
			Size           int    `json:"size"`
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
		IssuerRef struct {
			Name  string `json:"name"`
			Kind  string `json:"kind"`
			Group string `json:"group"`
		} `json:"issuerRef"`
	} `json:"spec"`
}

// certificates gives the rendered ones, by the secret that each is put into.
func certificates(t *testing.T, objects []object) map[string]*certificate {
	out := map[string]*certificate{}
	for _, o := range objects {
		if o.GetKind() == "Certificate" {
			c := into[certificate](t, o)
			out[c.Spec.SecretName] = c
		}
	}
	return out
}

// TestEachMountedSecretHasACertificate holds the secrets of pods and of scrapers to what cert-manager makes.
func TestEachMountedSecretHasACertificate(t *testing.T) {
	for _, topology := range []string{"sharded", "standalone"} {
		objects := render(t, topology, withCertificates)
		made, used := certificates(t, objects), map[string]bool{}
		for _, p := range pods(t, objects) {
			for _, volume := range p.Spec.Volumes {
				if volume.Secret != nil {
					used[volume.Secret.SecretName] = true
				}
			}
		}
		for _, o := range objects {
			if o.GetKind() == "PodMonitor" {
				used[into[monitoring.PodMonitor](t, o).Spec.PodMetricsEndpoints[0].TLSConfig.Cert.Secret.Name] = true
			}
		}
		for name := range used {
			if made[name] == nil {
				t.Errorf("%s: want a certificate for the secret %s, got none", topology, name)
			}
		}
		if len(used) != 5 || len(made) != 5 {
			t.Errorf("%s: %d secrets and %d certificates, want 5 of each", topology, len(used), len(made))
		}
	}
}

// TestCertificatesNameWhatIsDialled verifies the certificates' names against the addresses that processes advertise, the Service and the
// names that scrapers ask for.
func TestCertificatesNameWhatIsDialled(t *testing.T) {
	objects := render(t, "sharded", withCertificates)
	made := certificates(t, objects)
	verify := func(secret, host string) {
		t.Helper()
		if err := (&x509.Certificate{DNSNames: made[secret].Spec.DNSNames}).VerifyHostname(host); err != nil {
			t.Errorf("%s: %v", secret, err)
		}
	}
	for _, p := range pods(t, objects) {
		for _, arg := range p.Spec.Containers[0].Args {
			if address, ok := strings.CutPrefix(arg, "--advertise="); ok {
				host, _, err := net.SplitHostPort(strings.NewReplacer("$(POD_NAME)", p.Name, "$(POD_NAMESPACE)", p.Namespace).Replace(address))
				if err != nil {
					t.Fatal(err)
				}
				verify(strings.TrimSuffix(p.Name, "-0")+"-tls", host)
			}
		}
	}
	verify("shardsched-coordinator-tls", "shardsched.shardsched.svc")
	for _, o := range objects {
		if o.GetKind() == "PodMonitor" {
			verify(o.GetName()+"-tls", *into[monitoring.PodMonitor](t, o).Spec.PodMetricsEndpoints[0].TLSConfig.ServerName)
		}
	}
}

// TestCertificatesAreAsDocumented holds docs/security.md and the chart to each other.
func TestCertificatesAreAsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Certificates to make")
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| .* \\| `(spiffe://\\S+)` \\| (.*) ?\\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		rows[m[1]] = m[2:]
	}
	checked := 0
	for secret, c := range certificates(t, render(t, "sharded", withCertificates)) {
		if len(c.Spec.URIs) == 0 {
			continue // shown to etcd
		}
		checked++
		row := rows[c.Spec.URIs[0]]
		if row == nil {
			t.Errorf("%s: want %s in docs/security.md, got %v", secret, c.Spec.URIs[0], rows)
			continue
		}
		var names []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[0], -1) {
			names = append(names, m[1])
		}
		if !slices.Equal(names, c.Spec.DNSNames) {
			t.Errorf("%s: docs/security.md has the names %q, the chart %q", secret, names, c.Spec.DNSNames)
		}
		for usage, word := range map[string]string{"server auth": "server", "client auth": "client"} {
			if got, want := slices.Contains(c.Spec.Usages, usage), strings.Contains(row[1], word); got != want {
				t.Errorf("%s: the usage %s is %v, docs/security.md says %v", secret, word, got, want)
			}
		}
	}
	if checked != 3 {
		t.Errorf("%d certificates of roles, want those of coordinator, worker and metrics", checked)
	}
}

// TestMonitorsAskForPortsThatThereAre holds the PodMonitors to the pods' ports, by name, and to their labels.
func TestMonitorsAskForPortsThatThereAre(t *testing.T) {
	for _, topology := range []string{"swap", "sharded", "standalone"} {
		objects := render(t, topology, "podMonitor: {enabled: true}")
		all, seen := pods(t, objects), 0
		for _, o := range objects {
			if o.GetKind() != "PodMonitor" {
				continue
			}
			seen++
			m := into[monitoring.PodMonitor](t, o)
			if !slices.ContainsFunc(all, func(p *v1.Pod) bool {
				return matches(&m.Spec.Selector, p.Labels) && slices.ContainsFunc(p.Spec.Containers[0].Ports, func(c v1.ContainerPort) bool {
					return c.Name == *m.Spec.PodMetricsEndpoints[0].Port
				})
			}) {
				t.Errorf("%s: %v: want pods with the port %s, got none", topology, o, *m.Spec.PodMetricsEndpoints[0].Port)
			}
		}
		if seen != len(all) {
			t.Errorf("%s: %d monitors, want one for each of %d workloads", topology, seen, len(all))
		}
	}
}
