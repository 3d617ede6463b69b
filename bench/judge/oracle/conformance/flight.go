package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/record"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Flight is what a flight recorder wrote: unlike a Log, with all that changed meanwhile.
type Flight struct {
	// Config is a KubeSchedulerConfiguration file's text; empty: there is none.
	Config []byte
	Record io.Reader
	// Every is after how many decisions one is compared node by node, beyond what it
	// tells; 0: each.
	Every int
	// Most is the number of differences to stop at; 0: the first.
	Most int
	// atRest is called at the end, with the state that there is then; nil: nobody is.
	atRest func(context.Context, *replay) error
}

// FlightResult is what a flight came to.
type FlightResult struct {
	Result
	// Terms, Changes and TakenBack count what the record holds.
	Terms, Changes, TakenBack int
	// InFlight is how many pods were refused for a claim in flight, and ClaimsTakenBack how many claims were given devices by
	// decisions that were taken back.
	InFlight, ClaimsTakenBack int
	// Judgements is how many decisions of another scheduler were judged, and Worse at how many of them upstream's plugins give the node
	// that was chosen a lower score than another, or refuse it.
	Judgements, Worse int
	// Ended is why the record ends before its time; empty: it does not.
	Ended string
}

// Add adds the result of another flight, of the differences the first only.
func (r *FlightResult) Add(other *FlightResult) {
	r.Result.Add(&other.Result)
	r.Terms += other.Terms
	r.Changes += other.Changes
	r.TakenBack += other.TakenBack
	r.InFlight += other.InFlight
	r.ClaimsTakenBack += other.ClaimsTakenBack
	r.Judgements += other.Judgements
	r.Worse += other.Worse
}

func (r *FlightResult) String() string {
	return fmt.Sprintf("%v, %d terms, %d changes of objects, %d decisions taken back, "+
		"%d claims given devices, %d of them taken back, %d pods met one in flight",
		&r.Result, r.Terms, r.Changes, r.TakenBack, r.Claims, r.ClaimsTakenBack, r.InFlight)
}

// Replay holds a flight against upstream: each decision on the state of the cluster that it was
// made on.
func (f *Flight) Replay(ctx context.Context) (_ *FlightResult, err error) {
	t := &tracker{flight: f, out: &FlightResult{}}
	defer func() { err = errors.Join(err, t.land()) }()
	for in := record.NewReader(f.Record); ; {
		r, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			if f.atRest != nil {
				return t.out, f.atRest(ctx, t.replay)
			}
			return t.out, nil
		case errors.Is(err, record.ErrCutOff):
			t.out.Ended = err.Error()
			return t.out, nil
		case err != nil:
			return nil, err
		}
		if err := t.take(ctx, r); err != nil {
			return nil, err
		}
		if len(t.out.Differences) > f.Most {
			return t.out, nil
		}
	}
}

// tracker follows a record.
type tracker struct {
	flight *Flight
	out    *FlightResult
	*replay
	end context.CancelFunc
	// pods and others are the objects as the scheduler was told of them last.
	pods   map[types.UID]*v1.Pod
	others map[objects.Ref]oracle.Object
	// chosen are the pods that a decision has put on a node, until a change says so too.
	chosen map[types.UID]bool
	// binding are the pods of decisions without an outcome: none of them waits.
	binding map[types.UID]bool
	// assumed are volumes and claims that count otherwise than as they were told of.
	assumed map[objects.Ref]oracle.Object
	// nominated are the nodes that decisions have nominated pods to, or "", until their status
	// says otherwise than it did.
	nominated map[types.UID]string
	// flights are the claims of devices in flight, by pod.
	flights map[types.UID][]*inFlight
}

// take takes in a record.
func (t *tracker) take(ctx context.Context, r *pb.Record) error {
	switch what := r.What.(type) {
	case *pb.Record_Begin:
		return t.begin(ctx)
	case *pb.Record_Change:
		t.out.Changes++
		if err := t.change(what.Change); err != nil {
			return fmt.Errorf("change of %s: %w", record.RefOf(what.Change), err)
		}
	case *pb.Record_Decision:
		if err := t.decision(ctx, what.Decision); err != nil {
			return fmt.Errorf("decision %d: %w", what.Decision.GetDecision().GetSeq(), err)
		}
	case *pb.Record_Bound:
		if err := t.bound(what.Bound); err != nil {
			return fmt.Errorf("decision %d is bound: %w", what.Bound.GetSeq(), err)
		}
	case *pb.Record_TakenBack:
		t.out.TakenBack++
		if err := t.takenBack(what.TakenBack); err != nil {
			return fmt.Errorf("decision %d taken back: %w", what.TakenBack.GetSeq(), err)
		}
	case *pb.Record_Released:
		return t.release(types.UID(what.Released.GetUid()))
	case *pb.Record_Nominated:
		uid, node := types.UID(what.Nominated.GetUid()), what.Nominated.GetNode()
		t.upstream.Nominate(uid, node)
		t.nominated[uid] = node
	case *pb.Record_Judgement:
		if err := t.judgement(ctx, what.Judgement); err != nil {
			return fmt.Errorf("judgement %d: %w", what.Judgement.GetDecision().GetSeq(), err)
		}
	case *pb.Record_End:
		t.out.Ended = what.End.GetReason()
	}
	return nil
}

