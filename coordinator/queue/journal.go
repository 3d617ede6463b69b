package queue

import (
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/types"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxMessage bounds the message of a journal entry.
const maxMessage = 8 << 10

// Entry is what the journal has to keep of a pod; nil where it has to keep nothing, because
// the pod is gone or was never tried.
func (q *Queue) Entry(p *Pod) *pb.QueueEntry {
	if p.place == Gone || p.deleted || p.Attempts == 0 {
		return nil
	}
	return &pb.QueueEntry{
		Pod:                p.name().String(),
		Attempts:           uint32(p.Attempts),
		FirstAttempt:       stamp(p.FirstAttempt),
		Queued:             stamp(p.Timestamp),
		BackoffUntil:       stamp(p.BackoffUntil),
		UnschedulableCount: uint32(p.UnschedulableCount),
		ErrorCount:         uint32(p.ErrorCount),
		RejectedBy:         slices.Clone(p.RejectedBy),
		NominatedNode:      p.NominatedNode,
		Message:            cut(p.Message, maxMessage),
	}
}

// Restore remembers journal entries for the pods that Add will bring.
func (q *Queue) Restore(entries map[types.UID]*pb.QueueEntry) {
	if q.entries == nil {
		q.entries = make(map[types.UID]*pb.QueueEntry, len(entries))
	}
	maps.Copy(q.entries, entries)
}

// Unclaimed returns the restored entries whose pods were not added, and forgets them: their
// pods are gone.
func (q *Queue) Unclaimed() []types.UID {
	out := slices.Sorted(maps.Keys(q.entries))
	q.entries = nil
	return out
}

// restore puts a new pod where its journal entry says. The journal does not tell which
// events the pod has been held against since, so a rejected pod is tried again. It first
// waits out its backoff anew, so that pods which no leader has tried go before it.
func (q *Queue) restore(p *Pod, e *pb.QueueEntry) {
	now := p.Timestamp
	p.Timestamp = notAfter(e.GetQueued(), now)
	if p.Timestamp.IsZero() {
		p.Timestamp = now
	}
	p.FirstAttempt = notAfter(e.GetFirstAttempt(), now)
	p.Attempts = int(e.GetAttempts())
	p.UnschedulableCount, p.ErrorCount = int(e.GetUnschedulableCount()), int(e.GetErrorCount())
	q.setRejectedBy(p, e.GetRejectedBy())
	p.Message = e.GetMessage()
	// The status is what everybody else goes by; the journal knows of one that was not
	// written yet.
	if node := e.GetNominatedNode(); node != "" && p.Obj.Status.NominatedNodeName == "" {
		p.nominated = &node
	}
	q.nominations.set(p, p.Nomination())

	p.BackoffUntil = q.backoffs.until(p, now)
	if len(p.RejectedBy) == 0 {
		p.BackoffUntil = notAfter(e.GetBackoffUntil(), p.BackoffUntil)
	}
	q.requeue(p, eventPodAdded)
}

// Recall puts a pod where an attempt that was made elsewhere has left it: it waits for an event, after an error for its backoff. It is
// false where the pod is not in the queue, is in flight, or is gated.
func (q *Queue) Recall(uid types.UID, e *pb.QueueEntry, failed bool) bool {
	p := q.pods[uid]
	if p == nil || p.place == InFlight || p.place == Gated {
		return false
	}
	q.take(p)
	q.absolve(p)
	if at := notAfter(e.GetQueued(), q.now()); !at.IsZero() {
		p.Timestamp = at
	}
	p.Attempts, p.Message, p.ClassID = int(e.GetAttempts()), cut(e.GetMessage(), maxMessage), 0
	q.setRejectedBy(p, e.GetRejectedBy())
	p.UnschedulableCount, p.ErrorCount = 1, 0
	to := Unschedulable
	if failed {
		p.UnschedulableCount, p.ErrorCount, to = 0, 1, ErrorBackoff
	}
	p.BackoffUntil = q.backoffs.until(p, p.Timestamp)
	if node := e.GetNominatedNode(); node != "" && p.Obj.Status.NominatedNodeName == "" {
		p.nominated = &node
	}
	q.nominations.set(p, p.Nomination())
	q.move(p, to, eventAttemptFailed)
	return true
}

// notAfter reads a time of another leader's clock, which may be ahead.
func notAfter(t *timestamppb.Timestamp, limit time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	if at := t.AsTime(); at.Before(limit) {
		return at
	}
	return limit
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// cut shortens a text to n bytes, between two runes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
