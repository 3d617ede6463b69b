package record

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// keyframeEvery is how many records lie between two keyframes at first; maxKeyframes is how many there are at the most: every other
	// one is dropped then, and twice as many records lie between. A keyframe takes some 100 bytes for each object that is there.
	keyframeEvery = 1 << 14
	maxKeyframes  = 16
	// maxProblems bounds how many problems are told.
	maxProblems = 100
)

// Part is one file of a record.
type Part struct {
	Name string
	In   io.ReaderAt
	Size int64
}

// Tape is a record that can be looked at as of any of its moments. It holds no objects: a state is where in the files they stand.
//
//	part 1                              part 2
//	begin change… decision … end        begin change… (cut off)
//	^ keyframe   ^ keyframe …           ^ keyframe
//
// OpenTape reads all once. A Cursor goes forward by reading what follows, and back from the last keyframe before. Where a part can't be
// read any further, what is before that counts, and the next part goes on: it begins a term of its own.
type Tape struct {
	parts     []Part
	starts    []int64 // of each part, in the tape
	ends      []int64 // as far as each part can be read
	keyframes []keyframe
	every     int
	// decisions are where all of them stand.
	decisions []attempted
	from, to  time.Time
	records   int
	problems  []string
}

// keyframe is the state before the record at a place, which is the n-th.
type keyframe struct {
	at    int64
	n     int
	state *state
}

// attempted is a decision, which attempt for its pod it ended, and where the pod stands.
type attempted struct {
	at, pod int64
	attempt int32
}

// OpenTape reads the files of a record in the order of their first moments. It is an error where none of them begins as a record.
func OpenTape(ctx context.Context, parts []Part) (*Tape, error) {
	t := &Tape{every: keyframeEvery}
	if err := t.sort(parts); err != nil {
		return nil, err
	}
	f := &follower{state: newState(), from: t}
	for i := range t.parts {
		if err := t.scan(ctx, i, f); err != nil {
			return nil, err
		}
	}
	t.to = f.moment
	return t, nil
}

// sort puts the parts into their order.
func (t *Tape) sort(parts []Part) error {
	type dated struct {
		Part
		first time.Time
	}
	var all []dated
	for _, p := range parts {
		first, err := NewReader(io.NewSectionReader(p.In, 0, p.Size)).Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("it is empty")
			}
			return fmt.Errorf("%s: byte 0: no record of a scheduler begins here: %w", p.Name, err)
		}
		all = append(all, dated{p, first.GetTime().AsTime()})
	}
	slices.SortStableFunc(all, func(a, b dated) int { return a.first.Compare(b.first) })
	start := int64(0)
	for _, p := range all {
		t.parts, t.starts, t.ends = append(t.parts, p.Part), append(t.starts, start), append(t.ends, start)
		start += p.Size
	}
	t.from = all[0].first
	return nil
}

// scan reads a part.
func (t *Tape) scan(ctx context.Context, i int, f *follower) error {
	r := NewReader(io.NewSectionReader(t.parts[i].In, 0, t.parts[i].Size))
	for ; ; t.records++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		offset := r.Offset()
		at := t.starts[i] + offset
		t.ends[i] = at
		x, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, ErrCutOff):
			t.problem(i, offset, errors.New("the file is cut off here: what is before is shown"))
			return nil
		case err != nil:
			t.problem(i, offset, fmt.Errorf("the file is damaged here, and what is before is shown: %w", err))
			return nil
		}
		if len(t.keyframes) == 0 || t.records >= t.keyframes[len(t.keyframes)-1].n+t.every {
			t.keep(f, at)
		}
		if err := f.take(x, at); err != nil {
			t.problem(i, offset, err)
		}
		if d := x.GetDecision(); d != nil {
			made := attempted{at, nowhere.at, 1}
			if p := f.pods[types.UID(d.GetDecision().GetUid())]; p != nil {
				made.attempt, made.pod = int32(p.attempts), p.told.at
			}
			t.decisions = append(t.decisions, made)
		}
		if end := x.GetEnd().GetReason(); end != "" {
			t.problem(i, offset, fmt.Errorf("recording stops here: %s", end))
		}
	}
}

