package coordinator

import (
	"context"
	"iter"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reads are what others ask of the loop and what has no influence on decisions: explanations, summaries, dumps.
// Whatever they are, they cost a turn of the loop one step:
//
//	Explain, Summary ──at most 8──> inbox ──> reads ──one step a turn──> the answer
//	                   more: ResourceExhausted     └─ whoever has given up is skipped

const (
	// maxReads is how many explanations and summaries may be under way.
	maxReads = 8
	// rowsAtOnce is how many rows one step of an explanation judges, of a few microseconds each.
	rowsAtOnce = 2048
	// podsAtOnce is how many pending pods one step of a summary or dump looks at, soughtAtOnce at how many placed ones
	// an explanation looks for its own: they take a microsecond and tens of nanoseconds each.
	podsAtOnce, soughtAtOnce = 2048, 8192
	// nodesAtOnce is how many nodes one step of a dump lists, each with its pods.
	nodesAtOnce = 128
)

// read is one of them.
type read struct {
	ctx context.Context
	// step is called on the loop until it says that it was the last.
	step    func() (last bool)
	waits   func() bool // tells that a step would come to nothing yet; nil: it never does
	done    chan struct{}
	err     error // of a step that panicked; to be read once done is closed
	bounded bool  // it has a place among maxReads
	// end is called on the loop when no step follows; nil: there is nothing to end.
	end func()
}

func (r *read) idle() bool { return r.waits != nil && r.waits() }

func (r *read) ended() {
	if r.end != nil {
		r.end()
	}
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

var errBusy = status.Errorf(codes.ResourceExhausted, "%d explanations or summaries are under way: ask again", maxReads)

// call runs f on the loop and waits for it.
func (s *Scheduler) call(ctx context.Context, f func()) error {
	return s.read(read{ctx: ctx, step: func() bool { f(); return true }})
}

// serve is read for somebody outside, who may ask for much.
func (s *Scheduler) serve(r read) error {
	select {
	case s.readers <- struct{}{}:
		r.bounded = true
		return s.read(r)
	default:
		return errBusy
	}
}

// read has its steps taken and waits for the last. With an error they may go on: what they write to is theirs.
func (s *Scheduler) read(r read) error {
	r.done = make(chan struct{})
	s.inbox.put(func() { s.reads = append(s.reads, &r) })
	if err := s.await(r.ctx, r.done); err != nil {
		return err
	}
	return r.err
}

// readSome takes one step of the oldest read that somebody still waits for, and that does not wait itself.
func (s *Scheduler) readSome() {
	for i := 0; i < len(s.reads); {
		r := s.reads[i]
		asked := r.ctx.Err() == nil
		if asked && r.idle() {
			i++
			continue
		}
		if asked && !s.stepCaught(r) {
			return
		}
		s.reads = slices.Delete(s.reads, i, i+1)
		r.ended()
		if r.bounded {
			<-s.readers
		}
		close(r.done) // whoever waits finds the place free
		if asked {
			return
		}
	}
}

// isReading tells whether a read can go on.
func (s *Scheduler) isReading() bool {
	return slices.ContainsFunc(s.reads, func(r *read) bool { return r.ctx.Err() != nil || !r.idle() })
}

// stepCaught takes a step of a read. One that panics is the last, and gives the caller an error.
func (s *Scheduler) stepCaught(r *read) (last bool) {
	defer func() {
		if v := recover(); v != nil {
			last, r.err = true, status.Error(codes.Internal, s.bugs.Met(whileReading, 0, "", v).Error())
		}
	}()
	return r.step()
}

// endReads is called when the loop has ended: the reads that are left get no answer.
func (s *Scheduler) endReads() {
	for _, r := range s.reads {
		r.ended()
	}
	s.reads = nil
}
