package observe

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// maxRemembered is how many decisions are remembered, and maxRememberedBytes how many
	// bytes they take at the most, about.
	maxRemembered      = 1 << 16
	maxRememberedBytes = 64 << 20
	// shownHistory is how many of a pod's decisions an explanation tells.
	shownHistory = 5
	// scoresPerSecond bounds how many decisions a second are remembered with the scores of
	// the best nodes, and scoresBurst how many at once: to spell them out takes as long as
	// some decisions do. One that takes longer than scoresWorth, in a large cluster, counts for
	// several.
	scoresPerSecond = 100
	scoresBurst     = 100
	scoresWorth     = 100 * time.Microsecond
	// keptDeparted is how long a pod that is gone can be explained, and maxDeparted how many such pods are kept: a hundred a second. They
	// take 15 MiB.
	keptDeparted = 10 * time.Minute
	maxDeparted  = 1 << 16
)

// remembered is a decision with what is known of its moment. The message is shared with whoever reads it, and is not changed.
type remembered struct {
	*pb.PastDecision // nil: forgotten
	bytes            int
	// The same pod's decisions before and after it.
	older, newer *remembered
}

// Circumstances are what else is remembered of a decision.
type Circumstances struct {
	Top     []*pb.ScoredNode // the scores of the best nodes; nil: they were not spelled out
	Reviews []*pb.Review     // of out-of-tree plugins and extenders
	Trace   string           // hexadecimal id; empty: there is none
	// Waited is how long it is since the pod arrived, or its attempt before failed, and Took since this one began.
	Waited, Took time.Duration
	// Kind and Workload are what the pod is of, by WorkloadOf.
	Kind, Workload string
	// Preemption is whom the pod pushes out; nil: nobody.
	Preemption *pb.Preemption
}

// History remembers the newest decisions, in a ring: the oldest makes room. A pod that is
// gone is forgotten after a while.
//
//	ring    d1  d2  d3  d4  d5  …        by age, up to a number and to a sum of bytes
//	             └─older─┘   │
//	newest[uid] ─────────────┘           the pod's last, from which the others are reached
//	earlier                              the same of earlier leaders, once it is read
type History struct {
	// keep keeps what comes for the next leader; nil: nobody does.
	keep    Keeper
	earlier *History // not changed any more
	// names has the pods of earlier leaders' decisions, by namespace/name.
	names map[string]types.UID

	newest map[types.UID]*remembered
	// ring holds the decisions from head on, oldest first; nil: forgotten.
	ring  []*remembered
	head  int
	bytes int
	// dropped is how many have made room.
	dropped int

	// gone are the pods that have left lately, by name, and left the same in the order in which they did.
	gone map[types.NamespacedName]*departed
	left []*departed

	tokens  float64 // of scoresPerSecond
	counted time.Time
}

// Keeper keeps what a leader remembers for the next one. It must not change what it gets.
type Keeper interface {
	Decided(d *pb.PastDecision, bytes int)
	Departed(*pb.Departure)
	Traced(*pb.KeptTrace)
}

// NewHistory makes one that remembers nothing. keep may be nil.
func NewHistory(keep Keeper) *History {
	return &History{
		keep: keep, newest: map[types.UID]*remembered{}, names: map[string]types.UID{}, gone: map[types.NamespacedName]*departed{},
		tokens: scoresBurst,
	}
}

// Recall remembers what earlier leaders have kept, which nobody changes any more.
func (h *History) Recall(earlier *History) { h.earlier = earlier }

// Take takes in what an earlier leader has kept. Parts come in the order in which they were written.
func (h *History) Take(c *pb.HistoryChunk) {
	for _, d := range c.GetDecisions() {
		d.DecidedBy = c.GetLeader()
		h.names[d.Decision.Pod] = types.UID(d.Decision.Uid)
		h.add(&remembered{PastDecision: d})
	}
	for _, t := range c.GetTraces() {
		h.Traced(types.UID(t.GetUid()), t.GetSeq(), t.GetTraceId())
	}
	for _, d := range c.GetDepartures() {
		h.depart(d)
	}
}

// Remember remembers a decision of so many attempts for the pod.
func (h *History) Remember(d *pb.Decision, at time.Time, attempt int, c Circumstances) {
	// One allocation: there may be tens of thousands a second.
	x := &struct {
		pb.PastDecision
		at           timestamppb.Timestamp
		waited, took durationpb.Duration
	}{}
	setTime(&x.at, at)
	setDuration(&x.waited, c.Waited)
	setDuration(&x.took, c.Took)
	x.Decision, x.Time, x.Attempt, x.Top, x.TraceId, x.Reviews = d, &x.at, uint32(attempt), c.Top, c.Trace, c.Reviews
	x.Waited, x.Took, x.Preemption = &x.waited, &x.took, c.Preemption
	x.Kind, x.Workload = c.Kind, c.Workload
	r := &remembered{PastDecision: &x.PastDecision}
	h.add(r)
	if h.keep != nil {
		h.keep.Decided(r.PastDecision, r.bytes)
	}
}

