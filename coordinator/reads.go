package coordinator

import (
	"context"

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
)

// read is one of them.
type read struct {
	ctx context.Context
	// step is called on the loop until it says that it was the last.
	step    func() (last bool)
	done    chan struct{}
	bounded bool // it has a place among maxReads
}

var errBusy = status.Errorf(codes.ResourceExhausted, "%d explanations or summaries are under way: ask again", maxReads)

// call runs f on the loop and waits for it.
func (s *Scheduler) call(ctx context.Context, f func()) error {
	return s.read(read{ctx: ctx, step: func() bool { f(); return true }})
}

// serve is read for somebody outside, who may ask for much.
func (s *Scheduler) serve(ctx context.Context, step func() (last bool)) error {
	select {
	case s.readers <- struct{}{}:
		return s.read(read{ctx: ctx, step: step, bounded: true})
	default:
		return errBusy
	}
}

// read has its steps taken and waits for the last. With an error they may go on: what they write to is theirs.
func (s *Scheduler) read(r read) error {
	r.done = make(chan struct{})
	s.inbox.put(func() { s.reads = append(s.reads, r) })
	return s.await(r.ctx, r.done)
}

// readSome takes one step of the oldest read that somebody still waits for.
func (s *Scheduler) readSome() {
	for len(s.reads) > 0 {
		r := s.reads[0]
		waits := r.ctx.Err() == nil
		if waits && !r.step() {
			return
		}
		s.reads[0], s.reads = read{}, s.reads[1:]
		close(r.done)
		if r.bounded {
			<-s.readers
		}
		if waits {
			return
		}
	}
}
