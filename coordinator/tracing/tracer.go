package tracing

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// What a Config leaves out.
const (
	// DefaultPerSecond is how many attempts a second are kept for being slow or failed, and
	// DefaultBurst how many at once.
	DefaultPerSecond = 100
	DefaultBurst     = 1000
)

// backlog is how many kept attempts wait for their spans at the most.
const backlog = 4096

// Config is what a Tracer is made of.
type Config struct {
	// Provider makes the spans. It has to sample all that it is given, and to take its ids
	// from IDs.
	Provider trace.TracerProvider
	// Ratio is the share of attempts that are drawn at their beginning, 0 to 1.
	Ratio float64
	// Slow is how long an attempt may take, from being popped to being bound, before it is
	// kept; 0: none is kept for that.
	Slow time.Duration
	// PerSecond bounds what is kept for being slow or failed; 0: DefaultPerSecond.
	PerSecond float64
	// Random makes ids.
	Random func() uint64
	// Now is the clock; nil: the real one.
	Now func() time.Time
	// Registerer takes the metrics; nil: nowhere.
	Registerer prometheus.Registerer
}

// Tracer decides which attempts are kept, and makes their spans.
type Tracer struct {
	cfg    Config
	tracer trace.Tracer
	ids    IDs
	bound  uint64 // trace ids below it are drawn
	queue  chan *Attempt
	kept   *prometheus.CounterVec

	// budget is for attempts that are kept without having been drawn.
	budget *rate.Limiter
}

// New makes a Tracer, which Run has to serve.
func New(cfg Config) *Tracer {
	if cfg.PerSecond <= 0 {
		cfg.PerSecond = DefaultPerSecond
	}
	return &Tracer{
		cfg:    cfg,
		tracer: cfg.Provider.Tracer("github.com/shardsched/shardsched/coordinator"),
		ids:    IDs{Random: cfg.Random},
		bound:  uint64(max(0, min(cfg.Ratio, 1)) * (1 << 63)),
		queue:  make(chan *Attempt, backlog),
		budget: rate.NewLimiter(rate.Limit(cfg.PerSecond), DefaultBurst),
		kept: promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_traces_total",
			Help: "Attempts whose trace was kept, by why (sampled, slow, failed), or was to be kept and got lost (over_budget, dropped).",
		}, []string{"why"}),
	}
}

func (t *Tracer) now() time.Time {
	if t.cfg.Now != nil {
		return t.cfg.Now()
	}
	return time.Now()
}

// Run makes the spans of kept attempts until ctx ends, and then those of the attempts that
// have come until then.
func (t *Tracer) Run(ctx context.Context) error {
	for {
		select {
		case a := <-t.queue:
			t.emit(a)
		case <-ctx.Done():
			for {
				select {
				case a := <-t.queue:
					t.emit(a)
				default:
					return nil
				}
			}
		}
	}
}

// drawn tells whether a trace is head-sampled.
func (t *Tracer) drawn(id trace.TraceID) bool {
	return binary.BigEndian.Uint64(id[8:])>>1 < t.bound
}

// keep queues an attempt for its spans.
func (t *Tracer) keep(a *Attempt, why string) bool {
	a.why = why
	select {
	case t.queue <- a:
		t.kept.WithLabelValues(why).Inc()
		return true
	default:
		t.kept.WithLabelValues("dropped").Inc()
		return false
	}
}
