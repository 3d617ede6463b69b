package fanout

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// knownClasses bounds what a session remembers of the definitions it sent. A
	// class forgotten here is sent again.
	knownClasses = 1 << 16
	// refusedFor is how long a shard for which a worker had no room stays away.
	refusedFor = 30 * time.Second
)

// session is the connection to one member, and what that is known to hold.
type session struct {
	member Member
	number uint32 // tells sessions of one Fanout apart: Result.Witnesses
	client pb.WorkerServiceClient
	closer io.Closer
	// loadsSlowly is set once a round was over before it had a snapshot: it gets them beside rounds from then on.
	loadsSlowly atomic.Bool
	// last is the turn of its last round ahead; nil: there was none. It belongs to the goroutine of Evaluate.
	last *turn
	// warming is set while deltas go to the shards that the member is not first for.
	warming atomic.Bool
	// watched is how many of its next answers are audited, whatever chance says.
	watched atomic.Int64
	// mappedOut belongs to the Fanout: the shards were given out without it.
	mappedOut bool
	metrics   *workerMetrics // nil: none

	mu      sync.Mutex
	held    map[uint32]uint64    // shard: generation that the worker has shown to have
	refused map[uint32]time.Time // shard: until when it stays away
	newly   bool                 // refused has grown since refusalsChanged
	classes *simplelru.LRU[uint64, struct{}]
	health  health
	pace    pace
	tally   tally
	// quarantine is why it is not asked; nil: it may be.
	quarantine *quarantine
}

// tally is what a session has done so far.
type tally struct {
	requests, failures, classes, rows, snapshots, hedges uint64
	busy                                                 time.Duration
}

// newSession connects to a member, of which nothing is known yet.
func newSession(ctx context.Context, dial Dial, m Member) (*session, error) {
	client, closer, err := dial(ctx, m)
	if err != nil {
		return nil, err
	}
	classes, err := simplelru.NewLRU[uint64, struct{}](knownClasses, nil)
	if err != nil {
		return nil, fmt.Errorf("session with worker %s: %w", m.ID, err)
	}
	return &session{
		member:  m,
		client:  client,
		closer:  closer,
		held:    make(map[uint32]uint64),
		refused: make(map[uint32]time.Time),
		classes: classes,
	}, nil
}

// close ends the connection; what is under way on it fails.
func (s *session) close() error {
	if s.closer == nil {
		return nil
	}
	return s.closer.Close()
}

// generation is what the worker is known to have of a shard.
func (s *session) generation(shard uint32) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.held[shard]
	return g, ok
}

// ack notes that the worker has a shard at least at that generation.
func (s *session) ack(shard uint32, generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[shard] = max(s.held[shard], generation)
}

// lost notes that the worker has not got what a request was based on, unless
// something newer is known since.
func (s *session) lost(shard uint32, base uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.held[shard]; ok && g <= base {
		delete(s.held, shard)
	}
}

// refuse keeps a shard away from the worker for a while.
func (s *session) refuse(shard uint32, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[shard], s.newly = until, true
	delete(s.held, shard)
}

// refuses says whether a shard stays away.
func (s *session) refuses(shard uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.refused[shard]
	return ok
}

// refusalsChanged ends the refusals whose time has come, and says whether there
// were any, or new ones since the last call.
func (s *session) refusalsChanged(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.newly
	s.newly = false
	for shard, until := range s.refused {
		if !now.Before(until) {
			delete(s.refused, shard)
			changed = true
		}
	}
	return changed
}

// knows says whether the worker was sent a class.
func (s *session) knows(class uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.classes.Get(class)
	return ok
}

// defined notes that the worker has the definitions that a request has brought it.
func (s *session) defined(req *pb.EvaluateRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range req.GetQueries() {
		s.classes.Add(q.GetClassId(), struct{}{})
	}
	for _, v := range req.GetVariants() {
		s.classes.Add(v.GetClassId(), struct{}{})
	}
}

// undefined notes that the worker has not got these classes.
func (s *session) undefined(classes []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range classes {
		s.classes.Remove(c)
	}
}

// loadsBeside says whether the worker has to get a shard's snapshot first, and beside rounds.
func (s *session) loadsBeside(shard uint32) bool {
	if !s.loadsSlowly.Load() {
		return false
	}
	_, known := s.generation(shard)
	return !known
}

// answered notes an answer and what the worker did for it: rows of the job, for it is the job that is known.
func (s *session) answered(resp *pb.EvaluateResponse, rows int, took time.Duration) {
	s.metrics.answered(took)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.requests++
	s.tally.classes += uint64(len(resp.GetResults()))
	s.tally.rows += uint64(rows)
	s.tally.busy += time.Duration(resp.GetBusyNanos())
	s.pace.observe(rows, took)
}

// loaded notes a snapshot that the worker has taken.
func (s *session) loaded(shard uint32, generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.snapshots++
	s.held[shard] = max(s.held[shard], generation)
}

// hedged notes that others were asked as well, because the worker was slow.
func (s *session) hedged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.hedges++
}

// failed notes a request without an answer.
func (s *session) failed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.failures++
	s.health.fail(now)
}

// withHealth runs fn on the session's health.
func (s *session) withHealth(fn func(h *health)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.health)
}

// well says whether the session may be asked.
func (s *session) well() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.health.sick && s.quarantine == nil && !s.member.OtherRules
}

// gone says whether others should have its shards.
func (s *session) gone(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.gone(now) || s.quarantine != nil || s.member.OtherRules
}

// expect is how long that many row evaluations should take.
func (s *session) expect(rows int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pace.expect(rows)
}

// status is what people are told of the session.
func (s *session) status(shards uint32) *pb.WorkerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &pb.WorkerStatus{
		Id:        s.member.ID,
		Address:   s.member.Address,
		Cores:     s.member.Cores,
		Version:   s.member.Version,
		Shards:    shards,
		Requests:  s.tally.requests,
		Failures:  s.tally.failures,
		Classes:   s.tally.classes,
		Rows:      s.tally.rows,
		Busy:      durationpb.New(s.tally.busy),
		Snapshots: s.tally.snapshots,
		Hedges:    s.tally.hedges,
	}
	if s.member.OtherRules {
		out.Quarantine = "other version: it computes by other rules than the coordinator"
	} else if q := s.quarantine; q != nil {
		out.Quarantine, out.QuarantinedUntil = q.why.Error(), timestamppb.New(q.until)
	}
	return out
}
