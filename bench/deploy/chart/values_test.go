package chart

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// effects has, for each value of the chart, an example, what has to be set beside the value, another value than the default, and what of it
// is rendered then, and is not without it.
var effects = map[string][4]string{
	"topology":                      {"swap", "", "topology: standalone\netcd: {endpoints: ['https://a:1']}", "--standalone"},
	"image.repository":              {"swap", "", "image: {repository: other/name}", "image: other/name:v"},
	"image.tag":                     {"swap", "", "image: {tag: v9}", "shardsched:v9"},
	"image.digest":                  {"swap", "", "image: {digest: 'sha256:" + strings.Repeat("a", 64) + "'}", "shardsched@sha256:aaa"},
	"image.pullPolicy":              {"swap", "", "image: {pullPolicy: Always}", "imagePullPolicy: Always"},
	"image.pullSecrets":             {"swap", "", "image: {pullSecrets: [{name: mine}]}", "imagePullSecrets:\n      - name: mine"},
	"cluster":                       {"sharded", "", "cluster: prod", `CLUSTER: "prod"`},
	"config":                        {"swap", "", "config: 'kind: Mine'", "kube-scheduler.yaml: |\n    kind: Mine\n"},
	"coordinator.replicas":          {"swap", "", "coordinator: {replicas: 5}", "replicas: 5"},
	"coordinator.resources":         {"swap", "", "coordinator: {resources: {limits: {memory: 9Gi}}}", "memory: 9Gi"},
	"coordinator.nodeSelector":      {"sharded", "", "coordinator: {nodeSelector: {a: b}}", "nodeSelector:\n        a: b"},
	"coordinator.tolerations":       {"sharded", "", "coordinator: {tolerations: [{key: mine}]}", "tolerations:\n      - key: mine"},
	"coordinator.extraArgs":         {"sharded", "", "coordinator: {extraArgs: [--v=3]}", "\n        - --v=3\n"},
	"worker.replicas":               {"sharded", "", "worker: {replicas: 7}", "replicas: 7"},
	"worker.cores":                  {"sharded", "", "worker: {cores: 6}", `cpu: "6"`},
	"worker.cacheMiB":               {"sharded", "", "worker: {cacheMiB: 2048}", "memory: 4096Mi"},
	"worker.nodeSelector":           {"sharded", "", "worker: {nodeSelector: {a: b}}", "nodeSelector:\n        a: b"},
	"worker.tolerations":            {"sharded", "", "worker: {tolerations: [{key: mine}]}", "tolerations:\n      - key: mine"},
	"worker.extraArgs":              {"sharded", "", "worker: {extraArgs: [--v=3]}", "\n        - --v=3\n"},
	"etcd.endpoints":                {"sharded", "", "etcd: {endpoints: ['https://a:1', 'https://b:2']}", `"https://a:1,https://b:2"`},
	"embeddedEtcd.medium":           {"swap", "", "embeddedEtcd: {medium: Memory}", "medium: Memory"},
	"embeddedEtcd.sizeLimit":        {"swap", "", "embeddedEtcd: {sizeLimit: 7Gi}", "sizeLimit: 7Gi"},
	"rbac":                          {"swap", "", "rbac: minimal", "resources: [pods/binding]"},
	"apiPriority":                   {"swap", "", "apiPriority: true", "kind: FlowSchema"},
	"podBounds":                     {"swap", "", "podBounds: true", "kind: ValidatingAdmissionPolicy\n"},
	"networkPolicy.enabled":         {"swap", "", "networkPolicy: {enabled: true}", "kind: NetworkPolicy"},
	"certManager.enabled":           {"sharded", "certManager: {issuerRef: {name: a}}", "certManager: {enabled: true}", "kind: Certificate"},
	"certManager.issuerRef":         {"sharded", withCertificates, "certManager: {issuerRef: {name: mine}}", "issuerRef:\n    name: mine"},
	"certManager.etcdIssuerRef":     {"sharded", withCertificates, "certManager: {etcdIssuerRef: {name: mine}}", "issuerRef:\n    name: mine"},
	"certManager.domain":            {"sharded", withCertificates, "certManager: {domain: mine.example}", "spiffe://mine.example/shardsched/default/worker"},
	"certManager.duration":          {"sharded", withCertificates, "certManager: {duration: 9h}", "duration: 9h"},
	"certManager.renewBefore":       {"sharded", withCertificates, "certManager: {renewBefore: 3h}", "renewBefore: 3h"},
	"podMonitor.enabled":            {"swap", "", "podMonitor: {enabled: true}", "kind: PodMonitor"},
	"podMonitor.interval":           {"swap", "podMonitor: {enabled: true}", "podMonitor: {interval: 7s}", "interval: 7s"},
	"podMonitor.labels":             {"swap", "podMonitor: {enabled: true}", "podMonitor: {labels: {release: mine}}", "    release: mine"},
	"prometheusRule.enabled":        {"swap", "", "prometheusRule: {enabled: true}", "kind: PrometheusRule"},
	"prometheusRule.labels":         {"swap", "prometheusRule: {enabled: true}", "prometheusRule: {labels: {release: mine}}", "    release: mine"},
	"coordinator.priorityClassName": {"swap", "", "coordinator: {priorityClassName: mine}", "priorityClassName: mine"},
	"shadow.resources":              {"shadow", "", "shadow: {resources: {limits: {memory: 9Gi}}}", "memory: 9Gi"},
	"shadow.priorityClassName":      {"shadow", "", "shadow: {priorityClassName: mine}", "priorityClassName: mine"},
	"shadow.nodeSelector":           {"shadow", "", "shadow: {nodeSelector: {a: b}}", "nodeSelector:\n        a: b"},
	"shadow.tolerations":            {"shadow", "", "shadow: {tolerations: [{key: mine}]}", "tolerations:\n      - key: mine"},
	"shadow.tlsSecret":              {"shadow", "", "shadow: {tlsSecret: mine}", "secretName: mine"},
	"shadow.extraArgs":              {"shadow", "", "shadow: {extraArgs: [--v=3]}", "\n        - --v=3\n"},
	"worker.priorityClassName":      {"sharded", "", "worker: {priorityClassName: mine}", "priorityClassName: mine"},
}

