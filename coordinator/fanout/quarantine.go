package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/scorer"
)

// The back-off of quarantine.
const (
	// MinQuarantine is how long a worker is not asked after the first time that it was not to be
	// relied on, MaxQuarantine after many times: each time is twice as long as the one before.
	MinQuarantine = 30 * time.Second
	MaxQuarantine = 10 * time.Minute
	// cleanAfter is how long a worker has to be relied on for its next quarantine to be the shortest again.
	cleanAfter = time.Hour
	// maxRelapses is how many times a worker may answer probes and then no request, or be slow: health.relapses.
	maxRelapses = 2
	// maxQuarantines bounds what is remembered of workers that have left.
	maxQuarantines = 1 << 12
)

// untrueError is an answer that can not be, or is not what the own tables say.
type untrueError struct {
	worker string
	err    error
}

func (e *untrueError) Error() string { return "answer of worker " + e.worker + ": " + e.err.Error() }
func (e *untrueError) Unwrap() error { return e.err }

// untrue makes an error about what the worker has answered.
func (s *session) untrue(format string, args ...any) error {
	return &untrueError{s.member.ID, fmt.Errorf(format, args...)}
}

// errQuarantined means that the worker was put in quarantine while it was being asked.
var errQuarantined = errors.New("the worker is in quarantine")

// causes of quarantine, as the metric names them.
const (
	causeAnswer = "answer" // it is untrue
	causeTerm   = "term"   // it claims a newer term than there is
	causeErrors = "errors" // it answers probes, and no request
	causeSlow   = "slow"   // it answers later than others would, or past the deadline
)

// quarantine is what is known of a worker that was not to be relied on. It goes by the worker's id, so
// that one that registers anew under its id is where it was.
type quarantine struct {
	until time.Time
	lasts time.Duration
	why   error
}

// quarantine has a worker not asked for a while: its shards go to others.
func (f *Fanout) quarantine(ctx context.Context, s *session, cause string, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.barred() {
		return // for what it has said before
	}
	now := f.cfg.Clock.Now()
	q := f.quarantines[s.member.ID]
	if q == nil || now.Sub(q.until) > cleanAfter {
		f.forgetQuarantines(now)
		q = &quarantine{lasts: MinQuarantine / 2}
		f.quarantines[s.member.ID] = q
	}
	q.lasts = min(2*q.lasts, MaxQuarantine)
	q.until, q.why = now.Add(q.lasts), why
	s.bar(q)
	f.remap = true
	f.metrics.quarantines.WithLabelValues(cause).Inc()
	f.countQuarantined()
	klog.FromContext(ctx).Error(why, "A worker is in quarantine, its shards go to others",
		"worker", s.member.ID, "address", s.member.Address, "cause", cause, "for", q.lasts)
}

// forgetQuarantines makes room for one more: what is long over goes first. The caller holds f.mu.
func (f *Fanout) forgetQuarantines(now time.Time) {
	if len(f.quarantines) < maxQuarantines {
		return
	}
	oldest := ""
	for id, q := range f.quarantines {
		if now.Sub(q.until) > cleanAfter {
			delete(f.quarantines, id)
		} else if oldest == "" || q.until.Before(f.quarantines[oldest].until) {
			oldest = id
		}
	}
	if len(f.quarantines) >= maxQuarantines {
		delete(f.quarantines, oldest)
	}
}

// release ends the quarantines whose time has come. The caller holds f.mu.
func (f *Fanout) release(ctx context.Context, now time.Time) {
	for _, s := range f.sessions {
		if q := s.quarantined(); q != nil && !now.Before(q.until) {
			s.bar(nil)
			f.remap = true
			f.countQuarantined()
			klog.FromContext(ctx).Info("A worker's quarantine is over", "worker", s.member.ID)
		}
	}
}

// countQuarantined sets the gauge. The caller holds f.mu.
func (f *Fanout) countQuarantined() {
	n := 0
	for _, s := range f.sessions {
		if s.barred() {
			n++
		}
	}
	f.metrics.quarantined.Set(float64(n))
}

// Blame puts the worker in quarantine that has answered for a shard of a result (Result.Witnesses), because
// the own tables say otherwise. It does nothing where that was the coordinator itself.
func (f *Fanout) Blame(ctx context.Context, witness uint32, why error) {
	f.mu.Lock()
	i := slices.IndexFunc(f.sessions, func(s *session) bool { return s.number == witness })
	var s *session
	if i >= 0 {
		s = f.sessions[i]
	}
	f.mu.Unlock()
	if s != nil {
		f.quarantine(ctx, s, causeAnswer, s.untrue("%w", why))
	}
}

// watched is how many answers to classes are audited of a worker that is watched.
const watched = 64

// Watch has the next answers of those audited who have answered for any shard of a result.
func (f *Fanout) Watch(r *scorer.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if slices.Contains(r.Witnesses, s.number) {
			s.watched.Store(watched)
		}
	}
}

// bar keeps the session from being asked; nil: it may be asked again, and is known to hold nothing.
func (s *session) bar(q *quarantine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quarantine = q
	if q == nil {
		s.health = health{}
		return
	}
	clear(s.held)
	s.classes.Purge()
}

// quarantined is why the session is not asked; nil: it may be.
func (s *session) quarantined() *quarantine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quarantine
}

func (s *session) barred() bool { return s.quarantined() != nil }

// relapsed tells whether the worker has answered probes again and again, and then no request, or late.
func (s *session) relapsed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.relapses > maxRelapses
}

// refused says what is behind a worker's refusal of the term: ErrDeposed where there is a newer leader, for
// it is not for workers to say who leads.
func (f *Fanout) refused(ctx context.Context, s *session, err error) error {
	if status.Code(err) != codes.FailedPrecondition {
		return err
	}
	if f.cfg.Leads != nil {
		if leads, unknown := f.cfg.Leads(ctx); unknown == nil && !leads {
			return fmt.Errorf("%w: worker %s: %w", ErrDeposed, s.member.ID, err)
		}
	}
	return &claimError{s.member.ID, err}
}

// claimError is a refusal of the term by a worker, which the term is not over for.
type claimError struct {
	worker string
	err    error
}

func (e *claimError) Error() string {
	return "worker " + e.worker + " says that the term is over, which it is not: " + e.err.Error()
}
func (e *claimError) Unwrap() error { return e.err }

// suspect puts a session in quarantine for an error that says more than that it could not be reached; false:
// it does not.
func (f *Fanout) suspect(ctx context.Context, s *session, err error) bool {
	var untrue *untrueError
	var claim *claimError
	switch {
	case errors.As(err, &untrue):
		f.quarantine(ctx, s, causeAnswer, err)
	case errors.As(err, &claim):
		f.quarantine(ctx, s, causeTerm, err)
	case s.relapsed() && (errors.Is(err, errSlow) || errors.Is(err, errLate)):
		f.quarantine(ctx, s, causeSlow, err)
	case s.relapsed():
		f.quarantine(ctx, s, causeErrors, err)
	default:
		return false
	}
	return true
}
