package intake

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/scorer/scan"
)

// WhileTakingIn is where a bug was met while a change was taken in, for the metric.
const WhileTakingIn = "take_in"

// QuarantineOnPanic quarantines an object if a panic comes up while its change is taken in, or while plugins are told of it. It is
// deferred.
func (t *Intake) QuarantineOnPanic(obj objects.Object, gone bool) {
	if v := recover(); v != nil {
		t.Meters.Panicked(WhileTakingIn)
		t.Quarantine(obj, scan.Recovered(v))
		if gone { // no further change comes to end the quarantine
			t.EndQuarantine(obj)
		}
	}
}

// Quarantine puts an object into quarantine. The log tells of it once.
func (t *Intake) Quarantine(obj objects.Object, why error) {
	if !t.outside.Add(obj, why) {
		return
	}
	ref := objects.RefOf(obj)
	t.Meters.Quarantined(ref.Kind, 1)
	var stack []byte
	if p := (*scan.Panic)(nil); errors.As(why, &p) {
		stack = p.Stack
	}
	klog.FromContext(t.Life).Error(why, "An object is in quarantine: it could not be taken in as a whole",
		"kind", ref.Kind, "object", klog.KRef(ref.Namespace, ref.Name), "stack", string(stack))
}

// partLeftOut is called by the cache with the part of a pod that it had to leave out.
func (t *Intake) partLeftOut(p *v1.Pod, what string, why error) {
	if errors.As(why, new(*scan.Panic)) {
		t.Meters.Panicked(WhileTakingIn)
	}
	t.Quarantine(p, fmt.Errorf("%s can not be told: %w", what, why))
}

// EndQuarantine ends the quarantine of an object that was taken in as a whole, or is gone. If a node was left out because of
// the object, it is tried again.
func (t *Intake) EndQuarantine(obj objects.Object) {
	ended, on := t.outside.End(obj)
	if !ended {
		return
	}
	t.Meters.Quarantined(objects.KindOf(obj), -1)
	if on != "" {
		t.letIn(on)
	}
}

// letIn tries again to take in a node that is left out.
func (t *Intake) letIn(name string) {
	if n := t.outside.LeftOut(name); n != nil {
		t.SetNode(n)
	}
}

// staysOut keeps a node out because of its CSINode or one of its pods; false: the node may be taken in.
func (t *Intake) staysOut(n *v1.Node) bool {
	if !t.outside.KeepsOut(n) {
		return false
	}
	t.Quarantine(n, errors.New("what is on it is in quarantine"))
	t.outside.LeaveOut(n)
	return true
}

// leaveOut leaves a node out.
func (t *Intake) leaveOut(n *v1.Node, why error) {
	t.Quarantine(n, why)
	t.outside.LeaveOut(n)
	_, err := t.State.RemoveNode(n)
	if err != nil {
		t.Loop.Fail(err) // pods might be placed there
		return
	}
	t.rowsMade()
	t.Loop.Move(queue.NodeDeleted(n))
}

func (t *Intake) rowsMade() {
	t.rows++
	t.Loop.RowsMade()
}

// Mend makes a node's row anew, after the row has refused a change and no longer agrees with its pods.
func (t *Intake) Mend(name string, why error) {
	n := t.State.Node(name)
	if n == nil {
		return
	}
	klog.FromContext(t.Life).Error(why, "The tables refuse a change, the node's row is made anew", "node", name)
	t.rowsMade()
	if err := t.State.Redo(name); err != nil {
		t.leaveOut(n, errors.Join(why, err))
	}
}

// KeepRoom keeps other pods off the room of a bound pod that could not be taken in. was is the node that it was on.
func (t *Intake) KeepRoom(p *v1.Pod, was string, why error) {
	t.Quarantine(p, why)
	name := p.Spec.NodeName
	if now, _, _ := t.State.Pod(p.UID); now == p {
		t.Mend(name, why)
	} else if t.outside.Unknown(p); t.State.Node(name) != nil {
		t.leaveOut(t.State.Node(name), fmt.Errorf("what pod %s/%s takes is not known: %w", p.Namespace, p.Name, why))
	}
	if was != name {
		t.Mend(was, why)
	}
}

// ignore makes the state ignore an object that is neither node nor pod.
func (t *Intake) ignore(obj objects.Object, why error) {
	t.Quarantine(obj, why)
	t.State.Drop(obj)
	if err := t.change(obj, nil); err != nil {
		klog.FromContext(t.Life).Error(err, "An object in quarantine is not left out as a whole",
			"kind", objects.KindOf(obj), "object", klog.KObj(obj))
	}
	if _, ok := obj.(*storagev1.CSINode); !ok {
		return
	}
	if n := t.State.Node(obj.GetName()); n != nil {
		t.leaveOut(n, why)
	}
}
