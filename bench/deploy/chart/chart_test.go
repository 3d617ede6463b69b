package chart

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

const deploy = "../../../deploy"

// load reads the chart and an example's values, and others that go before them.
func load(t *testing.T, example, more string) (*Chart, map[string]any) {
	t.Helper()
	c, err := Load(filepath.Join(deploy, "chart"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(deploy, "chart/examples", example+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := Values(text, []byte(more))
	if err != nil {
		t.Fatal(err)
	}
	return c, values
}

// TestWhatIsCommittedIsRendered holds the folders of kustomize to the chart.
func TestWhatIsCommittedIsRendered(t *testing.T) {
	want, err := Folders(deploy)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range rendered {
		err := fs.WalkDir(os.DirFS(deploy), dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(filepath.Join(deploy, name))
			if want[name] != string(text) {
				t.Errorf("deploy/%s is not what the chart renders: run make chart", name)
			}
			delete(want, name)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range maps.Keys(want) {
		t.Errorf("deploy/%s is missing: run make chart", name)
	}
}

// TestSlipsAreRefused asks for what the chart does not have, or can't be together.
func TestSlipsAreRefused(t *testing.T) {
	type slip struct{ example, values, want string }
	slips := []slip{
		{"swap", "toplogy: swap", "toplogy"},
		{"swap", "topology: shared", "topology"},
		{"swap", "coordinator: {replica: 3}", "replica"},
		{"swap", "coordinator: {replicas: 0}", "replicas"},
		{"swap", "coordinator: {replicas: two}", "replicas"},
		{"swap", "worker: {replicas: 1}", "worker/replicas"},
		{"swap", "etcd: {endpoints: ['https://a:2379']}", "etcd/endpoints"},
		{"swap", "certManager: {enabled: true, issuerRef: {name: a}}", "certManager/enabled"},
		{"swap", "coordinator: {resources: {limits: {memory: 4 GiB}}}", "memory"},
		{"swap", "coordinator: {resources: {limits: {memory: null}}}", "memory"},
		{"swap", "coordinator: {extraArgs: [-v=2]}", "extraArgs"},
		{"swap", "coordinator: {tolerations: [{key: a, effect: NoScheduling}]}", "effect"},
		{"swap", "image: {digest: 'sha256:abc'}", "digest"},
		{"swap", "rbac: cluster-admin", "rbac"},
		{"swap", "networkPolicy: {enabled: 'yes'}", "networkPolicy/enabled"},
		{"swap", "networkPolicy: {clients: [{}]}", "clients"},
		{"sharded", "worker: {replicas: 0}", "worker/replicas"},
		{"sharded", "worker: {cores: 0}", "worker/cores"},
		{"sharded", "worker: {cacheMiB: 1Gi}", "cacheMiB"},
		{"sharded", "etcd: {endpoints: []}", "etcd/endpoints"},
		{"sharded", "etcd: {endpoints: ['http://etcd:2379']}", "etcd/endpoints"},
		{"sharded", "certManager: {enabled: true}", "issuerRef"},
		{"sharded", "certManager: {renewBefore: 30d}", "renewBefore"},
		{"standalone", "apiPriority: true", "apiPriority"},
		{"shadow", "apiPriority: true", "apiPriority"},
		{"shadow", "worker: {replicas: 1}", "worker/replicas"},
		{"shadow", "etcd: {endpoints: ['https://a:2379']}", "etcd/endpoints"},
		{"shadow", "certManager: {enabled: true, issuerRef: {name: a}}", "certManager/enabled"},
		{"shadow", "podMonitor: {enabled: true}", "shadow/tlsSecret"},
		{"shadow", "shadow: {tlsSecret: a b}", "tlsSecret"},
		{"shadow", "shadow: {replicas: 2}", "replicas"},
		{"shadow", "shadow: {resources: {limits: {memory: null}}}", "memory"},
	}
	for _, example := range []string{"swap", "sharded", "standalone", "shadow"} { // no flag that the chart sets may be given again
		c, values := load(t, example, "")
		objects, _, err := c.Render(Helm, values)
		if err != nil {
			t.Fatal(err)
		}
		flags := regexp.MustCompile(`(?m)^ +- (--[a-z-]+)`).FindAllStringSubmatch(fmt.Sprint(objects), -1)
		if len(flags) < 4 {
			t.Errorf("%s: got %d flags, want the chart's", example, len(flags))
		}
		for _, flag := range flags {
			slips = append(slips, slip{example, "coordinator: {extraArgs: ['" + flag[1] + "=']}", "extraArgs"})
			slips = append(slips, slip{"shadow", "shadow: {extraArgs: ['" + flag[1] + "=']}", "extraArgs"})
		}
	}
	for _, test := range slips {
		c, values := load(t, test.example, test.values)
		if _, _, err := c.Render(Helm, values); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s with %s: got %v, want it refused with the name %s", test.example, test.values, err, test.want)
		}
	}
}

func TestTheChartIsWithoutLint(t *testing.T) {
	for _, f := range folders {
		_, values := load(t, f.topology, "")
		for _, m := range lint.All(filepath.Join(deploy, "chart"), values, "shardsched", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", f.topology, m)
			}
		}
	}
}

// TestRenderingHasNoChance keeps functions out of the templates whose results differ from one time to the next, or that ask a cluster.
func TestRenderingHasNoChance(t *testing.T) {
	chance := regexp.MustCompile(`\b(lookup|now|date|ago|rand\w*|shuffle|uuidv4|gen[A-Z]\w*|derivePassword|htpasswd|bcrypt|getHostByName|env|expandenv)\b`)
	action := regexp.MustCompile(`\{\{(?s:.*?)\}\}`)
	files, err := filepath.Glob(filepath.Join(deploy, "chart/templates/*"))
	if err != nil || len(files) < 10 {
		t.Fatalf("got %d templates, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range action.FindAllString(string(text), -1) {
			if strings.HasPrefix(strings.TrimLeft(a, "{- "), "/*") {
				continue
			}
			if f := chance.FindString(a); f != "" {
				t.Errorf("%s: %s: want no function such as %s", file, a, f)
			}
		}
	}
}

func TestNotesTellWhatIsStillToBeDone(t *testing.T) {
	for _, test := range []struct{ example, values, want string }{
		{"swap", "", "get lease kube-scheduler"},
		{"swap", "", "exec POD"},
		{"swap", "coordinator: {replicas: 1}", "WARNING: with one coordinator"},
		{"sharded", "", "must be there (docs/security.md"},
		{"sharded", "", "shardsched-coordinator-tls, shardsched-coordinator-etcd-tls, shardsched-worker-tls, shardsched-worker-etcd-tls"},
		{"sharded", "certManager: {enabled: true, issuerRef: {name: a}}", "that cert-manager makes, or you"},
		{"sharded", "podMonitor: {enabled: true}", "shardsched-metrics-tls"},
		{"sharded", "config: 'kind: KubeSchedulerConfiguration'", "WARNING: the configuration has no clientConnection.qps"},
		{"standalone", "", "dial shardsched.shardsched.svc:7450"},
		{"shadow", "", "at http://127.0.0.1:7451/report"},
		{"shadow", "shadow: {tlsSecret: mine}", "at https://127.0.0.1:7451/report"},
		{"shadow", "", "kubectl -n shardsched port-forward deployment/shardsched-shadow 7451"},
		{"shadow", "", "WARNING: the configuration is kube-scheduler's default"},
	} {
		c, values := load(t, test.example, test.values)
		_, notes, err := c.Render(Helm, values)
		if err != nil || !strings.Contains(notes, test.want) {
			t.Errorf("%s with %s: the notes are\n%s\n%v\nwant %q in them", test.example, test.values, notes, err, test.want)
		}
	}
	for example, more := range map[string]string{"standalone": "", "shadow": "config: 'kind: KubeSchedulerConfiguration'\ncoordinator: {replicas: 1}"} {
		c, values := load(t, example, more)
		if _, notes, err := c.Render(Helm, values); err != nil || strings.Contains(notes, "WARNING") || strings.Contains(notes, "Lease") {
			t.Errorf("%s: the notes are\n%s\n%v\nwant no warning, and no Lease", example, notes, err)
		}
	}
}

// A release whose pods would have labels that are too long is refused when it is rendered, not when no pod comes.
func TestALongNameIsRefused(t *testing.T) {
	c, values := load(t, "sharded", "")
	for length, refused := range map[int]bool{40: false, 41: true} {
		_, _, err := c.Render(Release{Name: strings.Repeat("a", length), Namespace: "shardsched", Service: "Helm"}, values)
		if got := err != nil && strings.Contains(err.Error(), "want 40 at the most"); got != refused || !refused && err != nil {
			t.Errorf("a name of %d characters: got %v, refused: want %v", length, err, refused)
		}
	}
}
