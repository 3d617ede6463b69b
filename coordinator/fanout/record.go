package fanout

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

// Record gathers what an Evaluate does, for a trace. Hand a new one over with WithRecord. Its
// exported fields are read by Evaluate, and not changed any more.
type Record struct {
	// Parent is the span that the calls belong to. Where it is sampled the workers are told,
	// and make spans of their own: of the request, and of what Class's plugins did.
	Parent trace.SpanContext
	Class  uint64
	// NewSpanID names the span of a call.
	NewSpanID func() trace.SpanID

	mu         sync.Mutex
	start, end time.Time
	calls      []Call
}

// Call is one request to a worker, or one evaluation on the own tables.
type Call struct {
	// Span is the call's, as the worker was told; not valid where it was told nothing.
	Span trace.SpanContext
	// Worker and Address are empty on the own tables.
	Worker, Address string
	Shards          []uint32
	// Snapshot says that it sent a shard's snapshot, and asked nothing.
	Snapshot bool
	// Backup says that the shards' next owners were asked, because the first was slow or
	// has failed.
	Backup     bool
	Start, End time.Time
	// Busy is how long the worker says it took.
	Busy time.Duration
	// RequestBytes and ResponseBytes were on the wire, where WireStats is among the
	// connection's options.
	RequestBytes, ResponseBytes int
	// NeedSnapshots and NeedClasses are what the worker lacked; it gave no answer then.
	NeedSnapshots, NeedClasses int
	Err                        error
	Classes                    []ClassCall
}

// ClassCall is what a call says of one class.
type ClassCall struct {
	Class          uint64
	Rows, Feasible int
	// Passes are what the plugins did.
	Passes []scan.Pass
}

// AddPasses adds what the plugins did to those of other calls.
func (c *ClassCall) AddPasses(to *[]scan.Pass) {
	for _, p := range c.Passes {
		scan.AddPass(to, p)
	}
}

// Class is what the call says of a class; nil: nothing.
func (c *Call) Class(id uint64) *ClassCall {
	for i := range c.Classes {
		if c.Classes[i].Class == id {
			return &c.Classes[i]
		}
	}
	return nil
}

type recordKey struct{}

// WithRecord has the next Evaluate under ctx write r; nil: nothing is written.
func WithRecord(ctx context.Context, r *Record) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, recordKey{}, r)
}

// RecordOf is the record that ctx carries; nil: none.
func RecordOf(ctx context.Context) *Record {
	r, _ := ctx.Value(recordKey{}).(*Record)
	return r
}

// Times are when the Evaluate began and ended; zero: it has not begun or ended.
func (r *Record) Times() (start, end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.start, r.end
}

// Calls are the calls that have ended so far. A call that lost to a backup may end later: it is
// missing.
func (r *Record) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[:len(r.calls):len(r.calls)]
}

// Begin notes when an Evaluate begins. It does nothing to a nil Record.
func (r *Record) Begin(at time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start = at
}

// Finish notes when an Evaluate ends. It does nothing to a nil Record.
func (r *Record) Finish(at time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = at
}

// traces tells whether workers make spans of what they do for a class.
func (r *Record) traces(class uint64) bool {
	return r != nil && r.Parent.IsSampled() && r.Class == class
}

// Add notes a call that has ended.
func (r *Record) Add(c *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, *c)
}

// recorded is a call under way; nil where there is no Record.
type recorded struct {
	Call
	record *Record
}

// open begins a call, and gives the context to make it in.
func (r *Record) open(ctx context.Context, s *session, shards []*shardJob, backup bool, at time.Time) (context.Context, *recorded) {
	if r == nil {
		return ctx, nil
	}
	x := &recorded{record: r, Call: Call{Backup: backup, Start: at, Shards: make([]uint32, len(shards))}}
	x.Worker, x.Address = s.member.ID, s.member.Address
	for i, j := range shards {
		x.Shards[i] = j.shard
	}
	if r.Parent.IsSampled() {
		x.Span = r.Parent.WithSpanID(r.NewSpanID())
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", traceparent(x.Span))
	}
	return context.WithValue(ctx, wireKey{}, &x.Call), x
}

// loads notes that a shard's snapshot was sent.
func (r *Record) loads(c *call, shard uint32, start time.Time, err error) {
	if r == nil {
		return
	}
	m := &c.session.member
	r.Add(&Call{Worker: m.ID, Address: m.Address, Shards: []uint32{shard}, Snapshot: true, Backup: c.backup, Start: start,
		End: c.fanout.cfg.Clock.Now(), Err: err})
}

// traceparent is the W3C header of a span context.
func traceparent(c trace.SpanContext) string {
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// answered ends a call.
func (x *recorded) answered(resp *pb.EvaluateResponse, err error, at time.Time) {
	if x == nil {
		return
	}
	x.End, x.Err = at, err
	if err == nil {
		x.Busy = time.Duration(resp.GetBusyNanos())
		x.NeedSnapshots, x.NeedClasses = len(resp.GetNeedSnapshots()), len(resp.GetNeedClasses())
		x.Classes = make([]ClassCall, len(resp.GetResults()))
		columns := resp.Reader()
		for i, result := range resp.GetResults() {
			c := &x.Classes[i]
			c.Class, c.Rows, c.Feasible = result.GetClassId(), int(result.GetRows()), int(result.GetFeasible())
			addPasses(&c.Passes, columns.Passes(result))
		}
	}
	x.record.Add(&x.Call)
}

// addPasses reads passes from the wire. The response may not be validated yet.
func addPasses(to *[]scan.Pass, t pb.Passes) {
	n := min(len(t.Plugins), len(t.ExtensionPoints), len(t.Nanos), len(t.RowsIn), len(t.RowsRefused))
	left := uint32(0)
	for i := range n {
		p := scan.Pass{Plugin: t.Plugins[i], Point: t.ExtensionPoints[i], Took: time.Duration(t.Nanos[i])}
		p.RowsIn = left + uint32(t.RowsIn[i])
		left = p.RowsIn - t.RowsRefused[i]
		p.RowsOut = left
		scan.AddPass(to, p)
	}
}

// evaluatedHere notes what the own tables answered.
func (r *Record) evaluatedHere(a *attempt, asks []scan.Ask, start, end time.Time) {
	if r == nil {
		return
	}
	c := &Call{Shards: a.shards, Backup: a.backup >= 0, Start: start, End: end, Err: a.err}
	if a.err == nil {
		c.Classes = make([]ClassCall, len(asks))
		for i := range asks {
			x, result := &c.Classes[i], &a.answers[i].Result
			x.Class, x.Rows, x.Feasible = asks[i].Class.ID(), result.Rows, result.Feasible
			x.Passes = slices.Clone(a.answers[i].Passes)
		}
	}
	r.Add(c)
}

type wireKey struct{}

// WireStats counts the bytes of recorded calls. It is an option of a worker's connection:
// grpc.WithStatsHandler(fanout.WireStats{}).
type WireStats struct{}

// TagRPC implements stats.Handler.
func (WireStats) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (WireStats) HandleRPC(ctx context.Context, s stats.RPCStats) {
	c, _ := ctx.Value(wireKey{}).(*Call)
	if c == nil {
		return
	}
	switch s := s.(type) {
	case *stats.OutPayload:
		c.RequestBytes += s.WireLength
	case *stats.InPayload:
		c.ResponseBytes += s.WireLength
	}
}

// TagConn implements stats.Handler.
func (WireStats) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (WireStats) HandleConn(context.Context, stats.ConnStats) {}
