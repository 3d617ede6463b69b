package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A coordinator that keeps no objects refuses them, and the client says what to type instead.
func TestObjectsOfAnAPIServer(t *testing.T) {
	sh := newShell(t)
	sh.server.notKept = true
	if err := os.WriteFile(filepath.Join(sh.dir, "node.yaml"), []byte("{apiVersion: v1, kind: Node, metadata: {name: n1}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	const not = ", and this coordinator keeps none: "
	for args, want := range map[string]string{
		"get po -n shop web-1 web-2":       "pods are the API server's" + not + "kubectl get pods web-1 web-2 -n shop",
		"get rs -A":                        "replicasets are the API server's" + not + "kubectl get replicasets -A",
		"get no -w":                        "nodes are the API server's" + not + "kubectl get nodes",
		"get pvc/data":                     "persistentvolumeclaims are the API server's" + not + "kubectl get persistentvolumeclaims data -n default",
		"delete pod a":                     "pods are the API server's" + not + "kubectl delete pods a -n default",
		"delete -f DIR/node.yaml":          "objects are the API server's" + not + "kubectl delete -f node.yaml",
		"apply -f DIR/node.yaml":           "objects are the API server's" + not + "kubectl apply -f node.yaml",
		"top nodes":                        "nodes are the API server's" + not[:len(not)-2] + ": name the API server with --kubeconfig or --context, and it is asked",
		"get deploy":                       "(by an API server as they are: kubectl get deployments)",
		"top pods --address x --context y": "--address and --kubeconfig or --context: give one or the other",
	} {
		got := sh.run("", strings.Fields(args)...)
		if !strings.Contains(got, want+"\n") || strings.Contains(got, "exit code 0") {
			t.Errorf("%s: got %s\nwant %q", args, got, want)
		}
	}
}

// apiServer serves some nodes and pods, and says what it was asked.
type apiServer struct{ asked []string }

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.asked = append(a.asked, strings.TrimSuffix(r.URL.Path+"?"+q.Get("fieldSelector")+q.Get("labelSelector")+q.Get("continue"), "?"))
	pod := func(namespace, name, node, cpu, phase string) string {
		return fmt.Sprintf(`{"metadata": {"namespace": %q, "name": %q, "labels": {"app": %q}}, "status": {"phase": %q},
			"spec": {"nodeName": %q, "containers": [{"name": "c", "resources": {"requests": {"cpu": %q}}}]}}`, namespace, name, name[:1], phase, node, cpu)
	}
	node := func(name string) string {
		return fmt.Sprintf(`{"metadata": {"name": %q}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}`, name)
	}
	var items []string
	next := ""
	switch r.URL.Path {
	case "/api/v1/nodes":
		items = []string{node("n1"), node("n2")}
	case "/api/v1/pods":
		if q.Get("continue") == "" { // a page of two
			items, next = []string{pod("shop", "a-1", "n1", "1", "Running"), pod("shop", "b-1", "n1", "2", "Succeeded")}, "more"
			break
		}
		items = []string{pod("lab", "a-2", "n1", "500m", "Running"), pod("lab", "c-1", "", "3", "Pending")}
	case "/api/v1/namespaces/shop/pods":
		items = []string{pod("shop", "a-1", "n1", "1", "Running")}
	case "/apis/apps/v1/namespaces/shop/deployments":
		items = []string{`{"metadata": {"name": "web"}}`, `{"metadata": {"name": "api"}}`}
	default:
		http.NotFound(w, r)
		return
	}
	if of, is := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); is {
		items = slices.DeleteFunc(items, func(item string) bool { return !strings.Contains(item, fmt.Sprintf(`"name": %q`, of)) })
	}
	w.Header().Set("Content-Type", "application/json")
	meta, _ := json.Marshal(map[string]string{"resourceVersion": "7", "continue": next})
	kind := map[bool]string{true: "PartialObjectMetadataList", false: "List"}[strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")]
	version := map[bool]string{true: "meta.k8s.io/v1", false: "v1"}[kind != "List"]
	if kind == "List" {
		kind = map[bool]string{true: "NodeList", false: "PodList"}[strings.HasSuffix(r.URL.Path, "nodes")]
	}
	fmt.Fprintf(w, `{"kind": %q, "apiVersion": %q, "metadata": %s, "items": [%s]}`, kind, version, meta, strings.Join(items, ","))
}

// Where an API server is named, top asks that, and no coordinator.
func TestTopAsksTheAPIServer(t *testing.T) {
	for args, x := range map[string]struct {
		want  string
		asked []string
	}{
		"top nodes": {
			"NAME   CPU     CPU%   MEMORY   MEMORY%   PODS\nn1     1500m   38%    0        0%        2/110\nn2     0       0%     0        0%        0/110\n",
			[]string{"/api/v1/nodes", "/api/v1/pods", "/api/v1/pods?more"},
		},
		"top node n2 --no-headers": {
			"n2   0   0%   0   0%   0/110\n",
			[]string{"/api/v1/nodes?metadata.name=n2", "/api/v1/pods?spec.nodeName=n2", "/api/v1/pods?spec.nodeName=n2more"},
		},
		"top pods -n shop -l app=a": {
			"NAME   NODE   CPU   MEMORY   OTHER REQUESTS\na-1    n1     1     0        <none>\n", []string{"/api/v1/namespaces/shop/pods?app=a"},
		},
		"top pods -A --no-headers": {
			"lab    c-1   <none>   3      0   <none>\nshop   a-1   n1       1      0   <none>\nlab    a-2   n1       500m   0   <none>\n",
			[]string{"/api/v1/pods", "/api/v1/pods?more"},
		},
		"top pods -n shop nothing": {"error: no pod \"nothing\"\n", []string{"/api/v1/namespaces/shop/pods?metadata.name=nothing"}},
	} {
		t.Run(args, func(t *testing.T) {
			a := &apiServer{}
			config := serveKubernetes(t, a)
			var out bytes.Buffer
			s := Streams{Out: &out, Err: &out, Env: func(string) string { return "nowhere:1" }}
			Main(t.Context(), append(strings.Fields(args), "--kubeconfig", config), s, Runs{})
			if out.String() != x.want || !slices.Equal(a.asked, x.asked) {
				t.Errorf("got\n%sby %q\nwant\n%sby %q", out.String(), a.asked, x.want, x.asked)
			}
		})
	}
}

// A coordinator that keeps no objects leaves top to the API server of $KUBECONFIG.
func TestTopFollowsKUBECONFIG(t *testing.T) {
	sh := newShell(t)
	sh.server.notKept = true
	t.Setenv("KUBECONFIG", serveKubernetes(t, &apiServer{}))
	var out bytes.Buffer
	Main(t.Context(), []string{"top", "node", "n2", "--no-headers", "--address", sh.address}, Streams{Out: &out, Err: &out, Env: os.Getenv}, Runs{})
	if want := "n2   0   0%   0   0%   0/110\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// complete asks for what a shell would offer behind some words: a command and its arguments.
func complete(t *testing.T, program string, env map[string]string, words ...string) []string {
	t.Helper()
	var out bytes.Buffer
	s := Streams{Out: &out, Err: &bytes.Buffer{}, Env: func(name string) string { return env[name] }, Program: program}
	Main(t.Context(), append([]string{"__complete", words[0], "--patience", "1m"}, words[1:]...), s, Runs{})
	var found []string
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, ":") {
			found = append(found, line)
		}
	}
	return found
}

