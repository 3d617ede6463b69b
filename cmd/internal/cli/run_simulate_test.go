package cli

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestASimulationServesWhereItIsTold(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := simulation{sharding: Sharding{Cluster: "test", Workers: 1}, process: Process{HTTPListen: l.Addr().String()}}
	if _, err = m.run(t.Context(), &Input{}, func(*pb.Summary) {}); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("the address is another's: got error %v, want one that names %s", err, l.Addr())
	}
}

// A simulation asks extenders nothing unless it is told to, and never to bind: its pods may be those of a live
// cluster. What it leaves out it says.
func TestASimulationTouchesNothing(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		fmt.Fprint(w, `{"nodenames": ["node"]}`)
	}))
	defer server.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	input := file("cluster.yaml", `
{apiVersion: v1, kind: Node, metadata: {name: node}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {containers: [{name: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: runs}, spec: {nodeName: node, containers: [{name: c, resources: {limits: {example.com/gpu: 1}}}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: gpu}, spec: {parallelism: 3, completions: 3, template: {spec: {restartPolicy: Never, containers: [{name: c, resources: {limits: {example.com/gpu: 1}}}]}}}}
`)
	configuration := file("config.yaml", fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {urlPrefix: %q, filterVerb: filter, bindVerb: bind, nodeCacheCapable: true, managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]}
`, strings.Replace(server.URL, "//", "//user:secret@", 1)))
	for _, x := range []struct {
		call  bool
		asked []string
		told  string
	}{
		{false, nil, "not asked: its say is left out (3 pods)"},
		{true, []string{"/filter", "/filter", "/filter"}, "not asked to bind: pods count as bound where they are placed (3 pods)"},
	} {
		asked = nil
		var out, told bytes.Buffer
		o := SimulateOptions{
			Sharding: Sharding{Cluster: "test", Workers: 1}, Files: []string{input}, Configuration: Configuration{Config: configuration},
			AskExtenders: x.call, Output: "json",
		}
		if err := runSimulate(t.Context(), Streams{Out: &out, Err: &told}, o); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(asked, x.asked) {
			t.Errorf("--ask-extenders=%t: asked %q, want %q", x.call, asked, x.asked)
		}
		if !strings.Contains(told.String(), x.told) || strings.Contains(told.String(), "secret") {
			t.Errorf("--ask-extenders=%t: told %q, want %q and no password", x.call, told.String(), x.told)
		}
		if got := strings.Count(out.String(), `"node": "node"`); got != 4 || !strings.Contains(out.String(), `"placed": true`) {
			t.Errorf("--ask-extenders=%t: got %s, want four pods on the node", x.call, out.String())
		}
	}
}

// Who is preempted in a simulation leaves its devices to others, as in a cluster.
func TestASimulationFreesTheDevicesOfVictims(t *testing.T) {
	dir := t.TempDir()
	input, decisions := filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "decisions.jsonl")
	text := `
{apiVersion: v1, kind: Node, metadata: {name: node}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec: {driver: d, nodeName: node, pool: {name: node, generation: 1, resourceSliceCount: 1}, devices: [{name: a}]}
`
	for _, name := range []string{"had", "wanted"} {
		text += `
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: ` + name + `, namespace: default, resourceVersion: "7"`
		if name == "had" {
			text += `, finalizers: [resource.kubernetes.io/delete-protection]}
status:
  allocation: {devices: {results: [{request: r, driver: d, pool: node, device: a}]}}
  reservedFor: [{resource: pods, name: victim, uid: victim-uid}]
`
		} else {
			text += "}\n"
		}
		text += "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}\n"
	}
	text += `
---
apiVersion: v1
kind: Pod
metadata: {name: victim, uid: victim-uid}
spec: {nodeName: node, containers: [{name: c, resources: {requests: {cpu: 4}}}], resourceClaims: [{name: x, resourceClaimName: had}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: preemptor}, spec: {priority: 1000, containers: [{name: c, resources: {requests: {cpu: 4}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: waits}, spec: {containers: [{name: c}], resourceClaims: [{name: x, resourceClaimName: wanted}]}}
`
	if err := os.WriteFile(input, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, told bytes.Buffer
	o := SimulateOptions{Sharding: Sharding{Cluster: "test", Workers: 1}, Files: []string{input}, Decisions: decisions, Output: "json"}
	if err := runSimulate(t.Context(), Streams{Out: &out, Err: &told}, o); err != nil {
		t.Fatal(err, told.String())
	}
	got, err := os.ReadFile(decisions)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"claims":[{"claim":"default/wanted","devices":["r/d/node/a"]}]`; !strings.Contains(strings.ReplaceAll(string(got), ": ", ":"), want) {
		t.Errorf("got decisions\n%s\nwant one with %s", got, want)
	}
}
