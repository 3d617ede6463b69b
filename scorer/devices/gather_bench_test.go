package devices_test

import (
	"fmt"
	"testing"

	"github.com/shardsched/shardsched/scorer/devices"
)

// BenchmarkGatherManyCounters gathers a pool whose driver publishes as many counters and devices in each slice as the API lets it.
// The time by the device does not grow with the slices.
func BenchmarkGatherManyCounters(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(fmt.Sprint(n, " slices of each"), func(b *testing.B) {
			var in devices.Inventory
			add := func(s *devices.Slice) {
				s.Name, s.Driver, s.Pool, s.Count = fmt.Sprintf("s%04d", len(in.Local)), "d", "p", int64(2*n)
				s.Reach = devices.Reach{Kind: devices.ReachThisNode}
				in.Local = append(in.Local, s)
			}
			for i := range n {
				var sets []devices.CounterSet
				for k := range 8 {
					sets = append(sets, devices.CounterSet{Name: fmt.Sprint("set", i, "-", k), Counters: counters(32)})
				}
				add(&devices.Slice{CounterSets: sets})
			}
			content := &devices.Content{Driver: "d"}
			for i := range n {
				var list []devices.Device
				for k := range 64 {
					x := devices.Device{Name: fmt.Sprint("d", i, "-", k), Content: content}
					for y := range 2 {
						x.Consumes = append(x.Consumes, devices.Consumption{Set: fmt.Sprint("set", i, "-", y), Counters: counters(32)})
					}
					list = append(list, x)
				}
				add(&devices.Slice{Devices: list})
			}
			b.ReportAllocs()
			for b.Loop() {
				pools, err := devices.Gather(in, nil, devices.Features{PartitionableDevices: true})
				if err != nil || pools.Devices() != int32(64*n) {
					b.Fatalf("%d devices, %v", pools.Devices(), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(64*n), "ns/device")
		})
	}
}

func counters(n int) (out []devices.Counter) {
	for i := range n {
		out = append(out, devices.Counter{Name: fmt.Sprintf("counter-%02d", i), Value: devices.Units(1, devices.DecimalSI)})
	}
	return out
}
