package openb

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/manifest"
)

// data is the folder of the trace, beside the repository.
const data = "../../../../shared/data/openb-gpu-2023"

// open opens a file of the trace. Without the folder the test is skipped: the
// trace is not part of the repository.
func open(t *testing.T, name string) io.Reader {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, name))
	if os.IsNotExist(err) {
		t.Skipf("the openb trace is not at %s", data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(text)
}

// tally counts what is alike.
func tally[T any, K comparable](all []T, key func(T) K) map[K]int {
	counts := map[K]int{}
	for _, one := range all {
		counts[key(one)]++
	}
	return counts
}

type nodeKey struct {
	milliCPU, memoryMiB, gpus int64
	model                     string
}

type podKey struct{ milliCPU, memoryMiB, gpus, gpuMilli int64 }

func nodeKeyOf(n Node) nodeKey { return nodeKey{n.MilliCPU, n.MemoryMiB, n.GPUs, n.Model} }
func podKeyOf(p Pod) podKey    { return podKey{p.MilliCPU, p.MemoryMiB, p.GPUs, p.GPUMilli} }

func TestDemoHasTheShapesOfTheTrace(t *testing.T) {
	wantNodes, err := ReadNodes(open(t, "openb_node_list_all_node.csv"), "nodes")
	if err != nil {
		t.Fatal(err)
	}
	wantPods, err := ReadPods(open(t, "openb_pod_list_default.csv"), "pods")
	if err != nil {
		t.Fatal(err)
	}
	nodes, pods := Demo(7)
	if d := cmp.Diff(tally(wantNodes, nodeKeyOf), tally(nodes, nodeKeyOf), cmp.AllowUnexported(nodeKey{})); d != "" {
		t.Errorf("node shapes, - trace + demo:\n%s", d)
	}
	if d := cmp.Diff(tally(wantPods, podKeyOf), tally(pods, podKeyOf), cmp.AllowUnexported(podKey{})); d != "" {
		t.Errorf("pod shapes, - trace + demo:\n%s", d)
	}
}

func TestDemoIsDeterministic(t *testing.T) {
	nodes, pods := Demo(1)
	if got, want := [2]int{len(nodes), len(pods)}, [2]int{1523, 8152}; got != want {
		t.Errorf("got %d nodes and pods, want %d", got, want)
	}
	if got, want := [2]int{strings.Count(nodeShapes, "\n") - 1, strings.Count(podShapes, "\n") - 1}, [2]int{27, 151}; got != want {
		t.Errorf("got %d node and pod shapes, want %d", got, want)
	}
	againNodes, againPods := Demo(1)
	if d := cmp.Diff(pods, againPods) + cmp.Diff(nodes, againNodes); d != "" {
		t.Errorf("the same seed gave another cluster:\n%s", d)
	}
	if _, other := Demo(2); cmp.Equal(pods, other) {
		t.Error("another seed gave the same order of pods")
	}
}

func TestTraceFilesCanBeRead(t *testing.T) {
	tests := []struct {
		file         string
		pods, shares int
		listed       int // pods with models
	}{
		{"openb_pod_list_default.csv", 8152, 3078, 0},
		{"openb_pod_list_gpuspec33.csv", 8152, 3078, 2388},
		{"openb_pod_list_multigpu50.csv", 9061, -1, 0},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			pods, err := ReadPods(open(t, test.file), test.file)
			if err != nil {
				t.Fatal(err)
			}
			shares, listed := 0, 0
			for _, p := range pods {
				if p.GPUs == 1 && p.GPUMilli < whole {
					shares++
				}
				if len(p.Models) > 0 {
					listed++
				}
				if sorted := slices.Sorted(slices.Values(p.Models)); len(slices.Compact(sorted)) != len(p.Models) {
					t.Fatalf("%s: got models %v, want each once", p.Name, p.Models)
				}
			}
			if len(pods) != test.pods || listed != test.listed || test.shares >= 0 && shares != test.shares {
				t.Errorf("got %d pods, %d shares, %d with models; want %d, %d, %d", len(pods), shares, listed, test.pods, test.shares, test.listed)
			}
		})
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	const header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
	tests := []struct{ name, text, want string }{
		{"no header", "", "f.csv: the file is empty, want a header with name,cpu_milli,memory_mib,num_gpu,gpu_milli"},
		{"a column is missing", "name,cpu_milli\n", "f.csv:1: the header lacks memory_mib, got name,cpu_milli"},
		{"not a number", header + "a,1,1,0,0\nb,x,1,0,0\n", `f.csv:3: cpu_milli: "x" is not a whole number`},
		{"negative", header + "a,-1,1,0,0\n", "f.csv:2: cpu_milli: -1 is not between 0 and 1099511627776"},
		{"a line too short", header + "a,1\n", "f.csv:2: column 1: wrong number of fields"},
		{"an open quote", header + "a,1,1,0,\"\n", "f.csv:2: column 11: extraneous or missing \" in quoted-field"},
		{"a name twice", header + "a,1,1,0,0\nb,1,1,0,0\na,1,1,0,0\n", `f.csv:4: name: "a" is given twice; first at line 2`},
		{"no name", header + ",1,1,0,0\n", "f.csv:2: name: is empty"},
		{"a share of two", header + "a,1,1,2,500\n", "f.csv:2: gpu_milli: 500 of each of 2 GPUs: a share is of one GPU"},
		{"more than a GPU", header + "a,1,1,1,1001\n", "f.csv:2: gpu_milli: 1001 is not between 1 and 1000"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ReadPods(strings.NewReader(test.text), "f.csv")
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	_, err := ReadNodes(strings.NewReader("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,2,\n"), "n.csv")
	if want := `n.csv:2: model: "" with 2 GPUs`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestWrittenObjectsReadBack holds that both forms give the same objects again.
func TestWrittenObjectsReadBack(t *testing.T) {
	nodes, pods := Objects(
		[]Node{{Name: "cpu", MilliCPU: 32000, MemoryMiB: 1024}, {Name: "gpu", MilliCPU: 8000, MemoryMiB: 2048, GPUs: 2, Model: "T4"}},
		[]Pod{
			{Name: "plain", MilliCPU: 1500, MemoryMiB: 3},
			{Name: "whole", MilliCPU: 1000, GPUs: 2, GPUMilli: 1000, Models: []string{"T4", "P100"}},
			{Name: "share", MilliCPU: 1000, GPUs: 1, GPUMilli: 460},
		})
	var want []runtime.Object
	for _, n := range nodes {
		want = append(want, n)
	}
	for _, p := range pods {
		want = append(want, p)
	}
	for _, format := range []string{"yaml", "json"} {
		var text bytes.Buffer
		if err := Write(&text, format, nodes, pods); err != nil {
			t.Fatal(err)
		}
		set, err := manifest.Read([]string{"-"}, manifest.Options{Stdin: &text}, &manifest.Report{})
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if len(set.Objects) != len(want) {
			t.Fatalf("%s: got %d objects, want %d", format, len(set.Objects), len(want))
		}
		for i, got := range set.Objects {
			if !equality.Semantic.DeepEqual(got.Value, want[i]) {
				t.Errorf("%s: got %v, want %v", format, got.Value, want[i])
			}
		}
	}
	if err := Write(io.Discard, "xml", nil, nil); err == nil {
		t.Error("got no error for a form that does not exist")
	}
}

func TestResources(t *testing.T) {
	nodes, pods := Objects(
		[]Node{{Name: "gpu", MilliCPU: 8000, MemoryMiB: 2048, GPUs: 2, Model: "T4"}},
		[]Pod{{Name: "whole", GPUs: 2, GPUMilli: 1000}, {Name: "share", GPUs: 1, GPUMilli: 460}, {Name: "one", GPUs: 1, GPUMilli: 1000}})
	amounts := func(p int) [2]int64 {
		r := pods[p].Spec.Containers[0].Resources.Requests
		return [2]int64{r.Name(GPU, "").Value(), r.Name(GPUMilli, "").Value()}
	}
	if got, want := nodes[0].Status.Allocatable.Name(GPUMilli, "").Value(), int64(2000); got != want {
		t.Errorf("got %d thousandths on a node with two GPUs, want %d", got, want)
	}
	for i, want := range [][2]int64{{2, 2000}, {0, 460}, {1, 1000}} {
		if got := amounts(i); got != want {
			t.Errorf("%s: got GPUs and thousandths %d, want %d", pods[i].Name, got, want)
		}
	}
}

// FuzzReadPods feeds arbitrary bytes: what is read without an error is within bounds.
func FuzzReadPods(f *testing.F) {
	f.Add("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,2,1,460\n")
	f.Add("gpu_milli,num_gpu,memory_mib,cpu_milli,name,gpu_spec\n1000,8,1,1,\"b\",V100M16|V100M32|V100M32\n")
	f.Fuzz(func(t *testing.T, text string) {
		pods, err := ReadPods(strings.NewReader(text), "f.csv")
		if err != nil {
			return
		}
		for _, p := range pods {
			if p.Name == "" || p.MilliCPU < 0 || p.MemoryMiB > maxAmount || p.GPUs == 1 && (p.GPUMilli < 1 || p.GPUMilli > whole) {
				t.Errorf("got %+v, want a name and amounts within bounds", p)
			}
		}
		Objects(nil, pods)
	})
}
