package workload

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Namespace is where pods are.
const Namespace = "default"

const zones = 3

// Zone is the one of the ith node.
func Zone(i int) string { return fmt.Sprintf("zone-%d", i%zones) }

// Node is one of three sizes; a few nodes would rather not have pods.
func Node(i int) *v1.Node {
	sizes := []struct{ cpu, memory string }{{"16", "64Gi"}, {"32", "128Gi"}, {"64", "256Gi"}}
	size := sizes[i/zones%len(sizes)]
	return Labelled(i, Zone(i), "type-"+size.cpu).CPU(size.cpu).Memory(size.memory).Obj()
}

// Labelled is a node without CPU and memory.
func Labelled(i int, zone, kind string) *build.NodeBuilder {
	name := fmt.Sprintf("node-%d", i)
	b := build.Node(name).EphemeralStorage("200Gi").Zone(zone).
		Label(v1.LabelHostname, name).Label(v1.LabelTopologyRegion, "region").
		Label(v1.LabelInstanceTypeStable, kind).Label(v1.LabelOSStable, "linux").Label(v1.LabelArchStable, "amd64").
		Image(300<<20, "base:1")
	if i%16 == 0 {
		b.Taint("spot:PreferNoSchedule")
	}
	return b
}

// Distinct has the ith pod request what no other does; those that are on nodes differ from those that
// wait, too.
func Distinct(b *build.PodBuilder, i int, placed bool) *build.PodBuilder {
	odd := 0
	if placed {
		odd = 1
	}
	return b.Label("app", "distinct").CPU(fmt.Sprintf("%dm", 100+i%101)).Memory(fmt.Sprintf("%dKi", 100<<10+2*i+odd))
}
