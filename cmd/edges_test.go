// Package cmd holds the commands. This test holds who may import whom.
package cmd

import (
	order "cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/shardsched/shardsched/"

// forbidden says what the packages below a folder may not depend on, tests left out.
var forbidden = map[string][]string{
	"proto/...": {module + "scorer", module + "worker", module + "coordinator", module + "cmd", "k8s.io/"},
	"scorer":    {module + "worker", module + "coordinator", module + "cmd", "k8s.io/", "go.etcd.io/"},
	// Kubernetes' types of devices come along with its library of selectors (scorer/devices/selector).
	"worker/...":      {module + "coordinator", module + "cmd", "k8s.io/client-go/kubernetes", "k8s.io/kubernetes/"},
	"coordinator/...": {module + "worker", module + "cmd", "k8s.io/kubernetes/"},
	// The loop knows neither where objects come from and go to, nor how its leader was elected.
	"coordinator": {module + "coordinator/standalone/api", module + "coordinator/standalone/embedetcd", module + "coordinator/kube", module + "coordinator/leader"},
	"cmd/...":     {"k8s.io/kubernetes/"},
}

// impure is what the scorer and the decision engine may not import themselves: no clock, no I/O, no goroutine's tools,
// no gRPC. (The proto package brings gRPC along; the scorer uses its messages only.)
var impure = []string{"time", "os", "io", "net", "context", "sync", "log", "google.golang.org/grpc", "k8s.io/"}

func TestWhatIsPure(t *testing.T) {
	for _, folder := range []string{"scorer", "scorer/devices", "coordinator/answers"} {
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

var rewrite = flag.Bool("rewrite", false, "write testdata/edges.txt anew")

// TestEdges holds testdata/edges.txt to the code, package by package and edge by edge: go test ./cmd -run TestEdges
// -rewrite writes it anew, for the diff to be read.
func TestEdges(t *testing.T) {
	const name = "testdata/edges.txt"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, listed, _ := strings.Cut(string(text), "\n\n")
	want := edges(t)
	if *rewrite {
		if err := os.WriteFile(name, []byte(head+"\n\n"+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(listed, "\n")); d != "" {
		t.Errorf("%s, - the code + the list:\n%s", name, d)
	}
}

// edges has a line for each package of the module, with what it imports of the module: the lowest first, and those of
// one height by name.
func edges(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "../...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		var own []string
		for _, p := range strings.Fields(line) {
			if name, ok := strings.CutPrefix(p, module); ok {
				own = append(own, name)
			}
		}
		imports[own[0]] = own[1:]
	}
	var height func(string) int
	height = func(name string) (n int) {
		for _, below := range imports[name] {
			n = max(n, 1+height(below))
		}
		return n
	}
	var b strings.Builder
	for _, name := range slices.SortedFunc(maps.Keys(imports), func(x, y string) int {
		return order.Or(height(x)-height(y), strings.Compare(x, y))
	}) {
		fmt.Fprintln(&b, strings.TrimSpace(name+": "+strings.Join(imports[name], " ")))
	}
	return b.String()
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
