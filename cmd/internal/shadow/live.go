package shadow

import (
	"bytes"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// renderEvery is for how long a report is good: however many look, it is made no more often.
const renderEvery = time.Second

// Live shows a report as it stands: as a page, as JSON and as metrics. It is a prometheus.Collector.
type Live struct {
	report func() *Report
	now    func() time.Time

	mu         sync.Mutex
	newest     *Report
	at         time.Time // when it was made
	html, json []byte    // of it; nil: nobody has asked
}

// NewLive shows what report makes; it is called by one goroutine at a time.
func NewLive(report func() *Report) *Live { return &Live{report: report, now: time.Now} }

// Pages serves the report as HTML at /report, and as JSON at /report.json.
func (l *Live) Pages() map[string]http.Handler {
	return map[string]http.Handler{
		"/report": l.serve("text/html; charset=utf-8", func(r *Report) ([]byte, error) {
			return render(&l.html, func(b *bytes.Buffer) error { return r.WriteHTML(b) })
		}),
		"/report.json": l.serve("application/json", func(r *Report) ([]byte, error) {
			return render(&l.json, func(b *bytes.Buffer) error { return r.WriteJSON(b) })
		}),
	}
}

func (l *Live) serve(kind string, body func(*Report) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", policy()+"; frame-ancestors 'none'")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "a report can only be read: GET or HEAD is expected", http.StatusMethodNotAllowed)
			return
		}
		l.mu.Lock()
		out, err := body(l.current())
		l.mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", kind)
		_, _ = w.Write(out) // a reader that is gone needs no answer
	})
}

// current is a report that is no older than renderEvery. l.mu is held.
func (l *Live) current() *Report {
	if now := l.now(); l.newest == nil || now.Sub(l.at) >= renderEvery {
		l.newest, l.at, l.html, l.json = l.report(), now, nil, nil
	}
	return l.newest
}

// render writes once what is kept.
func render(kept *[]byte, write func(*bytes.Buffer) error) ([]byte, error) {
	if *kept == nil {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return nil, err
		}
		*kept = b.Bytes()
	}
	return *kept, nil
}

// descriptions are of the metrics.
type descriptions struct {
	pods, notJudged, regret, latency, inUse, pending, drift, ready *prometheus.Desc
}

var described = sync.OnceValue(func() descriptions {
	return descriptions{
		pods: prometheus.NewDesc("shardsched_shadow_pods_total",
			"Number of decisions of the other scheduler that were judged, by what came of holding them against ours.", []string{"class"}, nil),
		notJudged: prometheus.NewDesc("shardsched_shadow_not_judged_pods_total",
			"Number of decisions of the other scheduler that could not be judged.", nil, nil),
		regret: prometheus.NewDesc("shardsched_shadow_regret",
			"By how many points of score the best node was better than the one that the other scheduler chose.", nil, nil),
		latency: prometheus.NewDesc("shardsched_shadow_latency_seconds",
			"Quantiles since the beginning of how long pods waited for a node: theirs until they were bound, ours until it was decided.",
			[]string{"scheduler", "quantile"}, nil),
		inUse: prometheus.NewDesc("shardsched_shadow_nodes_in_use",
			"Number of nodes with a pod that is neither of a DaemonSet nor static, really (theirs) and in the own world (ours).",
			[]string{"scheduler"}, nil),
		pending: prometheus.NewDesc("shardsched_shadow_pending_pods",
			"Number of pods of judged profiles that wait for a node, really (theirs) and in the own world (ours).", []string{"scheduler"}, nil),
		drift: prometheus.NewDesc("shardsched_shadow_drift_ratio",
			"Share of the pods that are left out of what is compared, because the own world can not have them as the real cluster does.", nil, nil),
		ready: prometheus.NewDesc("shardsched_shadow_ready", "1 while nothing stands in the way of taking over, 0 otherwise.", nil, nil),
	}
})

// Describe is part of prometheus.Collector.
func (l *Live) Describe(out chan<- *prometheus.Desc) {
	d := described()
	for _, x := range []*prometheus.Desc{d.pods, d.notJudged, d.regret, d.latency, d.inUse, d.pending, d.drift, d.ready} {
		out <- x
	}
}

// Collect is part of prometheus.Collector.
func (l *Live) Collect(out chan<- prometheus.Metric) {
	l.mu.Lock()
	r := l.current() // nobody changes it
	l.mu.Unlock()
	d := described()
	gauge := func(of *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, labels...)
	}
	count := func(of *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, prometheus.CounterValue, value, labels...)
	}
	for _, c := range Classes() {
		count(d.pods, float64(r.Agreement.Pods(c)), string(c))
	}
	count(d.notJudged, float64(sum(r.Agreement.NotJudged)))
	out <- regretMetric(d.regret, &r.Agreement)
	for whose, q := range map[string]Quantiles{"theirs": r.Latency.Theirs, "ours": r.Latency.Ours} {
		if q.Pods > 0 {
			gauge(d.latency, q.P50, whose, "0.5")
			gauge(d.latency, q.P99, whose, "0.99")
		}
	}
	if n := len(r.Packing.Points); n > 0 {
		last := &r.Packing.Points[n-1]
		for whose, w := range map[string]*World{"theirs": &last.Theirs, "ours": &last.Ours} {
			gauge(d.inUse, float64(w.NodesInUse), whose)
			gauge(d.pending, float64(w.Pending), whose)
		}
	}
	gauge(d.drift, r.Packing.Drift)
	ready := 0.0
	if r.Verdict.Ready {
		ready = 1
	}
	gauge(d.ready, ready)
}

// regretMetric is a histogram with the bins of the report.
func regretMetric(d *prometheus.Desc, a *Agreement) prometheus.Metric {
	upTo, n := map[float64]uint64{}, uint64(0)
	for _, b := range a.Regret {
		n += uint64(b.Pods)
		upTo[float64(b.To)] = n
	}
	return prometheus.MustNewConstHistogram(d, n, float64(a.RegretSum), upTo)
}

// sum adds counts up.
func sum(all []Count) (n int) {
	for _, c := range all {
		n += c.Pods
	}
	return n
}