// Names are completed from whoever keeps the objects.
func TestNamesAreCompleted(t *testing.T) {
	const text = `
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, pods: 9}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: one, namespace: lab}, spec: {containers: [{name: c}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: lab}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}
`
	sh := newShell(t)
	sh.run(text, "apply", "-f", "-")
	standalone := map[string]string{addressVariable: sh.address}
	bare := newShell(t)
	bare.server.notKept = true
	keepsNone := map[string]string{addressVariable: bare.address}
	config := serveKubernetes(t, &apiServer{})
	for line, x := range map[string]struct {
		env  map[string]string
		want string
	}{
		"explain ":                                       {standalone, "pod node deployment replicaset statefulset daemonset job replicationcontroller"},
		"explain node ":                                  {standalone, "n1"},
		"explain pod -n lab ":                            {standalone, "one"},
		"explain deployment -n shop ":                    {standalone, "web"},
		"explain -n shop deployment/":                    {standalone, "deployment/web"},
		"explain node n1 ":                               {standalone, ""},
		"explain pod one --node ":                        {standalone, "n1"},
		"explain -n ":                                    {standalone, "lab shop"},
		"pending -n ":                                    {standalone, "lab shop"},
		"pending --by ":                                  {standalone, "reason workload namespace pod"},
		"trace -n lab ":                                  {standalone, "one"},
		"get pods -n lab ":                               {standalone, "one"},
		"explain pod -n shop ":                           {keepsNone, "db-0 web-1 web-2"},
		"explain statefulset -n shop ":                   {keepsNone, "db"},
		"pending --namespace ":                           {keepsNone, "lab shop"},
		"explain pod --kubeconfig CONFIG -n shop ":       {nil, "a-1"},
		"explain deploy --kubeconfig CONFIG -n shop ":    {nil, "api web"},
		"explain node --kubeconfig CONFIG ":              {nil, "n1 n2"},
		"explain nothing ":                               {standalone, ""},
		"explain pod --address nonsense --patience 1ms ": {nil, ""},
	} {
		words := strings.Split(strings.ReplaceAll(line, "CONFIG", config), " ")
		if got := strings.Join(complete(t, "shardsched", x.env, words...), " "); got != x.want {
			t.Errorf("%q: got %q, want %q", line, got, x.want)
		}
	}
	t.Setenv("KUBECONFIG", config)
	if got := complete(t, "kubectl-shardsched", nil, "explain", "node", ""); strings.Join(got, " ") != "n1 n2" {
		t.Errorf("kubectl's plugin: got %q, want the API server's nodes", got)
	}
}
