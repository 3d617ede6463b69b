package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const configHead = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// TestConfigCheck tells what files come to. The exit code is of the file.
func TestConfigCheck(t *testing.T) {
	for what, c := range map[string]struct {
		text       string
		code       int
		want, lack []string
	}{
		"the defaults": {"", exitDone, []string{
			"Profile default-scheduler, plugins with the weights of their scores:\n  evaluated: SchedulingGates, PrioritySort, NodeUnschedulable, ",
			"TaintToleration 3, NodeAffinity 2,", "50 a second at the most"}, []string{"No effect", "not evaluated", "decides otherwise", "Extenders"}},
		"what makes no difference": {"percentageOfNodesToScore: 100\nparallelism: 4\nclientConnection: {qps: -1}\n", exitDone, []string{
			"No effect:\n  parallelism: a worker has", "percentageOfNodesToScore: every node is scored", "without a limit"}, []string{"decides otherwise"}},
		"a sample": {"percentageOfNodesToScore: 30\n", exitDeparts, []string{
			"kube-scheduler decides otherwise by this file:\n  percentageOfNodesToScore: every node is scored"}, nil},
		"a sample of one profile": {"profiles: [{percentageOfNodesToScore: 30}]\n", exitDeparts, []string{
			"otherwise by this file:\n  profiles[0].percentageOfNodesToScore: every node is scored"}, nil},
		"a filter without its preparation": {"profiles: [{plugins: {preFilter: {disabled: [{name: NodePorts}]}}}]\n", exitDeparts, []string{
			"otherwise by this file:\n  profiles[0].plugins.preFilter: NodePorts is prepared all the same"}, nil},
		"a plugin that is not evaluated": {
			"profiles: [{schedulerName: a}, {schedulerName: b, plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}]\n", exitDeparts, []string{
				"  not evaluated: GangScheduling", "  profile b: GangScheduling is not evaluated, for its feature gate is off: pods are scheduled as if"}, nil},
		"a slip": {"profiles: [{plugins: {score: {disabled: [{name: NodeLabel}]}}}]\n", exitDone, []string{
			`profiles[0].plugins.score.disabled[0]: no plugin "NodeLabel"`}, []string{"decides otherwise"}},
		"an extender": {"extenders: [{urlPrefix: 'http://u:secret@127.0.0.1:1/x', filterVerb: filter, bindVerb: bind, managedResources: [{name: example.com/gpu}], ignorable: true}]\n",
			exitDone, []string{"Extenders:\n  http://u:xxxxx@127.0.0.1:1/x: filter, bind; asked about pods with example.com/gpu; passed over when it fails\n", `docs/differences.md,
  "Which node a pod gets" and "When a pod is tried"
  "Extenders"`}, []string{"reached", "secret"}},
	} {
		t.Run(what, func(t *testing.T) {
			out, errs, code := command(t, "config", "check", writeFile(t, "config.yaml", configHead+c.text))
			if code != c.code || errs != "" {
				t.Fatalf("got exit code %d, %q, want %d\n%s", code, errs, c.code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("got\n%s\nwant %q in it", out, want)
				}
			}
			for _, lack := range c.lack {
				if strings.Contains(out, lack) {
					t.Errorf("got\n%s\nwant no %q in it", out, lack)
				}
			}
		})
	}
}

// With the feature gates of pod groups their plugins are evaluated; a gate that lacks what it needs is refused as kube-scheduler does it.
func TestConfigCheckWithFeatureGates(t *testing.T) {
	all := "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true,DRAWorkloadResourceClaims=true"
	file := writeFile(t, "config.yaml", configHead)
	for _, c := range []struct {
		gates, file string
		code        int
		want        []string // in the output, or of the error
	}{
		{"", file, exitDone, []string{"evaluated: SchedulingGates"}},
		{all, file, exitDone, []string{"GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"}},
		{all, writeFile(t, "gang.yaml", configHead+"profiles: [{plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}]\n"), exitDone,
			[]string{"GangScheduling"}},
		{"DynamicResourceAllocation=true", file, exitDone, []string{"evaluated: "}},
		{"OpportunisticBatching=false", file, exitDone, []string{"No effect:\n  --feature-gates=OpportunisticBatching: "}},
		{"GangScheduling=true", file, exitFailed, []string{"GangScheduling", "GenericWorkload"}},
		{"GenericWorkload=true,WorkloadAwarePreemption=true", file, exitFailed, []string{"WorkloadAwarePreemption", "GangScheduling"}},
		{"TopologyAwareWorkloadScheduling=true", file, exitFailed, []string{"TopologyAwareWorkloadScheduling", "GenericWorkload"}},
		{"DRAWorkloadResourceClaims=true", file, exitFailed, []string{"DRAWorkloadResourceClaims", "GenericWorkload"}},
		{"GangSchedulings=true", file, exitFailed, []string{"GangSchedulings"}},
		{"GangScheduling=often", file, exitFailed, []string{"often"}},
		{"StorageCapacityScoring=true", file, exitFailed, []string{"can't be honoured: VolumeBinding scores nothing"}},
	} {
		args := []string{"config", "check", c.file}
		if c.gates != "" {
			args = append(args, "--feature-gates="+c.gates)
		}
		out, errs, code := command(t, args...)
		if code != c.code || (code == exitFailed) != (errs != "") {
			t.Errorf("%q: got exit code %d, %q, want %d\n%s", c.gates, code, errs, c.code, out)
		}
		for _, want := range c.want {
			if !strings.Contains(out+errs, want) {
				t.Errorf("%q: got\n%s%s\nwithout %q", c.gates, out, errs, want)
			}
		}
		if strings.Contains(out, "not evaluated") || strings.Contains(out, "decides otherwise") {
			t.Errorf("%q: got\n%s\nwant nothing that is not evaluated", c.gates, out)
		}
	}
}