// begin starts with an empty cluster.
func (t *tracker) begin(ctx context.Context) error {
	if err := t.land(); err != nil {
		return err
	}
	t.out.Terms++
	t.out.Ended = ""
	t.pods, t.others = map[types.UID]*v1.Pod{}, map[objects.Ref]oracle.Object{}
	t.chosen, t.binding, t.assumed = map[types.UID]bool{}, map[types.UID]bool{}, map[objects.Ref]oracle.Object{}
	t.nominated, t.flights = map[types.UID]string{}, map[types.UID][]*inFlight{}
	ctx, t.end = context.WithCancel(ctx)
	var err error
	if t.replay, err = newReplay(ctx, t.flight.Config, nil); err == nil {
		t.replay.every = max(t.flight.Every, 1)
	}
	return err
}

// land ends a term.
func (t *tracker) land() error {
	if t.replay == nil {
		return nil
	}
	defer t.end()
	r := t.replay
	t.replay = nil
	t.out.count(&r.result)
	return r.own.end()
}

// change takes in a change of an object.
func (t *tracker) change(c *pb.RecordChange) error {
	obj, err := record.Object(c)
	if err != nil {
		return err
	}
	ref := record.RefOf(c)
	if ref.Kind == objects.KindPod {
		pod, _ := obj.(*v1.Pod)
		return t.pod(types.UID(c.GetUid()), pod)
	}
	old := t.others[ref]
	if obj == nil {
		if old == nil {
			return nil
		}
		delete(t.others, ref)
		delete(t.assumed, ref)
		err := t.apply(Event{Type: Removed, Object: old})
		if claim, ok := old.(*resourcev1.ResourceClaim); ok {
			err = errors.Join(err, t.arrive(claim, true))
		}
		return err
	}
	if claim, ok := obj.(*resourcev1.ResourceClaim); ok {
		if old, _ := old.(*resourcev1.ResourceClaim); old != nil && old.UID == claim.UID && !c.GetOwn() && !newer(claim, old) {
			return nil // it counts as it was written
		}
		return t.claim(claim)
	}
	now := obj.(oracle.Object)
	t.others[ref] = now
	if x := t.assumed[ref]; x != nil && !c.GetOwn() && now.GetResourceVersion() != "" &&
		now.GetResourceVersion() == x.GetResourceVersion() {
		return nil // nothing new
	}
	delete(t.assumed, ref)
	return t.apply(set(now))
}

// pod takes in a change of a pod; nil: it is deleted. One that a decision has put on a node
// stays there.
func (t *tracker) pod(uid types.UID, now *v1.Pod) error {
	old := t.pods[uid]
	switch {
	case now == nil && old == nil:
		return nil
	case now == nil || objects.IsTerminal(now):
		delete(t.pods, uid)
		delete(t.chosen, uid)
		delete(t.nominated, uid)
		if old == nil {
			return nil
		}
		over := t.finish(uid, func(f *inFlight) bool { return f.made != "" })
		return errors.Join(t.apply(Event{Type: Removed, Object: old}), over)
	}
	t.pods[uid] = now
	if now.Spec.NodeName == "" && (t.chosen[uid] || t.binding[uid]) {
		return nil
	}
	delete(t.chosen, uid)
	if err := t.apply(set(now)); err != nil {
		return err
	}
	node, known := t.nominated[uid]
	if known && now.DeletionTimestamp == nil && old != nil && old.Status.NominatedNodeName == now.Status.NominatedNodeName {
		t.upstream.Nominate(uid, node) // the status that tells is still on its way
	} else {
		delete(t.nominated, uid)
	}
	return nil
}

