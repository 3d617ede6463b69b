package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
)

const packingPolicy = `{"kind": "Policy", "apiVersion": "v1",
 "predicates": [{"name": "GeneralPredicates"}, {"name": "CheckNodeMemoryPressure"}],
 "priorities": [{"name": "MostRequestedPriority", "weight": 7}]}
`

// converted runs a command line with something on standard input.
func converted(t *testing.T, in string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	s := Streams{In: strings.NewReader(in), Out: &o, Err: &e, Env: func(string) string { return "" }}
	code = Main(t.Context(), args, s, Standard())
	return o.String(), e.String(), code
}

func TestConvertPolicy(t *testing.T) {
	path := writeFile(t, "policy.json", packingPolicy)
	out, errs, code := converted(t, "", "convert", "policy", path)
	if code != 0 || !strings.Contains(out, "#   MostRequestedPriority 7 -> NodeResourcesFit: by MostAllocated") || !strings.Contains(out, "type: MostAllocated") {
		t.Fatalf("got exit code %d, %s\n%s", code, errs, out)
	}
	if _, err := config.Parse("converted", []byte(out)); err != nil {
		t.Error(err)
	}
	again, _, code := converted(t, packingPolicy, "convert", "policy", "-")
	if body(again) != body(out) || code != 0 {
		t.Errorf("standard input: got exit code %d\n%s", code, again)
	}
	manifest, err := json.Marshal(v1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, Data: map[string]string{"policy.cfg": packingPolicy}})
	if err != nil {
		t.Fatal(err)
	}
	if again, errs, code = converted(t, string(manifest), "convert", "policy", "--from-configmap", "-"); body(again) != body(out) || code != 0 {
		t.Errorf("a ConfigMap: got exit code %d, %s\n%s", code, errs, again)
	}
	to := filepath.Join(t.TempDir(), "out.yaml")
	if _, errs, code = converted(t, "", "convert", "policy", "--provider", "DefaultProvider", "--from-version", "v1.11", "--file", to); code != 0 {
		t.Fatalf("a provider: got exit code %d, %s", code, errs)
	}
	if text, err := os.ReadFile(to); err != nil || strings.Contains(string(text), "ImageLocality") || !strings.Contains(string(text), "# The algorithm provider DefaultProvider as kube-scheduler 1.11 read it.") {
		t.Errorf("a provider: got %v\n%s", err, text)
	}
}