func setTime(to *timestamppb.Timestamp, t time.Time) {
	to.Seconds, to.Nanos = t.Unix(), int32(t.Nanosecond())
}

// setDuration writes a time that can't be negative: clocks may be set back.
func setDuration(to *durationpb.Duration, d time.Duration) {
	d = max(d, 0)
	to.Seconds, to.Nanos = int64(d/time.Second), int32(d%time.Second)
}

func (h *History) add(r *remembered) {
	uid := types.UID(r.Decision.Uid)
	r.bytes = rememberedBytes(r.PastDecision)
	if r.older = h.newest[uid]; r.older != nil {
		r.older.newer = r
	}
	h.newest[uid] = r
	h.ring, h.bytes = append(h.ring, r), h.bytes+r.bytes
	for len(h.ring)-h.head > maxRemembered || h.bytes > maxRememberedBytes && len(h.ring)-h.head > 1 {
		h.evict()
	}
}

// evict drops the oldest decision.
func (h *History) evict() {
	r := h.ring[h.head]
	h.ring[h.head] = nil
	h.dropped++
	if h.head++; h.head > len(h.ring)/2 {
		h.ring, h.head = append(h.ring[:0:0], h.ring[h.head:]...), 0
	}
	if r.PastDecision == nil {
		return
	}
	h.bytes -= r.bytes
	if r.newer != nil {
		r.newer.older = nil
	} else {
		delete(h.newest, types.UID(r.Decision.Uid))
	}
}

// Forget drops a pod's decisions; their places in the ring go when their time comes.
func (h *History) Forget(uid types.UID) {
	for r := h.newest[uid]; r != nil; r = r.older {
		h.bytes -= r.bytes
		r.PastDecision, r.newer = nil, nil
	}
	delete(h.newest, uid)
}

// departed is a pod that is gone.
type departed struct {
	name types.NamespacedName
	at   time.Time
	*pb.Departure
}

// Depart notes that a pod is gone, from a node or from the queue (""), and why, where there is a reason to tell. Its decisions are
// forgotten ten minutes later, or where too many others have gone since.
func (h *History) Depart(p *v1.Pod, node, why string, at time.Time) {
	if why == "" && h.Last(p.UID) == nil {
		return // nothing is known of it
	}
	d := &pb.Departure{
		Namespace: p.Namespace, Name: p.Name, Uid: string(p.UID), Time: timestamppb.New(at), Node: node, Why: why,
	}
	h.depart(d)
	if h.keep != nil {
		h.keep.Departed(d)
	}
}

func (h *History) depart(gone *pb.Departure) {
	d := &departed{types.NamespacedName{Namespace: gone.Namespace, Name: gone.Name}, gone.Time.AsTime(), gone}
	h.gone[d.name] = d
	h.left = append(h.left, d)
	for len(h.left) > maxDeparted || h.left[0].at.Add(keptDeparted).Before(d.at) {
		h.forgetDeparted()
	}
}

// forgetDeparted forgets the pod that went first.
func (h *History) forgetDeparted() {
	d := h.left[0]
	h.left[0] = nil
	h.left = h.left[1:]
	h.Forget(types.UID(d.Uid))
	if h.gone[d.name] == d {
		delete(h.gone, d.name)
	}
}

// departure tells of the pod of a name that has gone last, and not long ago; nil: none has.
func (h *History) departure(name types.NamespacedName, now time.Time) *departed {
	for ; h != nil; h = h.earlier {
		if d := h.gone[name]; d != nil && !d.at.Add(keptDeparted).Before(now) {
			return d
		}
	}
	return nil
}

// missed is a pod of a name that has gone while nobody led, before since: an earlier leader has decided it, and saw none of that name go.
func (h *History) missed(name types.NamespacedName, since time.Time) *departed {
	if h.earlier == nil || h.earlier.gone[name] != nil {
		return nil
	}
	uid := h.earlier.names[name.String()]
	last := h.earlier.Last(uid)
	if last == nil {
		return nil
	}
	return &departed{name, since, &pb.Departure{
		Uid: string(uid), Time: timestamppb.New(since), Why: "it was deleted, or has ended, about when this leader began to lead",
	}}
}