// decision holds a decision, and follows it.
func (t *tracker) decision(ctx context.Context, r *pb.RecordDecision) error {
	d := decisionOf(r.GetDecision())
	assumed, err := record.Objects(r.GetAssumed())
	if err != nil {
		return err
	}
	claims, volumes := takeOut(assumed)
	d.inFlight = claims
	pod := t.upstream.Pending(types.UID(d.UID))
	if pod == nil {
		return fmt.Errorf("pod %s is not pending", d.Pod)
	}
	v, p, err := t.judge(ctx, t.out.Terms, pod, d)
	if err != nil {
		return err
	}
	t.out.Differences = append(t.out.Differences, t.result.Differences...)
	t.result.Differences = nil
	if strings.Contains(d.Message, "is in the process of being allocated") {
		t.out.InFlight++
	}
	switch {
	case d.Node == "" && r.GetFailed():
		t.upstream.Withdraw(pod.UID)
		return nil
	case d.Node == "" && (p.Clears || d.Nominated != ""):
		if slices.ContainsFunc(d.Victims, t.stays) {
			for _, lower := range t.upstream.ClearLower(pod.UID, d.Nominated) {
				t.nominated[lower.UID] = ""
			}
		}
		t.upstream.Nominate(pod.UID, d.Nominated)
		t.nominated[pod.UID] = d.Nominated
		return nil
	case d.Node == "" || v.Feasible[d.Node] == nil:
		return nil
	}
	t.chosen[pod.UID], t.binding[pod.UID] = true, true
	return errors.Join(t.assume(ctx, v, pod, d.Node, volumes), t.depart(pod.UID, claims))
}

// stays tells whether a pod, by namespace/name, is there and not being deleted.
func (t *tracker) stays(text string) bool {
	for _, pod := range t.pods {
		if name(pod) == text {
			return pod.DeletionTimestamp == nil
		}
	}
	return false
}

// assume puts a pod on its node, with the volumes that our scheduler has found. Of several that
// do upstream may have taken others.
func (t *tracker) assume(ctx context.Context, v *oracle.Verdict, pod *v1.Pod, node string, ours []objects.Object) error {
	theirs, err := t.upstream.PlaceWithoutDevices(ctx, v, node)
	if err != nil {
		return err
	}
	for _, obj := range theirs {
		if now := t.now(objects.RefOf(obj.(objects.Object))); now != nil {
			if err := t.apply(set(now)); err != nil {
				return err
			}
		}
	}
	if err := t.own.apply(set(t.upstream.Placed(pod.UID))); err != nil {
		return err
	}
	for _, obj := range ours {
		t.assumed[objects.RefOf(obj)] = obj.(oracle.Object)
		if err := t.apply(set(obj.(oracle.Object))); err != nil {
			return err
		}
	}
	return nil
}

// now is an object as it counts; nil: there is none.
func (t *tracker) now(ref objects.Ref) oracle.Object {
	if obj := t.assumed[ref]; obj != nil {
		return obj
	}
	return t.others[ref]
}

// bound takes in that a pod is bound.
func (t *tracker) bound(r *pb.RecordBound) error {
	uid := types.UID(r.GetUid())
	delete(t.binding, uid)
	latest, err := record.Objects(r.GetLatest())
	if err != nil {
		return err
	}
	claims, _ := takeOut(latest)
	return t.written(uid, claims)
}

// takenBack takes a pod off its node again.
func (t *tracker) takenBack(r *pb.RecordTakenBack) error {
	uid := types.UID(r.GetUid())
	t.out.ClaimsTakenBack += len(t.flights[uid])
	delete(t.binding, uid)
	if err := t.release(uid); err != nil {
		return err
	}
	if now := t.pods[uid]; now != nil && r.GetWaits() && now.Spec.NodeName == "" {
		if err := t.apply(set(now)); err != nil {
			return err
		}
		t.upstream.Withdraw(uid)
	}
	latest, err := record.Objects(r.GetLatest())
	if err != nil {
		return err
	}
	claims, volumes := takeOut(latest)
	if err := t.written(uid, claims); err != nil {
		return err
	}
	for _, obj := range volumes {
		ref, now := objects.RefOf(obj), obj.(oracle.Object)
		if t.assumed[ref] == nil {
			continue // replaced since
		}
		if t.assumed[ref] = now; equality.Semantic.DeepEqual(now, t.others[ref]) {
			delete(t.assumed, ref)
		}
		if err := t.apply(set(now)); err != nil {
			return err
		}
	}
	return nil
}

// release takes a pod off the node that a decision has put it on.
func (t *tracker) release(uid types.UID) error {
	if !t.chosen[uid] {
		return nil
	}
	delete(t.chosen, uid)
	return t.apply(Event{Type: Removed, Object: t.upstream.Placed(uid)})
}

// decisionOf is a decision as the decision log tells it.
func decisionOf(d *pb.Decision) Decision {
	out := Decision{
		Seq: d.GetSeq(), Pod: d.GetPod(), UID: d.GetUid(), Profile: d.GetProfile(), Node: d.GetNode(), Score: d.GetScore(),
		Feasible: int(d.GetFeasible()), Nodes: int(d.GetNodes()), Message: d.GetMessage(),
		Nominated: d.GetNominated(), Victims: d.GetVictims(),
	}
	for _, c := range d.GetClaims() {
		out.Claims = append(out.Claims, DecidedClaim{Claim: c.GetClaim(), Devices: c.GetDevices()})
	}
	return out
}
