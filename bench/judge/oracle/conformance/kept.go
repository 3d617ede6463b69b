package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/record"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// keeper keeps the claims of devices as our scheduler has them where it has nowhere to write them, and which pods it has evicted: its
// flight recorder tells.
type keeper struct {
	writer *record.Writer
	pipe   *io.PipeReader
	in     *record.Reader
	marks  int
	// claims are those that decisions have given devices, by the claim's UID.
	claims map[types.UID]*resourcev1.ResourceClaim
	// special are those among them for extended resources, by the pod's UID.
	special map[types.UID]*resourcev1.ResourceClaim
}

// newKeeper is one for a scenario; nil where the scenario has neither devices nor pod groups that preempt as a whole.
func newKeeper(ctx context.Context, s *Scenario) *keeper {
	if !s.hasDevices() && (s.PodGroups == nil || !s.PodGroups.Preemption) {
		return nil
	}
	in, out := io.Pipe()
	k := &keeper{
		writer: record.NewWriter(out, record.Config{}), pipe: in, in: record.NewReader(in),
		claims: map[types.UID]*resourcev1.ResourceClaim{}, special: map[types.UID]*resourcev1.ResourceClaim{},
	}
	k.writer.Begin("conformance", 1, &objects.Snapshot{})
	go k.writer.Run(ctx)
	return k
}

func (s *Scenario) hasDevices() bool {
	for _, r := range s.Rounds {
		if slices.ContainsFunc(r, func(e Event) bool { _, ok := e.Object.(*resourcev1.DeviceClass); return ok }) {
			return true
		}
	}
	return false
}

// end stops the recorder, whatever it still has to tell.
func (k *keeper) end() error {
	if k == nil {
		return nil
	}
	k.pipe.Close()
	_ = k.writer.Close() // nobody reads any more
	return nil
}

// recorder is what our scheduler is given.
func (k *keeper) recorder() *record.Writer {
	if k == nil {
		return nil
	}
	return k.writer
}

// take adds to decisions the claims that were written with them, and the pods that were evicted after them.
func (k *keeper) take(decisions []Decision) error {
	if k == nil {
		return nil
	}
	after, err := k.read()
	for i := range decisions {
		decisions[i].aftermath = after[decisions[i].Seq]
	}
	return err
}

// aftermath is what came of a decision, and of no later one: claims as they are written for it, and pods that it evicts.
type aftermath struct {
	written []*resourcev1.ResourceClaim
	evicted []string
}

// read reads the record as far as it goes: what came of decisions, by number.
func (k *keeper) read() (map[uint64]aftermath, error) {
	k.marks++
	mark := "mark-" + strconv.Itoa(k.marks)
	k.writer.Change(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: mark}}, false, true)
	out, seq := map[uint64]aftermath{}, uint64(0)
	for {
		r, err := k.in.Next()
		if err != nil {
			return nil, fmt.Errorf("record of our scheduler: %w", err)
		}
		switch what := r.What.(type) {
		case *pb.Record_Decision:
			seq = what.Decision.GetDecision().GetSeq()
		case *pb.Record_Change:
			if what.Change.GetRef().GetName() == mark {
				return out, nil
			}
			claim, err := allocatedIn(what.Change)
			if err != nil {
				return nil, err
			}
			x := out[seq]
			if claim != nil {
				x.written = append(x.written, claim)
				k.note(claim)
			}
			if ref := what.Change.GetRef(); len(what.Change.GetRaw()) == 0 && ref.GetKind() == string(objects.KindPod) {
				x.evicted = append(x.evicted, ref.GetNamespace()+"/"+ref.GetName())
			}
			out[seq] = x
		}
	}
}

// allocatedIn is the claim with devices that a change of the loop's own is about; nil: it is about something else.
func allocatedIn(c *pb.RecordChange) (*resourcev1.ResourceClaim, error) {
	if !c.GetOwn() || c.GetRef().GetKind() != string(objects.KindOf(&resourcev1.ResourceClaim{})) {
		return nil, nil
	}
	obj, err := record.Object(c)
	claim, _ := obj.(*resourcev1.ResourceClaim)
	if err != nil || claim == nil || claim.Status.Allocation == nil {
		return nil, err
	}
	return claim, nil
}

func (k *keeper) note(claim *resourcev1.ResourceClaim) {
	if owner := metav1.GetControllerOf(claim); owner != nil && isSpecial(claim) {
		k.special[owner.UID] = claim
		return
	}
	k.claims[claim.UID] = claim
}

// isSpecial tells whether a claim is a pod's for extended resources.
func isSpecial(claim *resourcev1.ResourceClaim) bool {
	return claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true"
}

// told is an event as our scheduler is to hear of it: of a claim that it has allocated, with its ids of shares, and if
// it has made the claim, with its name.
func (k *keeper) told(e Event) Event {
	claim, ok := e.Object.(*resourcev1.ResourceClaim)
	if k == nil || !ok {
		return e
	}
	ours := k.claims[claim.UID]
	if owner := metav1.GetControllerOf(claim); isSpecial(claim) && owner != nil {
		ours = k.special[owner.UID]
	}
	if ours == nil {
		return e
	}
	claim = claim.DeepCopy()
	claim.Name, claim.UID = ours.Name, ours.UID
	if a := claim.Status.Allocation; a != nil && len(a.Devices.Results) == len(ours.Status.Allocation.Devices.Results) {
		for i := range a.Devices.Results {
			a.Devices.Results[i].ShareID = ours.Status.Allocation.Devices.Results[i].ShareID
		}
	}
	e.Object = claim
	return e
}

// written compares the claims that a decision has given devices to, or reserved for its pod, with what upstream writes.
func (c *comparison) written(theirs []*resourcev1.ResourceClaim) {
	got, want := map[string]string{}, map[string]string{}
	for _, claim := range c.decision.written {
		got[nameOfClaim(claim)] = contentOf(claim)
	}
	for _, claim := range theirs {
		want[nameOfClaim(claim)] = contentOf(claim)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		differs(c, c.decision.Node, "claim as it is written", name+" "+got[name], name+" "+want[name])
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == "" {
			differs(c, c.decision.Node, "claim as it is written", name+" "+got[name], name+" ")
		}
	}
}

func nameOfClaim(claim *resourcev1.ResourceClaim) string {
	if isSpecial(claim) {
		return ""
	}
	return claim.Namespace + "/" + claim.Name
}

// contentOf spells what a scheduler writes of a claim, but for the time and ids of shares.
func contentOf(claim *resourcev1.ResourceClaim) string {
	claim = claim.DeepCopy()
	claim.TypeMeta = metav1.TypeMeta{}
	claim.Status.Allocation.AllocationTimestamp = nil
	for i := range claim.Status.Allocation.Devices.Results {
		if r := &claim.Status.Allocation.Devices.Results[i]; r.ShareID != nil {
			*r.ShareID = "share"
		}
	}
	meta := metav1.ObjectMeta{
		Finalizers: claim.Finalizers, OwnerReferences: claim.OwnerReferences, Annotations: claim.Annotations,
		GenerateName: claim.GenerateName,
	}
	claim.ObjectMeta = meta
	text, err := json.Marshal(claim)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