// tellGone explains a pod that has gone lately; nil: it has not. since is when this leader began to lead.
func (h *History) tellGone(name types.NamespacedName, now, since time.Time) *pb.ExplainResponse {
	d := h.departure(name, now)
	if d == nil && !since.Add(keptDeparted).Before(now) {
		d = h.missed(name, since)
	}
	if d == nil {
		return nil
	}
	out := &pb.ExplainResponse{Gone: d.Time}
	h.Tell(out, types.UID(d.Uid))
	switch {
	case d.Why != "":
		Note(out, d.Why)
	case d.Node != "":
		Note(out, "it was deleted, or has ended, on node "+d.Node)
	default:
		Note(out, "it was deleted, or has ended, before it had a node")
	}
	return out
}

// Last is a pod's last decision; nil: none is remembered.
func (h *History) Last(uid types.UID) *pb.Decision {
	for ; h != nil; h = h.earlier {
		if r := h.newest[uid]; r != nil {
			return r.Decision
		}
	}
	return nil
}

// Traced tells that a decision's trace was kept.
func (h *History) Traced(uid types.UID, seq uint64, trace string) {
	for r := h.newest[uid]; r != nil; r = r.older {
		if r.Decision.Seq != seq {
			continue
		}
		r.PastDecision = shallow(r.PastDecision)
		r.TraceId = trace
		if h.keep != nil {
			h.keep.Traced(&pb.KeptTrace{Uid: string(uid), Seq: seq, TraceId: trace})
		}
		return
	}
}

// shallow is a copy that shares what the fields lead to.
func shallow(d *pb.PastDecision) *pb.PastDecision {
	return &pb.PastDecision{
		Decision: d.Decision, Time: d.Time, Attempt: d.Attempt, Top: d.Top, TraceId: d.TraceId, Reviews: d.Reviews, DecidedBy: d.DecidedBy,
		Waited: d.Waited, Took: d.Took, Kind: d.Kind, Workload: d.Workload, Preemption: d.Preemption,
	}
}

// affordScores tells whether there is time to spell out the scores of one decision more. Tell scoresTook how long that was.
func (h *History) affordScores(now time.Time) bool {
	h.tokens = min(h.tokens+scoresPerSecond*max(now.Sub(h.counted), 0).Seconds(), scoresBurst)
	h.counted = now
	if h.tokens < 1 {
		return false
	}
	h.tokens--
	return true
}

// scoresTook is told how long it took to spell out the scores of a decision. Time beyond scoresWorth costs more tokens.
func (h *History) scoresTook(took time.Duration) {
	h.tokens -= min(max(float64(took)/float64(scoresWorth)-1, 0), scoresBurst)
}

// SpellOut scores the best nodes of a decision plugin by plugin, where that is afforded: the
// chosen one, and those that came next. A normalised answer is not taken apart. began is when the batch did.
func (h *History) SpellOut(r answers.Reader, class *compile.Class, c *answers.Choice, began time.Time,
	now func() time.Time) []*pb.ScoredNode {
	if c.Normalised() || !h.affordScores(began) {
		return nil
	}
	begun := now()
	defer func() { h.scoresTook(now().Sub(begun)) }()
	list, result, standing := c.Top(answers.TopRows)
	if len(list) == 0 {
		return nil
	}
	out := make([]*pb.ScoredNode, 0, len(list))
	for i := range list {
		x := scored(r, class, result, standing, &list[i])
		x.Chosen = rowOf(&list[i]) == c.Row
		out = append(out, x)
	}
	return out
}

// Past lists a pod's last decisions, newest first.
func (h *History) Past(uid types.UID) []*pb.PastDecision {
	var out []*pb.PastDecision
	for ; h != nil; h = h.earlier {
		for r := h.newest[uid]; r != nil && len(out) < shownHistory; r = r.older {
			out = append(out, r.PastDecision)
		}
	}
	return out
}

// rememberedBytes is about what a decision takes.
func rememberedBytes(r *pb.PastDecision) int {
	const fixed, node, plugin, victim, review, refusal, preempted = 670, 120, 100, 16, 150, 120, 100
	d := r.Decision
	n := fixed + len(r.Kind) + len(r.Workload)
	n += len(d.Pod) + len(d.Uid) + len(d.Profile) + len(d.Node) + len(d.Message) + len(d.Nominated) + len(r.TraceId)
	for _, v := range d.Victims {
		n += victim + len(v)
	}
	for _, v := range r.Preemption.GetVictims() {
		n += preempted + len(v.Pod) + len(v.Uid)
	}
	for _, b := range r.Preemption.GetBudgets() {
		n += preempted + len(b.Budget)
	}
	for _, t := range r.Top {
		n += node + len(t.Node) + plugin*len(t.Plugins)
	}
	for _, x := range r.Reviews {
		n += review + len(x.Reviewer)
		for _, why := range x.Refusals {
			n += refusal + len(why.Reason)
			for _, name := range why.Examples {
				n += victim + len(name)
			}
		}
	}
	return n
}
