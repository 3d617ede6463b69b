package intake

import (
	"cmp"
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/nominees"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/quarantine"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/record"
	"github.com/shardsched/shardsched/coordinator/state"
)

// Loop is what a change has the loop do.
type Loop interface {
	// Move has the pods tried again that the event may help.
	Move(queue.Event)
	// ClaimGone says that the claim for a pod's extended resources is gone.
	ClaimGone(pod types.UID)
	// NodeAdded says that a node has come.
	NodeAdded()
	// PodGroupSet says that a PodGroup is new or has changed; old is nil where it is new.
	PodGroupSet(old, now *v1alpha2.PodGroup)
	// PodGroupGone says that a PodGroup is deleted.
	PodGroupGone(last *v1alpha2.PodGroup)
	// RowsMade says that a row was made, or made anew, or is gone, in a way that held answers may know nothing of.
	RowsMade()
	// Fail ends the term.
	Fail(error)
}

// Config is what an Intake is made of.
type Config struct {
	State    *state.State
	Nominees *nominees.Cache
	Loop     Loop
	Meters   *observe.Meters
	// Recorder is told of what is kept without a change that was delivered.
	Recorder *record.Writer
	// Life is for logging.
	Life context.Context
}

// Intake takes changes of objects in. Only the loop calls it.
type Intake struct {
	Config
	outside *quarantine.Objects // in quarantine
	rows    uint64
}

// New makes an Intake with no object in quarantine. It takes over the state's reports of what the tables refuse.
func New(cfg Config) *Intake {
	t := &Intake{Config: cfg, outside: quarantine.NewObjects()}
	cfg.State.OnUntold(t.partLeftOut)
	return t
}

// Outside are the objects in quarantine.
func (t *Intake) Outside() *quarantine.Objects { return t.outside }

// Rows counts how often a row came or went.
func (t *Intake) Rows() uint64 { return t.rows }

// SetNode takes in a new or changed node.
func (t *Intake) SetNode(n *v1.Node) {
	if t.staysOut(n) {
		return
	}
	old, err := t.State.SetNode(n)
	if err != nil {
		t.leaveOut(n, err)
		return
	}
	t.EndQuarantine(n)
	if old == nil {
		t.rows++
		t.Loop.NodeAdded()
		t.Loop.Move(queue.NodeAdded(n))
		return
	}
	t.moveAll(queue.NodeUpdated(old, n))
}

// RemoveNode takes in that a node is deleted.
func (t *Intake) RemoveNode(n *v1.Node) {
	t.EndQuarantine(n)
	old, err := t.State.RemoveNode(n)
	if err != nil {
		t.Loop.Fail(err)
		return
	}
	if old != nil {
		t.rows++
		t.Loop.Move(queue.NodeDeleted(old))
	}
}

// Set takes in a new or changed object that is neither node nor pod.
func (t *Intake) Set(now objects.Object) { t.object(t.State.Keep(now), now) }

// Remove takes in that such an object is deleted.
func (t *Intake) Remove(last objects.Object) {
	old := t.State.Drop(last)
	if old == nil {
		t.EndQuarantine(last)
		return
	}
	t.object(old, nil)
}

// object takes in one change of an object that is neither node nor pod. old is nil where the object is new, and now is nil
// where it is gone. Pods that wait may fit after the change.
func (t *Intake) object(old, now objects.Object) {
	if err := t.change(old, now); err != nil {
		t.ignore(cmp.Or(now, old), err)
		if now == nil {
			t.EndQuarantine(old)
		}
		return
	}
	t.EndQuarantine(cmp.Or(now, old))
	if x, ok := now.(*v1alpha2.PodGroup); ok {
		was, _ := old.(*v1alpha2.PodGroup)
		t.Loop.PodGroupSet(was, x)
	} else if x, ok := old.(*v1alpha2.PodGroup); ok {
		t.Loop.PodGroupGone(x)
	}
	t.moveAll(queue.Changes(old, now))
	t.MoveClaims()
}

// change brings an object into the state of the cluster as it is now.
func (t *Intake) change(old, now objects.Object) error {
	// A pod that is nominated to a node holds no devices there.
	switch kind := objects.KindOf(cmp.Or(now, old)); {
	case kind == objects.KindPodDisruptionBudget, kind == objects.KindPodGroup, kind.OfDevices():
	default:
		t.Nominees.Forget()
	}
	return t.State.Change(old, now)
}

// SetPod takes in a new or changed pod on a node, and returns what was known of it there; nil: nothing.
func (t *Intake) SetPod(p *v1.Pod) (old *v1.Pod) {
	_, was, _ := t.State.Pod(p.UID)
	met := t.outside.Met()
	old, err := t.State.SetPod(p)
	if err != nil {
		t.KeepRoom(p, was, err)
	} else if t.outside.Met() == met {
		t.EndQuarantine(p)
	}
	return old
}

// RemovePod takes in that a pod is deleted or has ended. It returns what was known of it on a node; nil: nothing.
func (t *Intake) RemovePod(p *v1.Pod) (old *v1.Pod, node string) {
	before, was, _ := t.State.Pod(p.UID)
	old, node, err := t.State.RemovePod(p)
	if err != nil {
		t.Quarantine(p, err)
		t.State.DropPod(p.UID)
		t.Mend(was, err)
		old, node = before, was
	}
	t.EndQuarantine(p)
	t.letIn(was)
	return old, node
}

// Forget gives the room of an assumed pod back.
func (t *Intake) Forget(p *v1.Pod, node string) {
	if _, err := t.State.Forget(p); err != nil {
		t.Quarantine(p, err)
		t.State.DropPod(p.UID)
		t.Mend(node, err)
	}
}

// Undo takes back that a pod was assumed, as if it never was; before is the number of the decision that had chosen the row last. It is
// false where the node's row was made anew.
func (t *Intake) Undo(p *v1.Pod, node string, before uint64) (ok bool) {
	_, err := t.State.Undo(p, before)
	if err != nil {
		t.Quarantine(p, err)
		t.State.DropPod(p.UID)
		t.Mend(node, err)
	}
	return err == nil
}

// KeepClaim keeps a claim of devices that the loop has changed, or deleted, where nobody else will tell of it.
func (t *Intake) KeepClaim(c *resourcev1.ResourceClaim, gone bool) {
	t.Recorder.Change(c, gone, true)
	if gone {
		t.State.Drop(c)
	} else {
		t.State.Keep(c)
	}
}

// MoveClaims has the pods tried again that the latest changes of claims of devices may help.
func (t *Intake) MoveClaims() {
	for _, x := range t.State.TakeClaimChanges() {
		switch {
		case x.Now == nil: // as upstream: that a claim is gone helps nobody else
			if pod := x.SpecialFor(); pod != "" {
				t.Loop.ClaimGone(pod)
			}
		case x.Old == nil:
			t.Loop.Move(queue.ResourceClaimAdded(x.Now))
		default:
			t.Loop.Move(queue.ResourceClaimUpdated(x.Old, x.Now))
		}
	}
}

func (t *Intake) moveAll(events []queue.Event) {
	for i := range events {
		t.Loop.Move(events[i])
	}
}