// The parts of docs/differences.md that are named are there.
func TestConfigCheckNamesPartsOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"Which node a pod gets", "When a pod is tried", "Extenders", "Out-of-tree plugins"} {
		if !strings.Contains(string(page), "\n## "+part+"\n") {
			t.Errorf("docs/differences.md: got no part %q", part)
		}
	}
}

// What is wrong is told as a coordinator tells it, with an exit code that is not the one of a difference.
func TestConfigCheckOfWhatIsWrong(t *testing.T) {
	bad := writeFile(t, "config.yaml", configHead+"profiles: [{plugins: {permit: {enabled: [{name: Coscheduling}]}}}]\n")
	_, want, _ := command(t, "coordinator", "--standalone", "--embedded-etcd", "--config", bad)
	old := writeFile(t, "old.yaml", strings.Replace(configHead, "/v1", "/v1beta3", 1))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{bad}, want},
		{[]string{bad}, "a gang plugin is in cmd/shardsched-plugins"},
		{[]string{old}, "'shardsched convert config' makes v1 of it"},
		{[]string{"nosuch.yaml"}, "no such file"},
		{nil, "give one file"},
		{[]string{"--nonsense"}, "unknown flag"},
	} {
		out, errs, code := command(t, append([]string{"config", "check"}, c.args...)...)
		if code != exitFailed || out != "" || c.want == "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: got exit code %d, %q, %q; want %d, nothing and %q", c.args, code, out, errs, exitFailed, c.want)
		}
	}
}

// A file may come on standard input.
func TestConfigCheckOfStandardInput(t *testing.T) {
	check := func(text string) (string, string, int) {
		var o, e bytes.Buffer
		s := Streams{In: strings.NewReader(text), Out: &o, Err: &e, Env: func(string) string { return "" }}
		code := Main(t.Context(), []string{"config", "check", "-"}, s, Standard())
		return o.String(), e.String(), code
	}
	if out, errs, code := check(configHead + "percentageOfNodesToScore: 30\n"); code != exitDeparts || !strings.Contains(out, "every node is scored") {
		t.Errorf("got exit code %d, %q\n%s", code, errs, out)
	}
	if out, errs, code := check(configHead + "nonsense: 1\n"); code != exitFailed || out != "" || !strings.Contains(errs, "standard input:3: ") {
		t.Errorf("got exit code %d, %q, %q; want the line of standard input", code, out, errs)
	}
}

func TestConfigCheckReachesExtenders(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	file := func(address string) string {
		return writeFile(t, "config.yaml", configHead+fmt.Sprintf("extenders: [{urlPrefix: %s/scheduler, filterVerb: filter}]\n", address))
	}
	out, _, code := command(t, "config", "check", "--reach-extenders", file(server.URL))
	if code != exitDone || !strings.Contains(out, "asked about all pods; reached\n") {
		t.Errorf("got exit code %d, want %d and that it is reached\n%s", code, exitDone, out)
	}
	if got := <-asked; got != "GET /scheduler" {
		t.Errorf("got %q, want no verb of it asked", got)
	}
	if out, _, code = command(t, "config", "check", "--reach-extenders", file(gone.URL)); code != exitDeparts || !strings.Contains(out, "; not reached: ") {
		t.Errorf("got exit code %d, want %d and that it is not reached\n%s", code, exitDeparts, out)
	}
}

