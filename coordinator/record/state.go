package record

import (
	"maps"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// state is what a record has told of up to one place: where in the record each object stands as it counts. What it points to is never
// changed, so that keyframes share it.
type state struct {
	begin   place // of the term's begin
	moment  time.Time
	objects map[objects.Ref]*thing // but for pods
	pods    map[types.UID]*pod
	// assumed are what the last decision for a pod has assumed that is not settled.
	assumed map[types.UID][]objects.Ref
	// decisions is how many of the tape's decisions are behind it, from which one on they are of this term.
	decisions, termDecisions int
}

// place is where a message stands in a tape.
type place struct {
	at int64 // of the record
	// index is that of an object in a decision, or in its outcome; -1: the record is the change of the object.
	index int32
}

// nowhere is the place of what there is not.
var nowhere = place{at: -1}

// thing is an object that is no pod.
type thing struct {
	// told is the last change of it; nowhere: there was none. assumed is how it counts instead; nowhere: as it was told.
	told, assumed place
	// written says that it was assumed as it was written.
	written bool
}

func (t *thing) counts() place {
	if t.assumed != nowhere {
		return t.assumed
	}
	return t.told
}

// pod is a pod as it was told of last, and what was decided for it.
type pod struct {
	told place
	// chosen is the node that a decision has given it; empty: none, or that was taken back.
	chosen string
	// last is its last decision; nowhere: there is none. It waits where that gave it no node, or was taken back for the reason at back.
	last, back place
	attempts   int
}

func newState() *state {
	return &state{begin: nowhere, objects: map[objects.Ref]*thing{}, pods: map[types.UID]*pod{}, assumed: map[types.UID][]objects.Ref{}}
}

// objectsAt reads the objects of a record.
type objectsAt interface {
	object(place) (objects.Object, error)
}

// follower brings a state forward, and notes what it has touched.
type follower struct {
	*state
	from objectsAt
	// touchedPods and touchedThings have what was touched since the last look, with where it stood before that; nil: nobody looks.
	touchedPods   map[types.UID]place
	touchedThings map[objects.Ref]place
}

// look begins to note what is touched.
func (f *follower) look() {
	f.touchedPods, f.touchedThings = map[types.UID]place{}, map[objects.Ref]place{}
}

// setPod replaces a pod; nil: it is gone.
func (f *follower) setPod(uid types.UID, now *pod) {
	before, was := nowhere, f.pods[uid]
	if was != nil {
		before = was.told
	}
	if _, noted := f.touchedPods[uid]; f.touchedPods != nil && !noted {
		f.touchedPods[uid] = before
	}
	if now == nil {
		delete(f.pods, uid)
	} else {
		f.pods[uid] = now
	}
}

// set replaces an object; nil: it is gone.
func (f *follower) set(ref objects.Ref, now *thing) {
	before, was := nowhere, f.objects[ref]
	if was != nil {
		before = was.counts()
	}
	if _, noted := f.touchedThings[ref]; f.touchedThings != nil && !noted {
		f.touchedThings[ref] = before
	}
	if now == nil || now.counts() == nowhere {
		delete(f.objects, ref)
	} else {
		f.objects[ref] = now
	}
}

// take takes in the record at a place. An error is of an object that can't be read, which then counts as it did.
func (f *follower) take(r *pb.Record, at int64) error {
	if t := r.GetTime().AsTime(); t.After(f.moment) {
		f.moment = t // clocks are set back
	}
	switch what := r.What.(type) {
	case *pb.Record_Begin:
		next := newState()
		next.begin, next.moment = place{at, -1}, f.moment
		next.decisions, next.termDecisions = f.decisions, f.decisions
		*f.state = *next
	case *pb.Record_Change:
		return f.change(what.Change, at)
	case *pb.Record_Decision:
		f.decision(what.Decision, at)
	case *pb.Record_Bound:
		uid := types.UID(what.Bound.GetUid())
		return f.written(uid, len(what.Bound.GetLatest()), at)
	case *pb.Record_TakenBack:
		return f.takenBack(what.TakenBack, at)
	case *pb.Record_Released:
		f.release(types.UID(what.Released.GetUid()), nowhere)
	}
	return nil
}

func (f *follower) change(c *pb.RecordChange, at int64) error {
	ref, gone := RefOf(c), len(c.GetRaw()) == 0
	if ref.Kind == objects.KindPod {
		f.changePod(types.UID(c.GetUid()), gone, at)
		return nil
	}
	before := f.objects[ref]
	switch {
	case gone:
		f.set(ref, nil)
		return nil
	case before == nil || before.assumed == nowhere || c.GetOwn():
		f.set(ref, &thing{told: place{at, -1}, assumed: nowhere})
		return nil
	}
	now, err := Object(c)
	if err != nil {
		return err
	}
	was, err := f.from.object(before.assumed)
	if err != nil {
		return err
	}
	next := &thing{told: place{at, -1}, assumed: nowhere}
	if stillAssumed(now, was, before) {
		next.assumed, next.written = before.assumed, before.written
	}
	f.set(ref, next)
	return nil
}

// stillAssumed tells whether an object counts as it was assumed, though the API has told of it.
func stillAssumed(now, assumed objects.Object, before *thing) bool {
	claim, is := now.(*resourcev1.ResourceClaim)
	switch {
	case !is:
		return now.GetResourceVersion() != "" && now.GetResourceVersion() == assumed.GetResourceVersion()
	case now.GetUID() != assumed.GetUID():
		return false
	case before.written:
		return !newer(now, assumed)
	}
	return claim.Status.Allocation == nil // it is in flight until the API tells of its devices
}

// newer tells whether an object is of a later version than another, where both are numbers, as Kubernetes' are; else it is taken for one.
func newer(a, b objects.Object) bool {
	x, errX := strconv.ParseUint(a.GetResourceVersion(), 10, 64)
	y, errY := strconv.ParseUint(b.GetResourceVersion(), 10, 64)
	return errX != nil || errY != nil || x > y
}

func (f *follower) changePod(uid types.UID, gone bool, at int64) {
	if gone {
		f.settle(uid, func(t *thing) bool { return t.told == nowhere })
		delete(f.assumed, uid)
		f.setPod(uid, nil)
		return
	}
	next := &pod{told: place{at, -1}, last: nowhere, back: nowhere}
	if before := f.pods[uid]; before != nil {
		*next = *before
		next.told = place{at, -1}
	}
	f.setPod(uid, next)
}

func (f *follower) decision(r *pb.RecordDecision, at int64) {
	f.decisions++
	d := r.GetDecision()
	uid := types.UID(d.GetUid())
	before := f.pods[uid]
	if before == nil {
		return // of a pod that nobody has told of
	}
	next := *before
	next.last, next.back, next.chosen = place{at, -1}, nowhere, d.GetNode()
	next.attempts++
	f.setPod(uid, &next)
	for i, raw := range r.GetAssumed() {
		ref, ok := assumedRef(raw)
		if !ok {
			continue
		}
		now := &thing{told: nowhere, assumed: place{at, int32(i)}}
		if before := f.objects[ref]; before != nil {
			now.told = before.told
		}
		f.set(ref, now)
		f.assumed[uid] = append(f.assumed[uid], ref)
	}
}

// assumedRef is what an assumed object counts as: one without a name, which is to be made, by its UID.
func assumedRef(raw []byte) (objects.Ref, bool) {
	obj, err := objects.Decode(raw)
	if err != nil {
		return objects.Ref{}, false
	}
	named(obj)
	return objects.RefOf(obj), true
}

// named gives an object that is to be made a name.
func named(obj objects.Object) {
	if obj.GetName() == "" {
		obj.SetName("in-flight-" + string(obj.GetUID()))
	}
}

// settle ends what a pod's decision has assumed of those that a function picks.
func (f *follower) settle(uid types.UID, over func(*thing) bool) {
	var kept []objects.Ref
	for _, ref := range f.assumed[uid] {
		t := f.objects[ref]
		switch {
		case t == nil || t.assumed == nowhere:
		case !over(t):
			kept = append(kept, ref)
		default:
			f.set(ref, &thing{told: t.told, assumed: nowhere})
		}
	}
	if len(kept) == 0 {
		delete(f.assumed, uid)
	} else {
		f.assumed[uid] = kept
	}
}

// written takes in the objects of an outcome: claims of devices as they were written count until the API tells of a newer one. Those of
// which nothing was written are not in flight any more. Volumes stay as they are.
func (f *follower) written(uid types.UID, latest int, at int64) error {
	now := map[objects.Ref]place{}
	var failed error
	for i := range latest {
		from := place{at, int32(i)}
		obj, err := f.from.object(from)
		if err != nil {
			failed = err
			continue
		}
		ref := objects.RefOf(obj)
		if now[ref] = from; ref.Kind == objects.KindResourceClaim {
			if err := f.wrote(uid, ref, obj, from); err != nil {
				failed = err
			}
		}
	}
	f.settleClaims(uid)
	return failed
}

// wrote takes in a claim as it was written for a pod.
func (f *follower) wrote(uid types.UID, ref objects.Ref, obj objects.Object, from place) error {
	before := f.objects[ref]
	next := &thing{told: nowhere, assumed: from, written: true}
	if before != nil && before.told != nowhere {
		told, err := f.from.object(before.told)
		if err != nil {
			return err
		}
		if told.GetUID() != obj.GetUID() || newer(told, obj) {
			return nil
		}
		next.told = before.told
	}
	f.set(ref, next)
	f.assumed[uid] = append(f.assumed[uid], ref)
	return nil
}

// settleClaims ends the flights of claims for a pod that were not written.
func (f *follower) settleClaims(uid types.UID) {
	var claims, others []objects.Ref
	for _, ref := range f.assumed[uid] {
		if ref.Kind == objects.KindResourceClaim {
			claims = append(claims, ref)
		} else {
			others = append(others, ref)
		}
	}
	f.assumed[uid] = claims
	f.settle(uid, func(t *thing) bool { return !t.written })
	if list := append(others, f.assumed[uid]...); len(list) > 0 {
		f.assumed[uid] = list
	} else {
		delete(f.assumed, uid)
	}
}

func (f *follower) takenBack(r *pb.RecordTakenBack, at int64) error {
	uid := types.UID(r.GetUid())
	back := nowhere
	if r.GetWaits() {
		back = place{at, -1}
	}
	f.release(uid, back)
	err := f.written(uid, len(r.GetLatest()), at)
	for i := range r.GetLatest() {
		from := place{at, int32(i)}
		obj, broken := f.from.object(from)
		if broken != nil {
			err = broken
			continue
		}
		ref := objects.RefOf(obj)
		if before := f.objects[ref]; ref.Kind != objects.KindResourceClaim && before != nil && before.assumed != nowhere {
			f.set(ref, &thing{told: before.told, assumed: from})
		}
	}
	return err
}

// release takes a pod off the node that a decision has put it on. It waits for the reason at a place; nowhere: it does not, or not yet.
func (f *follower) release(uid types.UID, back place) {
	before := f.pods[uid]
	if before == nil || before.chosen == "" && back == nowhere {
		return
	}
	next := *before
	next.chosen, next.back = "", back
	f.setPod(uid, &next)
}

// clone is a copy that changes of the state leave alone.
func (s *state) clone() *state {
	c := *s
	c.objects, c.pods, c.assumed = maps.Clone(s.objects), maps.Clone(s.pods), maps.Clone(s.assumed)
	return &c
}

// as is a pod as it counts: on the node that a decision has given it.
func (p *pod) as(told *v1.Pod) *v1.Pod {
	if told.Spec.NodeName != "" || p.chosen == "" {
		return told
	}
	on := *told
	on.Spec.NodeName = p.chosen
	return &on
}
