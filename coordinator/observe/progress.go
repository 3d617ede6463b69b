package observe

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// progressEvery is how far apart two notes of the progress are, at the least.
	progressEvery = 5 * time.Second
	// progressNotes is how many are kept: 15 minutes of a scheduler that does not rest.
	progressNotes = 180
)

// progress is how far the scheduler was, every five seconds in which it had something to do. It is noted by turns of the loop, so that it
// costs a comparison a turn, and nothing where the loop rests.
type progress struct {
	notes [progressNotes]note
	n     int // that were made: the last stands at (n-1) % progressNotes
	// rested is when the loop had nothing to do the last time.
	rested time.Time
}

type note struct {
	at                      time.Time
	decided, bound, pending uint64
}

// Progressed notes how far the scheduler is where it is time for that. It is called at the begin of a turn.
func (m *Meters) Progressed(now time.Time, decided uint64, q interface{ Size() int }) {
	p := &m.progress
	last := p.last()
	if now.Sub(last.at) < progressEvery {
		return
	}
	x := note{now, decided, m.tally.bound, uint64(q.Size())}
	if p.n > 0 && p.rested.After(last.at) && now.Sub(p.rested) >= progressEvery {
		// What was done before the rest was not done during it.
		p.add(note{p.rested, x.decided, x.bound, last.pending})
	}
	p.add(x)
}

func (p *progress) last() note {
	if p.n == 0 {
		return note{}
	}
	return p.notes[(p.n-1)%progressNotes]
}

func (p *progress) add(x note) {
	p.notes[p.n%progressNotes] = x
	p.n++
}

// tell lists the notes, the oldest first.
func (p *progress) tell() []*pb.Progress {
	var out []*pb.Progress
	for i := max(0, p.n-progressNotes); i < p.n; i++ {
		x := p.notes[i%progressNotes]
		out = append(out, &pb.Progress{Time: timestamppb.New(x.at), Decisions: x.decided, PodsBound: x.bound, PodsPending: x.pending})
	}
	return out
}
