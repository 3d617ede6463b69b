package queue

import (
	"bytes"
	"maps"
	"math"
	"math/bits"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Place is where a pod is. It is in one place at a time.
type Place uint8

// The places of a queue; doc.go draws how a pod gets from one to the other.
const (
	// Gone is not in the queue: never added, done or deleted.
	Gone Place = iota
	// Active is ready to be popped.
	Active
	// Backoff waits because plugins rejected the pod; it is popped before its time
	// where Active is empty.
	Backoff
	// ErrorBackoff waits because an attempt ended in an error; never popped before its
	// time.
	ErrorBackoff
	// Unschedulable waits for an event that may help.
	Unschedulable
	// Gated is held by a PreEnqueue plugin.
	Gated
	// InFlight is popped and its attempt is not over.
	InFlight

	places
)

// String is upstream's name of the queue; both kinds of backoff are one.
func (p Place) String() string {
	return [places]string{"", "active", "backoff", "backoff", "unschedulable", "gated", "in flight"}[p]
}

// Pod is a pod of the queue. Its fields are the queue's to write, except ClassID, and
// may be read on the goroutine that owns the queue.
type Pod struct {
	// Obj is the pod as it was seen last.
	Obj *v1.Pod
	// Priority is spec.priority; 0 where there is none.
	Priority int32
	// Seq is the number of the pod's arrival, from 1.
	Seq uint64
	// Arrived is when it was added, by the clock that measures; its owner may set it anew.
	Arrived time.Time
	// Timestamp is when the pod arrived, or when its last attempt failed.
	Timestamp time.Time
	// FirstAttempt is when it first became ready to be tried; zero: not yet.
	FirstAttempt time.Time
	// BackoffUntil is the second until the end of which it is not to be tried; zero: it
	// may be at once.
	BackoffUntil time.Time
	// Attempts is how often it was popped.
	Attempts int
	// UnschedulableCount is how many attempts plugins rejected.
	UnschedulableCount int
	// ErrorCount is how many attempts in a row ended in an error.
	ErrorCount int
	// RejectedBy names the plugins that rejected the last attempt, sorted; empty after an
	// error.
	RejectedBy []string
	// Gated names the plugin that holds the pod back; empty: none does.
	Gated string
	// Message is why it is not on a node: the last FitError, error or gate's text.
	Message string
	// NominatedNode is the node that the pod is nominated to; empty: none.
	NominatedNode string
	// Flushed says that it was tried again for having been unschedulable for too long, and has
	// not failed since.
	Flushed bool
	// ClassID is the pod's class, 0 where it is not known. The owner of the queue sets it
	// before Unschedulable: rejected pods of one class are judged together when an event
	// comes. It falls back to 0 when the pod's spec or labels change.
	ClassID uint64
	// Matched is compile.Class.Matched of the class, set with ClassID.
	Matched string

	// Cost is the time that it took to prepare the last attempt and to look for its victims, where that is much; 0: it
	// is not known, or is not to count. The owner of the queue sets it while the pod is in flight.
	Cost time.Duration
	// CostAhead is the time that it took to prepare it while others were decided, since its last attempt.
	CostAhead time.Duration

	// Aside is the class that the owner has set the pod aside for, and Awaits what of it; 0: it is not set aside.
	Aside  uint64
	Awaits Await

	// Group is the pod group that the pod is of; nil: none.
	Group *Group
	// Backfills is the pod group whose held room the pod may use, because the pod ends before the group may start; nil: none. The owner of
	// the queue sets it for each attempt.
	Backfills *Group

	// View is the owner's, for what it makes of the pod for out-of-tree plugins.
	View any

	last       bool // it was popped as the costly one of its batch, or was set aside: others may come before it
	place      Place
	at         int // in the heap of its place
	rejectors  set
	bucket     *bucket
	represents *representative
	tenant     *tenant  // while it is set aside
	slot       int      // in its bucket, or its tenant
	flight     uint64   // its number among the flights
	from       Place    // in flight: where it was popped from
	activated  bool     // Activate was called while in flight
	deleted    bool     // deleted while in flight
	mate       int      // in its pod group
	stalled    bool     // gated by the state of its pod group
	blamed     []string // the plugins that the meter was told of
	usage      *pb.PodUsage
	parsed     parsed
	nominated  *string // by Nominate or the journal, which its status does not tell yet
}

// startsWithin is how many seconds it may take from the begin of a pod's attempt until a kubelet has seen it, from when on
// activeDeadlineSeconds counts.
const startsWithin = 30

// Longest is how long it takes at the most from the begin of an attempt until the pod has left its node: 30 seconds, its
// activeDeadlineSeconds and its terminationGracePeriodSeconds, rounded up by an eighth at the most, so that there are few such times. 0: it
// has no deadline.
func (p *Pod) Longest() time.Duration {
	s := &p.Obj.Spec
	if s.ActiveDeadlineSeconds == nil {
		return 0
	}
	grace := int64(v1.DefaultTerminationGracePeriodSeconds)
	if s.TerminationGracePeriodSeconds != nil {
		grace = *s.TerminationGracePeriodSeconds
	}
	most := func(n int64) int64 { return min(max(n, 0), math.MaxInt32) }
	seconds := startsWithin + most(*s.ActiveDeadlineSeconds) + most(grace)
	step := int64(1) << max(bits.Len64(uint64(seconds))-4, 0)
	return time.Duration((seconds+step-1)/step*step) * time.Second
}

// Nomination is the node that the pod is nominated to as far as anybody knows: what Nominate said,
// as long as the status has not changed since, else the status. "": none.
//
// Differs from upstream: a pod that is being deleted is not nominated any more.
func (p *Pod) Nomination() string {
	if p.Obj.DeletionTimestamp != nil {
		return ""
	}
	if p.nominated != nil {
		return *p.nominated
	}
	return p.Obj.Status.NominatedNodeName
}

// Place tells where the pod is.
func (p *Pod) Place() Place { return p.place }

func (p *Pod) name() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Obj.Namespace, Name: p.Obj.Name}
}

