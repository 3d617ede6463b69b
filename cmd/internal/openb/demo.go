package openb

import (
	"fmt"
	"math/rand/v2"
)

// Demo is a cluster shaped like the trace: its 1,523 nodes and 8,152 pods, with
// the pods in an order drawn from the seed. The trace keeps pods in the order
// of their creation; the demo mixes them, and the same seed mixes them alike.
func Demo(seed uint64) ([]Node, []Pod) {
	var nodes []Node
	for _, s := range nodeShapes() {
		for range s.count {
			nodes = append(nodes, Node{MilliCPU: s.milliCPU, MemoryMiB: s.memoryMiB, GPUs: s.gpus, Model: s.model})
		}
	}
	var pods []Pod
	for _, s := range podShapes() {
		for range s.count {
			pods = append(pods, Pod{MilliCPU: s.milliCPU, MemoryMiB: s.memoryMiB, GPUs: s.gpus, GPUMilli: s.gpuMilli})
		}
	}
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
