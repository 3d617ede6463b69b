// Package cmd holds the commands. This test holds who may import whom.
package cmd

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/shardsched/shardsched/"

// forbidden says what the packages below a folder may not depend on, tests left out.
var forbidden = map[string][]string{
	"proto/...":       {module + "scorer", module + "worker", module + "coordinator", module + "cmd", "k8s.io/"},
	"scorer":          {module + "worker", module + "coordinator", module + "cmd", "k8s.io/", "go.etcd.io/"},
	"worker/...":      {module + "coordinator", module + "cmd", "k8s.io/api/", "k8s.io/kubernetes/"},
	"coordinator/...": {module + "worker", module + "cmd", "k8s.io/kubernetes/"},
	// The loop knows neither where objects come from and go to, nor how its leader was elected.
	"coordinator": {module + "coordinator/api", module + "coordinator/embedetcd", module + "coordinator/kube", module + "coordinator/leader"},
	"cmd/...":     {"k8s.io/kubernetes/"},
}

// layers are the coordinator's packages that hold no loop, lowest first: each depends on
// those named, and on no other of the coordinator's.
var layers = map[string][]string{
	"selector": nil,
	"storage":  nil,
	"objects":  nil,
	"count":    {"selector"},
	"cluster":  {"objects", "selector"},
	"compile":  {"cluster", "count", "objects", "selector", "storage"},
	"volumes":  {"cluster", "compile", "count", "objects", "selector", "storage"},
	"queue":    {"cluster", "compile", "count", "objects", "selector", "storage"},
	"cache":    {"cluster", "compile", "count", "objects", "selector", "storage"},
	"answers":  {"cache", "cluster", "compile", "count", "objects", "selector", "storage"},
	"nominees": {"answers", "cache", "cluster", "compile", "count", "objects", "queue", "selector", "storage", "volumes"},
	"metrics":  nil,
	"extender": nil,
	// What compiled-in plugins run in, and configurations name.
	"framework": {"cluster", "compile", "count", "metrics", "objects", "selector", "storage"},
	"rules":     {"cluster", "compile", "count", "framework", "metrics", "objects", "queue", "selector", "storage"},
	"observe":   {"answers", "cache", "cluster", "compile", "count", "framework", "metrics", "objects", "queue", "rules", "selector", "storage"},
	"config":    {"cluster", "compile", "count", "framework", "metrics", "objects", "queue", "rules", "selector", "storage"},
	"fanout":    nil,
	"tracing":   {"fanout"},
	"extenders": {"answers", "cache", "cluster", "compile", "count", "extender", "fanout", "metrics", "objects", "queue", "selector", "storage", "tracing"},
	"outoftree": {"answers", "cache", "cluster", "compile", "count", "framework", "metrics", "objects", "queue", "rules", "selector", "storage"},
	"preempt": {
		"answers", "cache", "cluster", "compile", "count", "fanout", "nominees", "objects", "queue", "selector", "storage", "tracing",
		"volumes",
	},
	"lease": nil,
	"store": {"lease", "objects", "storage"},
	"api":   {"lease", "objects", "storage", "store"},
	"kube":  {"lease", "objects", "storage"},
}

// impure is what the scorer and the decision engine may not import themselves: no clock, no I/O, no goroutine's tools,
// no gRPC. (The proto package brings gRPC along; the scorer uses its messages only.)
var impure = []string{"time", "os", "io", "net", "context", "sync", "log", "google.golang.org/grpc", "k8s.io/"}

func TestWhatIsPure(t *testing.T) {
	for _, folder := range []string{"scorer", "coordinator/answers"} {
		out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, "../"+folder).CombinedOutput()
		if err != nil {
			t.Fatalf("go list ../%s: %v\n%s", folder, err, out)
		}
		for _, p := range strings.Fields(string(out)) {
			for _, b := range impure {
				if p == b || strings.HasPrefix(p, strings.TrimSuffix(b, "/")+"/") {
					t.Errorf("%s imports %s", folder, p)
				}
			}
		}
	}
}

func TestTheCoordinatorIsLayered(t *testing.T) {
	const prefix = module + "coordinator/"
	for name, allowed := range layers {
		for _, p := range dependencies(t, "coordinator/"+name) {
			if p == module+"coordinator" {
				t.Errorf("coordinator/%s depends on %s", name, p)
			}
			if other, ok := strings.CutPrefix(p, prefix); ok && other != name && !slices.Contains(allowed, other) {
				t.Errorf("coordinator/%s depends on coordinator/%s", name, other)
			}
		}
	}
}

// dependencies are all packages that those of a folder depend on, and they themselves.
func dependencies(t *testing.T, folder string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}", "../"+folder).CombinedOutput()
	if err != nil {
		t.Fatalf("go list ../%s: %v\n%s", folder, err, out)
	}
	return strings.Fields(string(out))
}

func TestImportsFollowTheDesign(t *testing.T) {
	for folder, banned := range forbidden {
		for _, p := range dependencies(t, folder) {
			for _, b := range banned {
				if strings.HasPrefix(p, b) {
					t.Errorf("%s depends on %s", folder, p)
				}
			}
		}
	}
}
