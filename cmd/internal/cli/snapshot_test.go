package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// kubernetesAPI serves lists of objects by path, and counts what else it is asked.
type kubernetesAPI struct {
	items map[string]string
	mu    sync.Mutex
	other []string
}

func (a *kubernetesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Query().Get("watch") != "" {
		a.mu.Lock()
		a.other = append(a.other, r.Method+" "+r.URL.String())
		a.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"metadata": {"resourceVersion": "42"}, "items": [%s]}`, a.items[r.URL.Path])
}

// serveKubernetes serves an API, and returns the kubeconfig for it.
func serveKubernetes(t *testing.T, handler http.Handler) (kubeconfig string) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}]}`, s.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// What a chart comes to on a cluster is the same by a snapshot's file and read at once, and the cluster's classes and limit ranges have
// their say. The cluster is only read.
func TestACluster(t *testing.T) {
	a := &kubernetesAPI{items: map[string]string{
		"/api/v1/nodes":       `{"metadata": {"name": "n1", "uid": "u1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}`,
		"/api/v1/limitranges": `{"metadata": {"name": "r", "namespace": "default", "uid": "u2"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]}}`,
		"/api/v1/services":    `{"metadata": {"name": "web", "namespace": "default", "uid": "u3"}, "spec": {"selector": {"app": "web"}}}`,
	}}
	kubeconfig := serveKubernetes(t, a)
	const chart = `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
---
{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: web}}
`
	run := func(stdin string, args ...string) (out, told string, code int) {
		var o, e bytes.Buffer
		s := Streams{In: strings.NewReader(stdin), Out: &o, Err: &e, Env: func(string) string { return "" }}
		code = Main(t.Context(), args, s, Runs{Simulate: runSimulate})
		return o.String(), e.String(), code
	}
	dump, told, code := run("", "snapshot", "--kubeconfig", kubeconfig)
	if code != 0 || told != "1 nodes, 0 pods and 2 other objects at resource version 42\n" {
		t.Fatalf("snapshot: got %d and %q", code, told)
	}
	file := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(file, []byte(dump), 0o600); err != nil {
		t.Fatal(err)
	}
	var decisions []string
	for _, from := range [][]string{{"-f", file}, {"--live", "--kubeconfig", kubeconfig}} {
		args := append([]string{"simulate", "--workers", "0", "--decisions", "-"}, from...)
		out, told, code := run(chart, append(args, "-f", "-")...)
		if code == exitFailed || strings.Count(out, `"node":"n1"`) != 1 || !strings.Contains(out, "Insufficient cpu") {
			t.Errorf("%v: got %d, %s and %s, want one pod placed and one for which there is no CPU", from, code, out, told)
		}
		if !strings.Contains(told, "skipped 1 of kinds that are not Kubernetes' own: ServiceMonitor 1\n") {
			t.Errorf("%v: told %s, want a word of what was skipped", from, told)
		}
		decisions = append(decisions, out)
	}
	if decisions[0] != decisions[1] {
		t.Errorf("by a file:\n%s\nlive:\n%s", decisions[0], decisions[1])
	}
	if len(a.other) > 0 {
		t.Errorf("the cluster was asked %q, want lists only", a.other)
	}
}

func TestAClusterOfNoNodesIsAnError(t *testing.T) {
	kubeconfig := serveKubernetes(t, &kubernetesAPI{})
	var told bytes.Buffer
	s := Streams{Out: &bytes.Buffer{}, Err: &told, Env: func(string) string { return "" }}
	code := Main(t.Context(), []string{"simulate", "--live", "--kubeconfig", kubeconfig}, s, Runs{Simulate: runSimulate})
	if code != exitFailed || !strings.Contains(told.String(), "error: cluster http://") || !strings.Contains(told.String(), "no node in the input") {
		t.Errorf("got %d and %s, want an error that names the cluster", code, told.String())
	}
}

func TestKubeconfigIsAboutLive(t *testing.T) {
	var told bytes.Buffer
	s := Streams{Out: &bytes.Buffer{}, Err: &told, Env: func(string) string { return "" }}
	code := Main(t.Context(), []string{"simulate", "-f", "x.json", "--kubeconfig", "x"}, s, Runs{Simulate: runSimulate})
	if code != exitFailed || !strings.Contains(told.String(), "give --live, too") {
		t.Errorf("got %d and %s, want a usage error", code, told.String())
	}
}
