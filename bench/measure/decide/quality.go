package main

import (
	"math"

	v1 "k8s.io/api/core/v1"
)

// Quality is how good placements are: how evenly the cluster is used, and how much of it.
type Quality struct {
	// Pods that were placed, on so many nodes.
	Pods      int `json:"pods"`
	NodesUsed int `json:"nodesUsed"`
	// CPU and memory, as shares of what the nodes have: the mean of all nodes' shares, their standard
	// deviation, and the fullest node's.
	CPU    Spread `json:"cpu"`
	Memory Spread `json:"memory"`
}

// Spread is how shares are spread over nodes.
type Spread struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	Max       float64 `json:"max"`
}

// amounts are milli-CPU and bytes.
type amounts [2]float64

// quality is what a workload's placements are judged by.
type quality struct {
	nodes     map[string]int
	allocated []amounts // by node
	used      []amounts // by node, of the pods that were there before
	asked     map[string]amounts
}

func newQuality(w *Workload) *quality {
	q := &quality{nodes: map[string]int{}, asked: map[string]amounts{}}
	for i, n := range w.Nodes {
		q.nodes[n.Name] = i
		q.allocated = append(q.allocated, amountsOf(n.Status.Allocatable))
	}
	q.used = make([]amounts, len(w.Nodes))
	for _, p := range w.Placed {
		q.used[q.nodes[p.Spec.NodeName]].add(requests(p))
	}
	for _, p := range w.Pods {
		q.asked[string(p.UID)] = requests(p)
	}
	return q
}

func (a *amounts) add(b amounts) {
	for i := range a {
		a[i] += b[i]
	}
}

func amountsOf(list v1.ResourceList) amounts {
	return amounts{float64(list.Cpu().MilliValue()), float64(list.Memory().Value())}
}

func requests(p *v1.Pod) (sum amounts) {
	for i := range p.Spec.Containers {
		sum.add(amountsOf(p.Spec.Containers[i].Resources.Requests))
	}
	return sum
}

// of judges decisions.
func (q *quality) of(decisions []decision) Quality {
	used := append([]amounts(nil), q.used...)
	taken := make([]bool, len(used))
	var out Quality
	for i := range decisions {
		d := &decisions[i]
		node, ok := q.nodes[d.Node]
		if !ok {
			continue
		}
		out.Pods++
		if !taken[node] {
			taken[node], out.NodesUsed = true, out.NodesUsed+1
		}
		used[node].add(q.asked[d.UID])
	}
	out.CPU, out.Memory = q.spread(used, 0), q.spread(used, 1)
	return out
}

func (q *quality) spread(used []amounts, resource int) (s Spread) {
	var sum, squares float64
	for i := range used {
		if q.allocated[i][resource] == 0 {
			continue
		}
		share := used[i][resource] / q.allocated[i][resource]
		sum, squares, s.Max = sum+share, squares+share*share, max(s.Max, share)
	}
	n := float64(max(len(used), 1))
	s.Mean = sum / n
	s.Deviation = math.Sqrt(max(squares/n-s.Mean*s.Mean, 0))
	return s
}
