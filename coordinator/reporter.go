package coordinator

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// ReasonSchedulerError is the reason of an attempt that ended in an error, and not for want
// of a node that fits; that is v1.PodReasonUnschedulable.
const ReasonSchedulerError = v1.PodReasonSchedulerError

// Reporter tells the world what the loop decides. It is called on the loop's goroutine and
// must not block: what it writes it writes behind the loop, and the last report of a pod
// wins. Every pod is passed as the loop knows it; it is not to be changed.
type Reporter interface {
	// Unscheduled says that an attempt ended without a node: v1.PodReasonUnschedulable
	// where none fits, ReasonSchedulerError where something failed, be it the bind: that also
	// ends what Expected said. message is the FitError or the error. It is not called for a pod
	// that is known to be gone, or on a node. nominating is what becomes of its
	// status.nominatedNodeName; nil: nothing, but for an error, which clears it.
	Unscheduled(pod *v1.Pod, reason, message string, nominating *objects.Nominating)
	// Unnominated says that no room is held any more for a pod that waits: its status.nominatedNodeName ends.
	Unnominated(pod *v1.Pod)
	// Preempted says that a pod that was only assumed on a node has lost it to another pod: there
	// is nothing to be deleted, and it is tried again.
	Preempted(victim *v1.Pod, e *objects.Eviction)
	// Skipped says that a pod was not tried, for it is being deleted.
	Skipped(pod *v1.Pod)
	// Abandoned says that a pod was waiting on Permit and is gone; message is the FitError.
	Abandoned(pod *v1.Pod, message string)
	// Expected says that a node is chosen whose PreBind has work, which may take long.
	Expected(pod *v1.Pod, node string)
	// AwaitsDevices says that a pod goes to a node once its devices are ready there.
	AwaitsDevices(pod *v1.Pod, node string)
	// Scheduled says that a pod is bound.
	Scheduled(pod *v1.Pod, node string)
}

// GroupReporter is implemented by a Reporter that tells of pod groups, too.
type GroupReporter interface {
	// GroupCondition says what became of a pod group: the condition PodGroupScheduled of its PodGroup. One that is true stays so.
	GroupCondition(group *v1alpha2.PodGroup, status metav1.ConditionStatus, reason, message string)
	// GroupEvent says what is worth an event of a PodGroup. scheduler is the name of its members'; kind is v1.EventTypeNormal or
	// v1.EventTypeWarning.
	GroupEvent(group *v1alpha2.PodGroup, scheduler, kind, reason, note string)
}

// Silent reports nowhere. Reporters of a few things embed it.
type Silent struct{}

func (Silent) Unscheduled(*v1.Pod, string, string, *objects.Nominating) {}
func (Silent) Unnominated(*v1.Pod)                                      {}
func (Silent) Preempted(*v1.Pod, *objects.Eviction)                     {}
func (Silent) Skipped(*v1.Pod)                                          {}
func (Silent) Abandoned(*v1.Pod, string)                                {}
func (Silent) Expected(*v1.Pod, string)                                 {}
func (Silent) AwaitsDevices(*v1.Pod, string)                            {}
func (Silent) Scheduled(*v1.Pod, string)                                {}
