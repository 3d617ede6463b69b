package observe

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Summaries tell what plugins take that are compiled in, beside the built-in ones, whoever calls them at once.
func TestSummariesTellOfCompiledInPlugins(t *testing.T) {
	m := NewMeters(nil, 1)
	m.plugin(pluginAt{pb.Plugin_PLUGIN_TAINT_TOLERATION, pb.ExtensionPoint_EXTENSION_POINT_FILTER}).record(time.Microsecond)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				m.Framework().Plugin("Quota", "Filter", "Success", time.Millisecond)
				m.Framework().Plugin("Quota", "Reserve", "Unschedulable", time.Second)
			}
		})
	}
	all.Wait()
	var got []string
	for _, p := range m.Summary(time.Time{}, 0).Plugins {
		got = append(got, fmt.Sprintf("%s %s: %d in %s", p.ExtensionPoint, p.Plugin, p.Latency.Count, p.Latency.Total.AsDuration()))
	}
	want := []string{"Filter Quota: 80 in 80ms", "Filter TaintToleration: 1 in 1µs", "Reserve Quota: 80 in 1m20s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