// setObj takes in a pod's newest object, and tells whether it is known to be of another class
// now.
func (p *Pod) setObj(obj *v1.Pod) (another bool) {
	if (p.ClassID != 0 || p.parsed != parsed{} || p.represents != nil) && !sameSpec(p.Obj, obj) {
		p.ClassID, p.parsed, another = 0, parsed{}, true
	}
	p.Obj, p.Priority, p.usage = obj, compile.Priority(obj), nil
	return another
}

// sameSpec tells whether two objects of one pod are of the same class. The generation, where
// it is kept, counts the changes of the spec.
func sameSpec(a, b *v1.Pod) bool {
	if !maps.Equal(a.Labels, b.Labels) {
		return false
	}
	return a.Generation != 0 && a.Generation == b.Generation || equalSpec(a, b)
}

// equalSpec compares what is written of two specs: to look at ten thousand terms by reflection takes ten times as
// long.
func equalSpec(a, b *v1.Pod) bool {
	x, _ := a.Spec.Marshal() // which only fails where a buffer is too small
	y, _ := b.Spec.Marshal()
	return bytes.Equal(x, y)
}

// uses is what the pod would take of a node.
func (p *Pod) uses() *pb.PodUsage {
	if p.usage == nil {
		p.usage = compile.Usage(p.Obj)
	}
	return p.usage
}

// before is the queue's order: upstream's PrioritySort, then arrival.
func before(a, b *Pod) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if x, y := a.Group != nil && a.Group.favoured, b.Group != nil && b.Group.favoured; x != y {
		return x
	}
	if c := a.Timestamp.Compare(b.Timestamp); c != 0 {
		return c < 0
	}
	return a.Seq < b.Seq
}

// olderThan orders pods by their last failure.
func olderThan(a, b *Pod) bool {
	if c := a.Timestamp.Compare(b.Timestamp); c != 0 {
		return c < 0
	}
	return a.Seq < b.Seq
}
