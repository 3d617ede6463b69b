package openb

import (
	_ "embed" // the shapes
	"fmt"
	"math/rand/v2"
	"strings"
)

// The shapes of the trace's nodes and pods, most common first, and how many are alike: 27 shapes of 1,523 nodes, 151 of
// 8,152 pods. Source: github.com/hkust-adsl/kubernetes-scheduler-simulator, data/csv, openb_node_list_all_node.csv and
// openb_pod_list_default.csv, commit 8f3d6417 (Apache-2.0); Weng et al., USENIX ATC 2023.
var (
	//go:embed demo_nodes.csv
	nodeShapes string
	//go:embed demo_pods.csv
	podShapes string
)

// Demo is a cluster shaped like the trace: its 1,523 nodes and 8,152 pods, with
// the pods in an order drawn from the seed. The trace keeps pods in the order
// of their creation; the demo mixes them, and the same seed mixes them alike.
func Demo(seed uint64) ([]Node, []Pod) {
	var nodes []Node
	repeat(nodeShapes, func(r *row) {
		nodes = append(nodes, Node{MilliCPU: r.amount("cpu_milli"), MemoryMiB: r.amount("memory_mib"), GPUs: r.amount("gpu"),
			Model: r.text("model")})
	})
	var pods []Pod
	repeat(podShapes, func(r *row) {
		pods = append(pods, Pod{MilliCPU: r.amount("cpu_milli"), MemoryMiB: r.amount("memory_mib"), GPUs: r.amount("num_gpu"),
			GPUMilli: r.amount("gpu_milli")})
	})
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	for i := range nodes {
		nodes[i].Name = fmt.Sprintf("demo-node-%04d", i)
	}
	for i := range pods {
		pods[i].Name = fmt.Sprintf("demo-pod-%04d", i)
	}
	return nodes, pods
}

// repeat calls add for each shape as often as its count says.
func repeat(shapes string, add func(*row)) {
	err := read(strings.NewReader(shapes), "shapes", []string{"count"}, func(r *row) {
		for range r.amount("count") {
			add(r)
		}
	})
	if err != nil {
		panic(err) // the shapes are ours
	}
}
