package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shardsched/shardsched/coordinator/tune"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// WayMeter counts how some batches, full ones or those of few pods, are asked about.
type WayMeter struct {
	workers, own         prometheus.Counter
	cost, ahead, classes prometheus.Gauge
}

// Ways are the series of some batches.
func (m *Meters) Ways(batches string) *WayMeter {
	set := m.set
	return &WayMeter{
		workers: set.Counter("shardsched_ways_total", batches, "workers"), own: set.Counter("shardsched_ways_total", batches, "own tables"),
		cost: set.Gauge("shardsched_way_cost_seconds", batches), ahead: set.Gauge("shardsched_way_ahead", batches),
		classes: set.Gauge("shardsched_way_classes", batches),
	}
}

// Batch counts a batch, and tells the way in use with what it costs.
func (m *WayMeter) Batch(by, inUse tune.Way, cost float64) {
	if by.Own {
		m.own.Inc()
	} else {
		m.workers.Inc()
	}
	m.cost.Set(cost)
	m.ahead.Set(float64(inUse.Ahead))
	m.classes.Set(float64(inUse.Classes))
}

// Tuning tells how some batches are asked about.
func Tuning(batches string, choices []tune.Choice) *pb.Tuning {
	out := &pb.Tuning{Batches: batches}
	for _, c := range choices {
		out.Ways = append(out.Ways, &pb.Way{
			OwnTables: c.Own, Ahead: uint32(c.Ahead), Classes: uint32(c.Classes), Cost: durationpb.New(c.Cost), InUse: c.InUse,
		})
	}
	return out
}
