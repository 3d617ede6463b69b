package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Stage is a part of an attempt that is timed.
type Stage uint8

// The stages, in their order.
const (
	Compile Stage = iota
	Merge
	Extenders
	PostFilter
	Assume
	Permit
	PreBind
	Bind

	stages
)

func (s Stage) name() string {
	return [stages]string{"compile", "merge", "extenders", "postfilter", "assume", "permit", "prebind", "bind"}[s]
}

// Result is what became of an attempt.
type Result uint8

// The results. The first three are upstream's.
const (
	Scheduled Result = iota
	Unschedulable
	Error
	// GivenBack: popped, and returned to the queue without a decision.
	GivenBack

	results
)

func (r Result) name() string {
	return [results]string{"scheduled", "unschedulable", "error", "given_back"}[r]
}

// interval is when something took place.
type interval struct{ from, to time.Time }

// stretch is the same counted from the batch's start, which is read at half the price; from
// is 1 ns late, so that 0 says that it did not begin.
type stretch struct{ from, to time.Duration }

// at puts a stretch of a batch into the times of the world.
func (b *Batch) at(s stretch) interval { return interval{b.start.Add(s.from - 1), b.start.Add(s.to)} }

// elapsed is the time since the batch's start.
func (b *Batch) elapsed() time.Duration {
	if now := b.tracer.cfg.Now; now != nil {
		return now().Sub(b.start)
	}
	return time.Since(b.start)
}

// Batch is the attempts that share a fan-out. It belongs to the scheduling loop.
type Batch struct {
	tracer   *Tracer
	start    time.Time
	attempts []Attempt
	fanout   *fanout.Record // nil: nobody was asked
	// owner of the fan-out: drawn, or the first whose spans are made. fanoutSpan is the
	// fan-out's span in its trace. Both are the tracer's once an attempt is finished.
	owner      *Attempt
	fanoutSpan trace.SpanContext
}

// Attempt is one try at one pod. It belongs to one goroutine at a time: the loop, a bind, the
// loop again, and at the end the tracer.
type Attempt struct {
	batch  *Batch
	pod    *v1.Pod
	number int
	queued time.Time
	span   trace.SpanContext // the attempt's own
	class  uint64            // 0: the workers were not asked
	held   uint64            // the class whose earlier answer served; 0: none did
	owns   bool              // the batch's fan-out, from the beginning
	times  [stages]stretch
	again  []*fanout.Record
	gang   *Gang // nil: it is of no pod group

	decision *pb.Decision
	result   Result
	err      error
	end      time.Time
	why      string
}

// Begin begins a batch of up to n attempts.
func (t *Tracer) Begin(n int) *Batch {
	if t == nil {
		return nil
	}
	return &Batch{tracer: t, start: t.now(), attempts: make([]Attempt, 0, n)}
}

// Attempt begins the pod's attempt of that number; queued is since when it waited for it.
func (b *Batch) Attempt(pod *v1.Pod, number int, queued time.Time) *Attempt {
	if b == nil {
		return nil
	}
	t := b.tracer
	c := trace.SpanContextConfig{TraceID: t.ids.traceID(), SpanID: t.ids.spanID()}
	if t.drawn(c.TraceID) {
		c.TraceFlags = trace.FlagsSampled
	}
	b.attempts = append(b.attempts, Attempt{batch: b, pod: pod, number: number, queued: queued, span: trace.NewSpanContext(c)})
	return &b.attempts[len(b.attempts)-1]
}

// Asks tells that the workers are asked for the attempt's class.
func (a *Attempt) Asks(class uint64) {
	if a == nil {
		return
	}
	a.class = class
	if b := a.batch; b.owner == nil && a.span.IsSampled() {
		b.owner, b.fanoutSpan = a, a.child()
		a.owns = true
	}
}

// Held tells that an earlier batch's answer for the attempt's class still holds, so that the
// workers are not asked: the attempt has no fan-out then.
func (a *Attempt) Held(class uint64) {
	if a != nil {
		a.held = class
	}
}

// FanOut is the context of the batch's fan-out, when all attempts have told what they ask.
func (b *Batch) FanOut(ctx context.Context) context.Context {
	if b == nil {
		return ctx
	}
	b.fanout = &fanout.Record{}
	if b.owner != nil {
		b.fanout.Parent, b.fanout.Class, b.fanout.NewSpanID = b.fanoutSpan, b.owner.class, b.tracer.ids.spanID
	}
	return fanout.WithRecord(ctx, b.fanout)
}

// Again is the context of a fan-out for one attempt alone.
func (a *Attempt) Again(ctx context.Context, class uint64) context.Context {
	if a == nil {
		return ctx
	}
	r := &fanout.Record{}
	if a.class = class; a.span.IsSampled() {
		r.Parent, r.Class, r.NewSpanID = a.child(), class, a.batch.tracer.ids.spanID
	}
	a.again = append(a.again, r)
	return fanout.WithRecord(ctx, r)
}

// child is the context of a span below the attempt's, of which others are told.
func (a *Attempt) child() trace.SpanContext { return a.span.WithSpanID(a.batch.tracer.ids.spanID()) }

// Begin notes when a stage begins. A stage that is entered twice lasts from its first Begin to its last End.
func (a *Attempt) Begin(s Stage) {
	if a != nil && a.times[s].from == 0 {
		a.times[s].from = a.batch.elapsed() + 1
	}
}

// End notes when a stage ends.
func (a *Attempt) End(s Stage) {
	if a != nil {
		a.times[s].to = a.batch.elapsed()
	}
}

// Decided tells the decision, which does not change any more.
func (a *Attempt) Decided(d *pb.Decision) {
	if a != nil {
		a.decision = d
	}
}

// TraceID is the hexadecimal id of the attempt's trace, which exists where Finish keeps it.
func (a *Attempt) TraceID() string {
	if a == nil {
		return ""
	}
	return a.span.TraceID().String()
}

// Sampled tells whether the attempt was drawn: Finish keeps it, whatever becomes of it.
func (a *Attempt) Sampled() bool { return a != nil && a.span.IsSampled() }

// Finish ends the attempt, and tells whether its trace is kept. The caller does not touch it
// any more.
func (a *Attempt) Finish(r Result, err error) (kept bool) {
	if a == nil {
		return false
	}
	t := a.batch.tracer
	took := a.batch.elapsed()
	a.end, a.result, a.err = a.batch.start.Add(took), r, err
	failed := r == Unschedulable || r == Error
	slow := t.cfg.Slow > 0 && took >= t.cfg.Slow
	switch {
	case r == GivenBack:
		// Only the spans that workers have made would miss it.
		return a.owns && t.keep(a, "sampled")
	case a.span.IsSampled():
		return t.keep(a, "sampled")
	case !failed && !slow:
		return false
	case !t.budget.AllowN(a.end, 1):
		t.kept.WithLabelValues("over_budget").Inc()
		return false
	case slow:
		return t.keep(a, "slow")
	}
	return t.keep(a, "failed")
}