// keep keeps a keyframe, and drops every other one where there are too many.
func (t *Tape) keep(f *follower, at int64) {
	if len(t.keyframes) == maxKeyframes {
		for i := range maxKeyframes / 2 {
			t.keyframes[i] = t.keyframes[2*i]
		}
		clear(t.keyframes[maxKeyframes/2:])
		t.keyframes = t.keyframes[:maxKeyframes/2]
		t.every *= 2
	}
	t.keyframes = append(t.keyframes, keyframe{at, t.records, f.clone()})
}

func (t *Tape) problem(i int, offset int64, err error) {
	if len(t.problems) < maxProblems {
		t.problems = append(t.problems, fmt.Sprintf("%s: byte %d: %v", t.parts[i].Name, offset, err))
	}
}

// Problems tell what of the files can't be read, with the byte from which on that is so.
func (t *Tape) Problems() []string { return t.problems }

// Span is the first and the last moment.
func (t *Tape) Span() (from, to time.Time) { return t.from, t.to }

// Size is how many records and decisions there are.
func (t *Tape) Size() (records, decisions int) { return t.records, len(t.decisions) }

// part is the part that a place is in.
func (t *Tape) part(at int64) int {
	return sort.Search(len(t.starts), func(i int) bool { return t.starts[i] > at }) - 1
}

// readAhead is how much is read at once of a record at a place: most are smaller.
const readAhead = 8 << 10

// read reads the record at a place.
func (t *Tape) read(at int64) (*pb.Record, error) {
	i := t.part(at)
	if i < 0 {
		return nil, fmt.Errorf("byte %d is in no file", at)
	}
	offset := at - t.starts[i]
	section := io.NewSectionReader(t.parts[i].In, offset, t.parts[i].Size-offset)
	var out pb.Record
	err := protodelim.UnmarshalOptions{MaxSize: maxRecord}.UnmarshalFrom(bufio.NewReaderSize(section, readAhead), &out)
	if err == nil {
		err = out.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: byte %d: %w", t.parts[i].Name, offset, err)
	}
	return &out, nil
}

// object reads the object at a place.
func (t *Tape) object(p place) (objects.Object, error) {
	r, err := t.read(p.at)
	if err != nil {
		return nil, err
	}
	i := t.part(p.at)
	wrap := func(err error) error { return fmt.Errorf("%s: byte %d: %w", t.parts[i].Name, p.at-t.starts[i], err) }
	if p.index < 0 {
		obj, err := Object(r.GetChange())
		if err == nil && obj == nil {
			err = errors.New("expected the change of an object")
		}
		if err != nil {
			return nil, wrap(err)
		}
		return obj, nil
	}
	var list [][]byte
	switch what := r.What.(type) {
	case *pb.Record_Decision:
		list = what.Decision.GetAssumed()
	case *pb.Record_Bound:
		list = what.Bound.GetLatest()
	case *pb.Record_TakenBack:
		list = what.TakenBack.GetLatest()
	}
	if int(p.index) >= len(list) {
		return nil, wrap(fmt.Errorf("expected an object %d", p.index))
	}
	obj, err := objects.Decode(list[p.index])
	if err != nil {
		return nil, wrap(err)
	}
	named(obj)
	return obj, nil
}

// Cursor is a moment of a tape. It is for one goroutine.
type Cursor struct {
	tape *Tape
	f    *follower
	next int64 // where the next record stands
	part int
	// began is the term of the last Look.
	began place
	// known are the decisions that were told.
	known int
}

// Cursor is before the first record.
func (t *Tape) Cursor() *Cursor {
	return &Cursor{tape: t, f: &follower{state: newState(), from: t}, began: nowhere}
}

// View is what has to be told of a moment.
type View struct {
	// Begin opens the term; nil: there is none yet. With Anew all is told, as of a Load; else what has changed since the last Look, as
	// Events.
	Begin  *pb.RecordBegin
	Anew   bool
	All    *objects.Snapshot
	Events []objects.Event
	// Decisions are those of the term that were not told yet, at most so many as were asked for, the newest.
	Decisions []Decided
	// Waiting are pods that have no node, of those that are told.
	Waiting map[types.UID]Waiting
	// Problems are objects that can't be read, and are left out.
	Problems []string
}

