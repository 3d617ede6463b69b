package observe

import (
	"context"
	"iter"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxReads is how many explanations, summaries and lists of devices may be under way.
const maxReads = 8

// WhileReading is where a bug was met while a read took a step, for the metric.
const WhileReading = "read"

// Reads are what others ask of the loop and what has no influence on decisions: explanations, summaries, lists, dumps.
// Whatever they are, they cost a turn of the loop one step:
//
//	Explain, Summary, Devices ──at most 8──> loop ──> reads ──one step a turn──> the answer
//	                            more: ResourceExhausted    └─ whoever has given up is skipped
//
// A read gets no way to end the loop: its error, or its panic, is its caller's.
type Reads struct {
	// put has the loop run f, and await waits for the loop to close done.
	put   func(f func())
	await func(ctx context.Context, done <-chan struct{}) error
	bugs  *Bugs

	places chan struct{}
	list   []*read // the loop's
}

// NewReads makes a list of reads that is empty.
func NewReads(put func(func()), await func(context.Context, <-chan struct{}) error, bugs *Bugs) *Reads {
	return &Reads{put: put, await: await, bugs: bugs, places: make(chan struct{}, maxReads)}
}

// Read is what is read in steps.
type Read struct {
	// Step is called on the loop until it says that it was the last.
	Step func() (last bool)
	// Waits tells that a step would come to nothing yet; nil: it never does.
	Waits func() bool
	// End is called on the loop when no step follows; nil: there is nothing to end.
	End func()
}

// read is a Read on its way.
type read struct {
	Read
	ctx     context.Context
	done    chan struct{}
	err     error // of a step that panicked; to be read once done is closed
	bounded bool  // it has a place among maxReads
}

func (r *read) idle() bool { return r.Waits != nil && r.Waits() }

func (r *read) ended() {
	if r.End != nil {
		r.End()
	}
}

var errBusy = status.Errorf(codes.ResourceExhausted, "%d explanations, summaries or lists are under way: ask again", maxReads)

// Call runs f on the loop and waits for it.
func (r *Reads) Call(ctx context.Context, f func()) error {
	return r.Read(ctx, Read{Step: func() bool { f(); return true }})
}

// Serve is Read for somebody outside, who may ask for much: there are so many places.
func (r *Reads) Serve(ctx context.Context, x Read) error {
	select {
	case r.places <- struct{}{}:
		return r.run(&read{Read: x, ctx: ctx, bounded: true})
	default:
		return errBusy
	}
}

// Read has the steps taken and waits for the last. With an error they may go on: what they write to is theirs.
func (r *Reads) Read(ctx context.Context, x Read) error { return r.run(&read{Read: x, ctx: ctx}) }

func (r *Reads) run(x *read) error {
	x.done = make(chan struct{})
	r.put(func() { r.list = append(r.list, x) })
	if err := r.await(x.ctx, x.done); err != nil {
		return err
	}
	return x.err
}

// Next takes one step of the oldest read that somebody still waits for, and that does not wait itself. It is called on the
// loop, as are Pending and End.
func (r *Reads) Next() {
	for i := 0; i < len(r.list); {
		x := r.list[i]
		asked := x.ctx.Err() == nil
		if asked && x.idle() {
			i++
			continue
		}
		if asked && !r.stepCaught(x) {
			return
		}
		r.list = slices.Delete(r.list, i, i+1)
		x.ended()
		if x.bounded {
			<-r.places
		}
		close(x.done) // whoever waits finds the place free
		if asked {
			return
		}
	}
}

// Pending tells whether a read can go on.
func (r *Reads) Pending() bool {
	return slices.ContainsFunc(r.list, func(x *read) bool { return x.ctx.Err() != nil || !x.idle() })
}

// stepCaught takes a step of a read. One that panics is the last, and gives the caller an error.
func (r *Reads) stepCaught(x *read) (last bool) {
	defer func() {
		if v := recover(); v != nil {
			last, x.err = true, status.Error(codes.Internal, r.bugs.Met(WhileReading, 0, "", v).Error())
		}
	}()
	return x.Step()
}

// End is called when the loop has ended: the reads that are left get no answer.
func (r *Reads) End() {
	for _, x := range r.list {
		x.ended()
	}
	r.list = nil
}

// walk goes through what the loop owns, some at a time. What comes or goes meanwhile may be left out.
type walk[T any] struct {
	next func() (T, bool) // nil: not begun
	stop func()
}

// some calls f for the next n of all; true: these were the last.
func (w *walk[T]) some(all iter.Seq[T], n int, f func(T)) (last bool) {
	if w.next == nil {
		w.next, w.stop = iter.Pull(all)
	}
	for range n {
		x, ok := w.next()
		if !ok {
			return true
		}
		f(x)
	}
	return false
}

// end has to be called where a walk was begun.
func (w *walk[T]) end() {
	if w.stop != nil {
		w.stop()
	}
}