// elsewhere are values that other tests try.
var elsewhere = map[string]string{
	"networkPolicy.clients": "TestPeersNarrowThePolicies", "networkPolicy.scrapers": "TestPeersNarrowThePolicies",
	"networkPolicy.dns": "TestPeersNarrowThePolicies", "networkPolicy.apiServer": "TestPeersNarrowThePolicies",
	"networkPolicy.apiServerPorts": "TestPeersNarrowThePolicies", "networkPolicy.etcd": "TestPeersNarrowThePolicies",
	"networkPolicy.etcdPorts": "TestPeersNarrowThePolicies", "networkPolicy.egress": "TestPeersNarrowThePolicies",
}

// TestEachValueHasAnEffect sets each value of values.yaml.
func TestEachValueHasAnEffect(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deploy, "chart/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := Values(text)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for key, value := range values {
		group, ok := value.(map[string]any)
		if !ok {
			want = append(want, key)
		}
		for k := range group {
			want = append(want, key+"."+k)
		}
	}
	got := slices.AppendSeq(slices.Collect(maps.Keys(effects)), maps.Keys(elsewhere))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the values are %q, want all of them and no other tried, got %q", want, got)
	}
	for name, e := range effects {
		all := func(more string) string {
			c, v := load(t, e[0], e[1])
			set, err := Values([]byte(more))
			if err != nil {
				t.Fatal(err)
			}
			texts, _, err := c.Render(Helm, merge(v, set))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return strings.Join(slices.Collect(maps.Values(texts)), "---\n")
		}
		if before, after := all(""), all(e[2]); strings.Contains(before, e[3]) || !strings.Contains(after, e[3]) {
			t.Errorf("%s: %q is rendered without it: %v, and with it: %v", name, e[3], strings.Contains(before, e[3]), strings.Contains(after, e[3]))
		}
	}
}
