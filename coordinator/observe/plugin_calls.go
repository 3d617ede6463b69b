package observe

import (
	"sync"
	"time"

	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// pluginCalls is a framework.Meter that adds up for summaries, too, what plugins take that are called through upstream's framework: those
// that are compiled in. Any goroutine calls it.
type pluginCalls struct {
	framework.Meter
	calls sync.Map // callAt to *callMeter
}

// callAt is a plugin at an extension point, both by upstream's names.
type callAt struct{ plugin, point string }

type callMeter struct {
	sync.Mutex
	latency *latency
}

// Plugin is part of framework.Meter.
func (c *pluginCalls) Plugin(plugin, point, status string, took time.Duration) {
	c.Meter.Plugin(plugin, point, status, took)
	m, ok := c.calls.Load(callAt{plugin, point})
	if !ok {
		m, _ = c.calls.LoadOrStore(callAt{plugin, point}, &callMeter{latency: newLatency()})
	}
	x := m.(*callMeter)
	x.Lock()
	defer x.Unlock()
	x.latency.record(took)
}

// latencies are what was added up so far, in no order.
func (c *pluginCalls) latencies() (out []*pb.PluginLatency) {
	c.calls.Range(func(at, m any) bool {
		x := m.(*callMeter)
		x.Lock()
		defer x.Unlock()
		out = append(out, &pb.PluginLatency{Plugin: at.(callAt).plugin, ExtensionPoint: at.(callAt).point, Latency: x.latency.quantiles()})
		return true
	})
	return out
}
