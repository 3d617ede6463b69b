package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const (
	// root is the repository's, from here.
	root = "../../../.."
	// dataVariable names the folder with the real data, which lies beside the repository
	// otherwise.
	dataVariable = "SHARDSCHED_DATA"
)

// dataFolder is the real data's; without it a test has nothing to do.
func dataFolder(t *testing.T, name string) string {
	t.Helper()
	all := os.Getenv(dataVariable)
	if all == "" {
		all = filepath.Join(root, "..", "shared", "data")
	}
	dir, err := filepath.Abs(filepath.Join(all, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the real data is not there: %v; set %s to its folder", err, dataVariable)
	}
	return dir
}

// command is the product, to run in a folder.
type command struct {
	binary, dir string
}

func product(t *testing.T) command {
	t.Helper()
	c := command{dir: t.TempDir()}
	c.binary = filepath.Join(c.dir, "shardsched")
	build := exec.Command("go", "build", "-o", c.binary, "./cmd/shardsched")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return c
}

func (c command) run(t *testing.T, args ...string) []byte {
	t.Helper()
	run := exec.Command(c.binary, args...)
	run.Dir = c.dir
	out, err := run.Output()
	failed, exited := err.(*exec.ExitError)
	const pends = 2 // simulate's exit code where some pods pend
	if err != nil && !(exited && args[0] == "simulate" && failed.ExitCode() == pends) {
		text := err.Error()
		if exited {
			text += "\n" + string(failed.Stderr)
		}
		t.Fatalf("shardsched %s: %s", strings.Join(args, " "), text)
	}
	return out
}

// simulate decides files, and holds what was decided against upstream.
func (c command) simulate(t *testing.T, every int, files ...string) *Result {
	t.Helper()
	args := []string{"simulate", "--decisions", "decisions.jsonl", "--write-objects", "objects.json", "--skip-invalid"}
	for _, f := range files {
		args = append(args, "-f", f)
	}
	c.run(t, args...)
	l := Log{Every: every}
	var err error
	if l.Objects, err = ReadObjects(filepath.Join(c.dir, "objects.json")); err != nil {
		t.Fatal(err)
	}
	log, err := os.Open(filepath.Join(c.dir, "decisions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if l.Decisions, err = ReadDecisions(log); err != nil {
		t.Fatal(err)
	}
	r, err := l.Replay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Differences {
		t.Errorf("%s", d)
	}
	return r
}

// Every fourth node and pod of the openb trace.
func TestOpenb(t *testing.T) {
	data := dataFolder(t, "openb-gpu-2023")
	c := product(t)
	files := map[string]string{"nodes.csv": "openb_node_list_all_node.csv", "pods.csv": "openb_pod_list_gpuspec33.csv"}
	for to, from := range files {
		text, err := os.ReadFile(filepath.Join(data, from))
		if err != nil {
			t.Fatal(err)
		}
		var some strings.Builder
		for i, line := range strings.Split(string(text), "\n") {
			if i%4 == 0 { // the first is the header
				fmt.Fprintln(&some, line)
			}
		}
		if err := os.WriteFile(filepath.Join(c.dir, to), []byte(some.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := c.run(t, "convert", "openb", "--nodes", "nodes.csv", "--pods", "pods.csv")
	if err := os.WriteFile(filepath.Join(c.dir, "openb.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	r := c.simulate(t, 20, "openb.yaml")
	t.Logf("%s", r)
	if r.Decisions < 2000 {
		t.Errorf("got %d decisions, want 2000 or more", r.Decisions)
	}
}

// The workloads of well-known projects, each file on 30 nodes of three zones.
func TestManifests(t *testing.T) {
	data := dataFolder(t, "manifests")
	files, err := filepath.Glob(filepath.Join(data, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := product(t)
	if err := os.WriteFile(filepath.Join(c.dir, "nodes.json"), manifestNodes(t), 0o600); err != nil {
		t.Fatal(err)
	}
	decisions := 0
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			decisions += c.simulate(t, 1, "nodes.json", file).Decisions
		})
	}
	t.Logf("%d decisions", decisions)
	if decisions < 200 {
		t.Errorf("got %d decisions, want 200 or more", decisions)
	}
}

// manifestNodes is a list of nodes with the labels that manifests ask for.
func manifestNodes(t *testing.T) []byte {
	t.Helper()
	w := &shaped{nodes: 30}
	w.zones("eu-west-1a", "eu-west-1b", "eu-west-1c")
	var items []json.RawMessage
	for i, e := range w.objects {
		n := e.Object.(*v1.Node)
		n.TypeMeta.APIVersion, n.TypeMeta.Kind = "v1", "Node"
		n.Labels[v1.LabelOSStable] = "linux"
		n.Labels[v1.LabelArchStable] = []string{"amd64", "arm64"}[i%2]
		n.Labels[v1.LabelInstanceTypeStable] = []string{"m5.large", "p3.2xlarge", "t3.small"}[i%3]
		n.Labels[v1.LabelTopologyRegion] = "eu-west-1"
		if i%10 == 0 {
			n.Labels["node-role.kubernetes.io/control-plane"] = ""
			n.Spec.Taints = []v1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: v1.TaintEffectNoSchedule}}
		}
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, text)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