// Decided is a decision, and the pod as it was then; nil: it is not known.
type Decided struct {
	*pb.PastDecision
	Pod *v1.Pod
}

// Waiting is what the last attempt for a pod has come to.
type Waiting struct {
	Attempts int
	Message  string
	Failed   bool
	At       time.Time
	// Nominated is the node that the pod is nominated to; empty: none.
	Nominated string
}

// Seek goes to the last record that is no later than a moment.
func (c *Cursor) Seek(ctx context.Context, to time.Time) error {
	if c.f.moment.After(to) {
		c.back(to)
	}
	return c.forward(ctx, func(at time.Time) bool { return !at.After(to) })
}

// back goes to the last keyframe that is no later than a moment.
func (c *Cursor) back(to time.Time) {
	k := c.tape.keyframes[0]
	for _, other := range c.tape.keyframes {
		if !other.state.moment.After(to) {
			k = other
		}
	}
	c.f = &follower{state: k.state.clone(), from: c.tape}
	c.next, c.part, c.began = k.at, c.tape.part(k.at), nowhere
}

// forward takes records in as long as their moments are wanted.
func (c *Cursor) forward(ctx context.Context, wanted func(time.Time) bool) error {
	if c.f.begin == c.began && c.f.touchedPods == nil {
		c.f.look()
	}
	for ; c.part < len(c.tape.parts); c.part++ {
		end := c.tape.ends[c.part]
		c.next = max(c.next, c.tape.starts[c.part])
		start := c.tape.starts[c.part]
		r := NewReader(io.NewSectionReader(c.tape.parts[c.part].In, c.next-start, end-c.next))
		r.begun = true
		from := c.next
		for c.next < end {
			if err := ctx.Err(); err != nil {
				return err
			}
			x, err := r.Next()
			if err != nil { // it was read before: the file has changed
				return fmt.Errorf("%s: byte %d: the file has changed since it was opened: %w", c.tape.parts[c.part].Name, c.next-start, err)
			}
			if at := x.GetTime().AsTime(); !wanted(latest(at, c.f.moment)) {
				return nil
			}
			_ = c.f.take(x, c.next) // OpenTape has told of it
			c.next = from + r.Offset()
		}
	}
	c.part = len(c.tape.parts) - 1
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Look tells what has changed since the last Look: all of it where the term is another, or the cursor has gone back.
func (c *Cursor) Look(mostDecisions int) (*View, error) {
	v := &View{Waiting: map[types.UID]Waiting{}}
	f := c.f
	if f.begin == nowhere {
		v.Anew, v.All = true, &objects.Snapshot{}
		return v, nil
	}
	r, err := c.tape.read(f.begin.at)
	if err != nil {
		return nil, err
	}
	v.Begin = r.GetBegin()
	v.Anew = f.begin != c.began
	if v.Anew {
		c.tellAll(v)
		c.known = f.termDecisions
	} else {
		c.tellTouched(v)
	}
	first := max(c.known, f.decisions-mostDecisions)
	for _, d := range c.tape.decisions[first:f.decisions] {
		x, err := c.tape.read(d.at)
		if err != nil {
			return nil, err
		}
		made := Decided{PastDecision: &pb.PastDecision{
			Decision: x.GetDecision().GetDecision(), Time: timestamppb.New(x.GetTime().AsTime()), Attempt: uint32(d.attempt),
		}}
		if d.pod != nowhere.at {
			made.Pod, _ = c.read(v, place{d.pod, -1}).(*v1.Pod)
		}
		v.Decisions = append(v.Decisions, made)
	}
	c.began, c.known = f.begin, f.decisions
	f.look()
	return v, nil
}

// tellAll tells all that there is, in the order in which it came.
func (c *Cursor) tellAll(v *View) {
	v.All = &objects.Snapshot{}
	things := make([]*thing, 0, len(c.f.objects))
	for _, t := range c.f.objects {
		things = append(things, t)
	}
	slices.SortFunc(things, func(a, b *thing) int {
		return cmp.Or(cmp.Compare(a.counts().at, b.counts().at), cmp.Compare(a.counts().index, b.counts().index))
	})
	for _, t := range things {
		switch obj := c.read(v, t.counts()).(type) {
		case nil:
		case *v1.Node:
			v.All.Nodes = append(v.All.Nodes, obj)
		default:
			v.All.Cluster = append(v.All.Cluster, obj)
		}
	}
	objects.Sort(v.All.Cluster)
	uids := make([]types.UID, 0, len(c.f.pods))
	for uid := range c.f.pods {
		uids = append(uids, uid)
	}
	slices.SortFunc(uids, func(a, b types.UID) int { return cmp.Compare(c.f.pods[a].told.at, c.f.pods[b].told.at) })
	for _, uid := range uids {
		if now := c.pod(v, uid); now != nil {
			v.All.Pods = append(v.All.Pods, now)
		}
	}
}

// tellTouched tells what was touched since the last Look: what is gone first.
func (c *Cursor) tellTouched(v *View) {
	var gone, others, nodes, pods []objects.Event
	for ref, was := range c.f.touchedThings {
		t := c.f.objects[ref]
		if t == nil {
			if was != nowhere {
				gone = appendEvent(gone, objects.Deleted, c.read(v, was))
			}
			continue
		}
		if ref.Kind == objects.KindNode {
			nodes = appendEvent(nodes, objects.Modified, c.read(v, t.counts()))
		} else {
			others = appendEvent(others, objects.Modified, c.read(v, t.counts()))
		}
	}
	byRef := func(a, b objects.Event) int {
		return cmp.Compare(objects.RefOf(a.Any()).String(), objects.RefOf(b.Any()).String())
	}
	for uid, was := range c.f.touchedPods {
		if c.f.pods[uid] == nil {
			if was != nowhere {
				gone = appendEvent(gone, objects.Deleted, c.read(v, was))
			}
			continue
		}
		if now := c.pod(v, uid); now != nil {
			pods = appendEvent(pods, objects.Modified, now)
		}
	}
	for _, list := range [][]objects.Event{gone, others, nodes, pods} {
		slices.SortFunc(list, byRef)
		v.Events = append(v.Events, list...)
	}
}

// appendEvent adds what has become of an object; nil: nothing.
func appendEvent(list []objects.Event, what objects.EventType, obj objects.Object) []objects.Event {
	e := objects.Event{Type: what}
	switch obj := obj.(type) {
	case nil:
		return list
	case *v1.Node:
		e.Kind, e.Node = objects.KindNode, obj
	case *v1.Pod:
		e.Kind, e.Pod = objects.KindPod, obj
	default:
		e.Kind, e.Object = objects.KindOf(obj), obj
	}
	return append(list, e)
}

// read reads an object; nil: it can't be read, which is told.
func (c *Cursor) read(v *View, p place) objects.Object {
	obj, err := c.tape.object(p)
	if err != nil {
		if len(v.Problems) < maxProblems {
			v.Problems = append(v.Problems, err.Error())
		}
		return nil
	}
	return obj
}

// pod reads a pod as it counts, and what it waits for; nil: it can't be read.
func (c *Cursor) pod(v *View, uid types.UID) *v1.Pod {
	p := c.f.pods[uid]
	told, ok := c.read(v, p.told).(*v1.Pod)
	if !ok {
		return nil
	}
	now := p.as(told)
	if now.Spec.NodeName == "" && p.last != nowhere {
		c.waits(v, uid, p)
	}
	return now
}

// waits tells what a pod without a node waits for.
func (c *Cursor) waits(v *View, uid types.UID, p *pod) {
	from := p.last
	if p.back != nowhere {
		from = p.back
	}
	r, err := c.tape.read(from.at)
	if err != nil {
		if len(v.Problems) < maxProblems {
			v.Problems = append(v.Problems, err.Error())
		}
		return
	}
	w := Waiting{Attempts: p.attempts, At: r.GetTime().AsTime()}
	if back := r.GetTakenBack(); back != nil {
		w.Message, w.Failed = back.GetMessage(), true
	} else {
		d := r.GetDecision().GetDecision()
		w.Message, w.Failed, w.Nominated = d.GetMessage(), r.GetDecision().GetFailed(), d.GetNominated()
	}
	if w.Message != "" {
		v.Waiting[uid] = w
	}
}
