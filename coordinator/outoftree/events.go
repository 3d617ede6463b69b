package outoftree

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// events gathers what the out-of-tree plugins of all profiles wait for. A plugin's name stands for one
// plugin in the queue; what it registered in which profile is told apart when its hints are asked.
type events struct {
	ctx context.Context
	// registered are by plugin and profile.
	registered map[string]map[string][]fwk.ClusterEventWithHint
}

func newEvents(ctx context.Context) *events {
	return &events{ctx: ctx, registered: map[string]map[string][]fwk.ClusterEventWithHint{}}
}

// add takes in the out-of-tree plugins of a profile.
func (w *events) add(p *Profile) error {
	for _, e := range p.Events() {
		list, err := e.EventsToRegister(w.ctx)
		if err != nil {
			return fmt.Errorf("profile %q: events of plugin %q: %w", p.Name(), e.Name(), err)
		}
		w.of(e.Name())[p.Name()] = withTaints(list)
	}
	return nil
}

func (w *events) of(plugin string) map[string][]fwk.ClusterEventWithHint {
	if w.registered[plugin] == nil {
		w.registered[plugin] = map[string][]fwk.ClusterEventWithHint{}
	}
	return w.registered[plugin]
}

// withTaints adds changes of taints where new nodes are waited for and these are not.
func withTaints(list []fwk.ClusterEventWithHint) []fwk.ClusterEventWithHint {
	var added, tainted bool
	for _, e := range list {
		if e.Event.Resource == fwk.Node {
			added = added || e.Event.ActionType&fwk.Add != 0
			tainted = tainted || e.Event.ActionType&fwk.UpdateNodeTaint != 0
		}
	}
	if added && !tainted {
		taint := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}
		list = append(slices.Clone(list), fwk.ClusterEventWithHint{Event: taint})
	}
	return list
}

// plugins are what the queue is told, and the resources that nobody else watches.
func (w *events) plugins() (list []queue.Plugin, others []string) {
	unknown := sets.New[string]()
	for _, name := range slices.Sorted(maps.Keys(w.registered)) {
		profiles := w.registered[name]
		p := queue.Plugin{Name: name, AsksEach: true}
		for _, at := range resources() {
			actions := queue.Action(0)
			for _, events := range profiles {
				for i := range events {
					actions |= actionsOf(&events[i].Event, at)
				}
			}
			if actions != 0 {
				p.Events = append(p.Events, queue.Registration{Resource: at.resource, Actions: actions, Helps: w.hint(profiles)})
			}
		}
		for _, events := range profiles {
			for i := range events {
				if r := events[i].Event.Resource; r != fwk.WildCard && !known(r) {
					unknown.Insert(string(r))
				}
			}
		}
		list = append(list, p)
	}
	return list, sets.List(unknown)
}

// hint asks a plugin's hints of a pod's profile, until one says that an event helps.
func (w *events) hint(profiles map[string][]fwk.ClusterEventWithHint) func(*queue.Pod, *queue.Event) bool {
	log := klog.FromContext(w.ctx)
	return func(p *queue.Pod, e *queue.Event) bool {
		incoming := clusterEvent(e)
		for _, r := range profiles[p.Obj.Spec.SchedulerName] {
			if !matches(&r.Event, &incoming) {
				continue
			}
			if r.QueueingHintFn == nil {
				return true
			}
			old, now := e.Objects()
			hint, err := r.QueueingHintFn(log, p.Obj, old, now)
			if err != nil {
				log.Error(err, "QueueingHintFn returns error", "event", e.String(), "pod", klog.KObj(p.Obj))
				return true
			}
			if hint == fwk.Queue {
				return true
			}
		}
		return false
	}
}

// resource is a resource by its name here and by upstream's.
type resource struct {
	resource queue.Resource
	name     fwk.EventResource
}

// resources are those that events are about.
func resources() []resource {
	return []resource{
		{queue.Node, fwk.Node}, {queue.AssignedPod, fwk.Pod}, {queue.PendingPod, fwk.Pod},
		{queue.PersistentVolumeClaim, fwk.PersistentVolumeClaim}, {queue.PersistentVolume, fwk.PersistentVolume},
		{queue.StorageClass, fwk.StorageClass}, {queue.CSINode, fwk.CSINode}, {queue.CSIDriver, fwk.CSIDriver},
		{queue.CSIStorageCapacity, fwk.CSIStorageCapacity}, {queue.VolumeAttachment, fwk.VolumeAttachment},
		{queue.OtherResource, ""},
	}
}

