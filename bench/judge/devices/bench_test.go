package devices

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/internal/testkit/claims"
	"github.com/shardsched/shardsched/scorer/devices"
	"github.com/shardsched/shardsched/scorer/devices/selector"
)

// shapes are clusters as scheduler_perf has them, 100 nodes of 10 devices, and what is asked.
var shapes = map[string]func() *claims.Scene{
	"free": func() *claims.Scene { return fleet(0, "", "request r gpu") },
	"full": func() *claims.Scene { return fleet(10, "", "request r gpu") },
	"last": func() *claims.Scene { return fleet(9, "", "request r gpu") },
	"pair": func() *claims.Scene { return fleet(4, "", "request r gpu 2\nmatch numa") },
	"list": func() *claims.Scene { return fleet(5, "", "first r\nor s1 none\nor s2 gpu 2\nor s3 gpu") },
	"partitions": func() *claims.Scene {
		return fleet(3, "-set/memory:10Gi,cores:1", "request r gpu 2\nmatch numa")
	},
	"short": func() *claims.Scene { return fleet(0, "", "request r1 gpu 8\nrequest r2 gpu 3") },
}

func fleet(busy int, words, ask string) *claims.Scene {
	var b strings.Builder
	b.WriteString("class gpu device.driver == \"gpu.example.com\"\nclass none device.driver == \"none.example.com\"\n")
	for n := range 100 {
		fmt.Fprintf(&b, "node n%d\npool n%d\n", n, n)
		if words != "" {
			fmt.Fprintf(&b, "slice c%d on=n%d\ncounters set memory:80Gi cores:7\n", n, n)
		}
		fmt.Fprintf(&b, "slice s%d on=n%d\n", n, n)
		for d := range 10 {
			fmt.Fprintf(&b, "dev instance-%d model=A100 family=GPU driverVersion=v1.2.3 numa=%d memory:1Gi %s\n", d, d%2, words)
		}
		for d := range busy {
			fmt.Fprintf(&b, "used n%d/instance-%d\n", n, d)
		}
	}
	s, err := claims.Read(b.String())
	if err == nil {
		err = s.Ask("claim c\n" + ask + "\n")
	}
	if err != nil {
		panic(err)
	}
	return s
}

// BenchmarkVerdict is one node's verdict: of upstream's allocator, of ours with the pools of the node gathered anew, and
// of our search alone, as where pools are kept.
func BenchmarkVerdict(b *testing.B) {
	theirs, ours := newUpstream(), selector.NewCompiler()
	for name, shape := range shapes {
		scene := shape()
		turned := scene.Turn(ours)
		node := scene.Nodes[50]
		b.Run(name+"/upstream", func(b *testing.B) {
			allocator, err := theirs.allocator(scene)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				allocator.Allocate(b.Context(), node, scene.Claims)
			}
		})
		var s devices.Searcher
		b.Run(name+"/gathered", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pools, use, _ := turned.Gather(node)
				s.Search(pools, use, turned.Demand, devices.DefaultBudget)
			}
		})
		b.Run(name+"/search", func(b *testing.B) {
			pools, use, _ := turned.Gather(node)
			b.ReportAllocs()
			for b.Loop() {
				s.Search(pools, use, turned.Demand, devices.DefaultBudget)
			}
		})
	}
}