// body is a text without its comments.
func body(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestMistakesWithPolicies(t *testing.T) {
	good := writeFile(t, "policy.json", packingPolicy)
	bad := writeFile(t, "bad.json", strings.Replace(packingPolicy, "GeneralPredicates", "Generally", 1))
	file := writeFile(t, "config.yaml", twoProfiles)
	const coordinator = "coordinator --write-config-to - "
	for line, want := range map[string]string{
		"convert":        "name what to convert",
		"convert policy": "give one of",
		"convert policy " + good + " --provider x":                            "give one of",
		"convert policy --provider TalkintDataProvider":                       `algorithm provider "TalkintDataProvider" is not registered`,
		"convert policy --from-version 1.23 " + good:                          `--from-version: "1.23" is no version from 1.8 to 1.22`,
		"convert policy " + bad:                                               bad + `:2: predicates[0]: predicate type not found for "Generally"`,
		"convert policy --from-configmap " + good:                             `no ConfigMap with the key "policy.cfg"`,
		"convert policy " + good + ".none":                                    "no such file",
		coordinator + "--policy-config-file " + good + " --config " + file:    "--policy-config-file and --config",
		coordinator + "--algorithm-provider DefaultProvider --config " + file: "--algorithm-provider and --config",
		coordinator + "--algorithm-provider Mine":                             "--algorithm-provider: algorithm provider \"Mine\" is not registered",
		coordinator + "--use-legacy-policy-config":                            "--policy-config-file: required when --use-legacy-policy-config is true",
		coordinator + "--standalone --policy-configmap x":                     "--policy-configmap: it means nothing with --standalone",
		coordinator + "--policy-config-file " + bad:                           "predicate type not found",
		coordinator + "--policy-config-file " + good + ".none":                "--policy-config-file: open",
	} {
		if out, errs, code := converted(t, "", strings.Fields(line)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: want %q, got exit code %d, %s %s", line, want, code, errs, out)
		}
	}
}

// TestAPolicyTakesTheFilesPlace: a file in every mode, a ConfigMap from the API server, a provider; the
// precedence is kube-scheduler's.
func TestAPolicyTakesTheFilesPlace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := &v1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, Data: map[string]string{}}
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/namespaces/kube-system/configmaps/ours":
			m.Data["policy.cfg"] = strings.Replace(packingPolicy, "7", "9", 1)
		case "/api/v1/namespaces/other/configmaps/empty":
		case "/api/v1/namespaces/other/configmaps/bad":
			m.Data["policy.cfg"] = "kind: Policy\napiVersion: v1\npredicats: []\n"
		case "/api/v1/namespaces/kube-system/configmaps/locked":
			w.WriteHeader(http.StatusForbidden)
			json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonForbidden, Code: 403})
			return
		default:
			w.WriteHeader(http.StatusNotFound)
			json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
			return
		}
		json.NewEncoder(w).Encode(m)
	}))
	defer server.Close()
	path := writeFile(t, "policy.json", packingPolicy)
	const coordinator = "coordinator --write-config-to - --kube-api-content-type application/json --master "
	for _, test := range []struct{ line, want string }{
		{"--policy-config-file " + path, "weight: 7\n"},
		{"--policy-config-file " + path + " --standalone", "weight: 7\n"},
		{"--policy-configmap ours", "weight: 9\n"},
		{"--policy-configmap ours --policy-configmap-namespace=", "weight: 9\n"},
		{"--policy-configmap ours --policy-config-file " + path, "weight: 9\n"},
		{"--policy-configmap ours --use-legacy-policy-config --policy-config-file " + path, "weight: 7\n"},
		{"--algorithm-provider ClusterAutoscalerProvider", "type: MostAllocated\n"},
		{"--policy-config-file " + path + " --leader-elect=false --kube-api-qps=77", "qps: 77\n"},
		{"--policy-configmap locked", "Role with get on this ConfigMap"},
		{"--policy-configmap none", "couldn't get policy ConfigMap kube-system/none"},
		{"--policy-configmap empty --policy-configmap-namespace other", `policy ConfigMap other/empty: missing policy config map value at key "policy.cfg"`},
		{"--policy-configmap bad --policy-configmap-namespace other", "ConfigMap other/bad policy.cfg:3: predicats: unknown field"},
	} {
		line := strings.Fields(coordinator + server.URL + " " + test.line)
		if strings.Contains(test.line, "--standalone") {
			line = strings.Fields("coordinator --write-config-to - " + test.line)
		}
		if out, errs, _ := converted(t, "", line...); !strings.Contains(out+errs, test.want) {
			t.Errorf("%s: want %q, got\n%s%s", test.line, test.want, out, errs)
		}
	}
}

// TestGatesReachTheScheduler: those that are honoured change its settings, and a profile.
func TestGatesReachTheScheduler(t *testing.T) {
	for line, want := range map[string]coordinator.SchedulerConfig{
		"": {},
		"--feature-gates=SchedulerPopFromBackoffQ=false": {WaitBackoffOut: true},
		"--feature-gates=SchedulerAsyncPreemption=false": {SyncPreemption: true},
	} {
		got, code, errs := capture(t, append([]string{"coordinator", "--standalone", "--embedded-etcd"}, strings.Fields(line)...)...)
		o, ok := got.(CoordinatorOptions)
		if !ok || code != 0 {
			t.Fatalf("%q: got exit code %d, %s", line, code, errs)
		}
		var made coordinator.SchedulerConfig
		o.honour(&made)
		if made.WaitBackoffOut != want.WaitBackoffOut || made.SyncPreemption != want.SyncPreemption {
			t.Errorf("%q: got %v, %v", line, made.WaitBackoffOut, made.SyncPreemption)
		}
	}
	const off = "NodeDeclaredFeatures=false,ExtendWebSocketsToKubelet=false,InPlacePodLevelResourcesVerticalScaling=false,InPlacePodVerticalScalingInitContainers=false,RestartAllContainersOnContainerExits=false"
	for _, mode := range []string{"", "--standalone"} {
		for gates, want := range map[string]bool{"NodeDeclaredFeatures=true": true, off: false} {
			out, errs, code := command(t, strings.Fields("coordinator --write-config-to - --feature-gates "+gates+" "+mode)...)
			if code != 0 || strings.Contains(out, "name: NodeDeclaredFeatures") != want {
				t.Errorf("%s %s: want the plugin %v, got exit code %d, %s\n%s", mode, gates, want, code, errs, out)
			}
		}
		if _, errs, code := command(t, strings.Fields("coordinator --embedded-etcd --feature-gates StorageCapacityScoring=true "+mode)...); code != exitUsage || !strings.Contains(errs, "can't be honoured: VolumeBinding scores nothing") {
			t.Errorf("%s: a gate that is refused: got exit code %d, %s", mode, code, errs)
		}
	}
}