// known tells whether the loop itself knows a resource.
func known(r fwk.EventResource) bool {
	return slices.ContainsFunc(resources(), func(g resource) bool { return g.name == r })
}

// actionsOf are the actions of a registration that concern a resource.
func actionsOf(r *fwk.ClusterEvent, at resource) queue.Action {
	if r.Resource != fwk.WildCard && r.Resource != at.name && (at.name != "" || known(r.Resource)) {
		return 0
	}
	var out queue.Action
	for _, a := range actions() {
		if matches(&fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: r.ActionType}, &fwk.ClusterEvent{ActionType: a.theirs}) {
			out |= a.ours
		}
	}
	return out
}

// action is an action by its name here and by upstream's.
type action struct {
	ours   queue.Action
	theirs fwk.ActionType
}

// actions are the actions that events carry.
func actions() []action {
	return []action{
		{queue.Add, fwk.Add}, {queue.Delete, fwk.Delete},
		{queue.UpdateNodeAllocatable, fwk.UpdateNodeAllocatable}, {queue.UpdateNodeLabel, fwk.UpdateNodeLabel},
		{queue.UpdateNodeTaint, fwk.UpdateNodeTaint}, {queue.UpdateNodeCondition, fwk.UpdateNodeCondition},
		{queue.UpdateNodeAnnotation, fwk.UpdateNodeAnnotation}, {queue.UpdateNodeDeclaredFeature, fwk.UpdateNodeDeclaredFeature},
		{queue.UpdatePodLabel, fwk.UpdatePodLabel}, {queue.UpdatePodScaleDown, fwk.UpdatePodScaleDown},
		{queue.UpdatePodSchedulingGatesEliminated, fwk.UpdatePodSchedulingGatesEliminated},
		{queue.UpdatePodToleration, fwk.UpdatePodToleration},
		{queue.UpdatePodGeneratedResourceClaim, fwk.UpdatePodGeneratedResourceClaim},
		{queue.Update, fwk.Update},
	}
}

// clusterEvent is an event in upstream's words.
func clusterEvent(e *queue.Event) fwk.ClusterEvent {
	out := fwk.ClusterEvent{Resource: fwk.EventResource(e.Kinded())}
	for _, r := range resources() {
		if r.resource == e.Resource() && r.name != "" {
			out.Resource = r.name
		}
	}
	for _, a := range actions() {
		if a.ours == e.Action() {
			out.ActionType = a.theirs
		}
	}
	return out
}

// matches tells whether an event is one of those registered: the same, or a more specific one. A
// change that is none of those with a name matches only who waits for all of them.
func matches(registered, e *fwk.ClusterEvent) bool {
	return (registered.Resource == fwk.WildCard || registered.Resource == e.Resource) &&
		registered.ActionType&e.ActionType != 0 && e.ActionType <= registered.ActionType
}

// lessOf orders the queue as an out-of-tree plugin does.
func lessOf(less fwk.LessFunc) func(a, b *queue.Pod) bool {
	return func(a, b *queue.Pod) bool { return less(queued(a), queued(b)) }
}

// queued shows a pod of the queue.
func queued(p *queue.Pod) *framework.QueuedPodInfo {
	v, _ := p.View.(*framework.QueuedPodInfo)
	if v == nil || v.PodInfo.GetPod() != p.Obj {
		v = &framework.QueuedPodInfo{}
		v.PodInfo, _ = framework.NewPodInfo(p.Obj) // terms that can not be read are left out
		p.View = v
	}
	v.Timestamp, v.Attempts, v.BackoffExpiration = p.Timestamp, p.Attempts, p.BackoffUntil
	v.UnschedulableCount, v.ConsecutiveErrorsCount, v.GatingPlugin = p.UnschedulableCount, p.ErrorCount, p.Gated
	v.InitialAttemptTimestamp = nil
	if !p.FirstAttempt.IsZero() {
		v.InitialAttemptTimestamp = &p.FirstAttempt
	}
	return v
}