// The API server is asked what it serves, and, in pages, for all pods: told are those of each profile, of others, and those that lack something.
func TestConfigCheckOfACluster(t *testing.T) {
	var queries []string
	is, devices := "v1.33.13", http.StatusNotFound
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			fmt.Fprintf(w, `{"gitVersion": %q}`, is)
			return
		case "/apis/resource.k8s.io/v1":
			w.WriteHeader(devices)
			if devices == http.StatusOK {
				fmt.Fprint(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "resource.k8s.io/v1", "resources": []}`)
			}
			return
		}
		queries = append(queries, r.URL.Query().Get("fieldSelector")+" "+r.URL.Query().Get("continue"))
		list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		for _, node := range []string{"n1", ""} {
			list.Items = append(list.Items, v1.Pod{Spec: v1.PodSpec{SchedulerName: "batch", NodeName: node}})
		}
		for i, change := range []func(*v1.PodSpec){
			func(*v1.PodSpec) {},
			func(s *v1.PodSpec) { s.SchedulingGroup = &v1.PodSchedulingGroup{} },
			func(s *v1.PodSpec) { s.ResourceClaims = make([]v1.PodResourceClaim, 65) },
			func(s *v1.PodSpec) { s.TopologySpreadConstraints = make([]v1.TopologySpreadConstraint, 257) },
			func(s *v1.PodSpec) {
				s.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}}
				for key := range 65 {
					s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
						s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, v1.PodAffinityTerm{TopologyKey: fmt.Sprint("k", key)})
				}
			},
		} {
			p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("p", i)}, Spec: v1.PodSpec{SchedulerName: "packing", NodeName: "n1"}}
			change(&p.Spec)
			list.Items = append(list.Items, p)
		}
		if len(queries) == 1 {
			list.Continue = "more"
		}
		if err := json.NewEncoder(w).Encode(&list); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	access := writeFile(t, "view.conf", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`, server.URL))
	out, errs, code := command(t, "config", "check", "--kubeconfig", access, writeFile(t, "config.yaml", twoProfiles))
	if code != exitDeparts {
		t.Errorf("got exit code %d, %q, want %d", code, errs, exitDeparts)
	}
	if want := `Pods of the cluster by profile:
  default-scheduler: 0, 0 of them without a node
  packing: 10, 0 of them without a node
Pods of the cluster whose schedulerName is no profile's, which are left to other schedulers:
  batch: 4, 2 of them without a node
Pods of the cluster that are not scheduled as kube-scheduler would:
  more than 64 resource claims: no node takes it: shop/p2, shop/p2
  more than 64 topology keys, or 256 spread constraints and pod affinity terms: an error of each attempt, if nodes have the keys: shop/p3, shop/p4, shop/p3 and 1 more
  spec.schedulingGroup: pods are scheduled one by one: shop/p1, shop/p1
`; !strings.Contains(out, want) {
		t.Errorf("got\n%s\nwant in it\n%s", out, want)
	}
	if got := strings.Join(queries, "\n"); got != " \n more" {
		t.Errorf("got queries\n%s", got)
	}
	for _, c := range []struct {
		is      string
		devices int
		want    string
	}{
		{is, devices, "  v1.33.13\n  resource.k8s.io/v1 is not served: pods with resource claims are refused\n"},
		{"v1.34.4", http.StatusOK, "  v1.34.4\n  pods that ask for devices as extended resources are refused, unless its gate DRAExtendedResource is on\n"},
		{"v1.36.3", http.StatusOK, "  v1.36.3\nPods of the cluster"},
	} {
		is, devices = c.is, c.devices
		out, errs, code := command(t, "config", "check", "--kubeconfig", access, writeFile(t, "config.yaml", twoProfiles))
		if want := "API server (docs/versions.md):\n" + c.want; code != exitDeparts || !strings.Contains(out, want) {
			t.Errorf("got exit code %d, %q\n%s\nwant\n%s", code, errs, out, want)
		}
	}
}

func TestConvertConfig(t *testing.T) {
	old := strings.Replace(configHead, "/v1", "/v1beta2", 1)
	out, errs, code := command(t, "convert", "config", writeFile(t, "old.yaml", old))
	if code != exitDone || !strings.Contains(out, "#   profiles[0].plugins.score: weight 1 is kept of TaintToleration") {
		t.Fatalf("got exit code %d, %s\n%s", code, errs, out)
	}
	if out, errs, code = command(t, "config", "check", writeFile(t, "new.yaml", out)); code != exitDone || !strings.Contains(out, "TaintToleration 1,") {
		t.Errorf("got exit code %d, %s\n%s\nwant what is converted to have the weight of then", code, errs, out)
	}
	_, errs, code = command(t, "convert", "config", writeFile(t, "old.yaml", old+"metricsBindAddress: 0.0.0.0:10251\n"))
	if code != exitFailed || !strings.Contains(errs, "old.yaml:3: metricsBindAddress: has no meaning in v1") {
		t.Errorf("got exit code %d, %q; want the field refused", code, errs)
	}
}
