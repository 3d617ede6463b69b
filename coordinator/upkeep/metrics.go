package upkeep

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	compaction  prometheus.Gauge
	alarms      *prometheus.GaugeVec
	size, quota *prometheus.GaugeVec // without labels; no value: it is not known
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		compaction: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_etcd_compaction_timestamp_seconds",
			Help: "The moment since which etcd has all of its history: what is older is compacted, or was written before this process began.",
		}),
		alarms: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "shardsched_etcd_alarms",
			Help: "Members of etcd that have raised an alarm, by alarm.",
		}, []string{"alarm"}),
		size: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "shardsched_etcd_db_size_bytes",
			Help: "Size of the database of etcd's largest member.",
		}, nil),
		quota: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "shardsched_etcd_quota_bytes",
			Help: "Size of the database from which on etcd takes no writes.",
		}, nil),
	}
	if r != nil {
		r.MustRegister(m.compaction, m.alarms, m.size, m.quota)
	}
	return m
}

// set shows a value; 0: none is known.
func set(g *prometheus.GaugeVec, v int64) {
	if g.Reset(); v > 0 {
		g.WithLabelValues().Set(float64(v))
	}
}
