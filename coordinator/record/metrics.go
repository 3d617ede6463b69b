package record

import "github.com/prometheus/client_golang/prometheus"

// metrics are the recorder's.
type metrics struct {
	bytes   prometheus.Counter
	stopped prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_record_bytes_total", Help: "Bytes that the flight recorder has written.",
		}),
		stopped: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_record_stopped", Help: "1 where the flight recorder has stopped before its time.",
		}),
	}
	if r != nil {
		r.MustRegister(m.bytes, m.stopped)
	}
	return m
}
