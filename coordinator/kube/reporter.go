package kube

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/coordinator/objects"
)

const (
	// statusWorkers is how many status patches are under way at once, unless said otherwise.
	statusWorkers = 16
	// eventWorkers is how many events are, unless said otherwise.
	eventWorkers = 8
)

// ReporterConfig is what a Reporter is made of.
type ReporterConfig struct {
	Clients *Clients
	// Pod is the newest version of a pod that the informers know, no older than the one that
	// is reported; nil: it is gone. It is called on any goroutine.
	Pod func(*v1.Pod) *v1.Pod
	// IsLarge tells of pods that are larger where they are stored than Pod has them; nil: there are none. It is called on any
	// goroutine.
	IsLarge func(*v1.Pod) bool
	// Hostname stands in the events' reportingInstance, behind the profile's name.
	Hostname string
	// Busy tells whether binds are under way, which go first; nil: never.
	Busy func() bool
	// Clock; nil: the real one.
	Clock clock.WithTicker
	// StatusWorkers and EventWorkers bound the requests under way; 0: 16 and 8.
	StatusWorkers, EventWorkers int
}

// Reporter tells the API server what became of pods: their PodScheduled condition,
// status.nominatedNodeName, and events. It is a coordinator.Reporter. Its methods note what
// is to be written and return; Run writes it, and what is not written when that ends is
// dropped: the next leader reports anew.
//
// Differs from upstream: it patches in the scheduling loop.
type Reporter struct {
	cfg    ReporterConfig
	status *statusWriter
	events *eventWriter
	groups *groupWriter
}

// NewReporter makes one.
func NewReporter(cfg ReporterConfig) *Reporter {
	if cfg.Busy == nil {
		cfg.Busy = func() bool { return false }
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.IsLarge == nil {
		cfg.IsLarge = func(*v1.Pod) bool { return false }
	}
	if cfg.StatusWorkers <= 0 {
		cfg.StatusWorkers = statusWorkers
	}
	if cfg.EventWorkers <= 0 {
		cfg.EventWorkers = eventWorkers
	}
	return &Reporter{cfg: cfg, status: newStatusWriter(&cfg), events: newEventWriter(&cfg), groups: newGroupWriter(&cfg)}
}

// Run writes until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { r.status.run(ctx, r.cfg.StatusWorkers); return nil })
	g.Go(func() error { r.groups.run(ctx); return nil })
	g.Go(func() error { r.events.run(ctx, r.cfg.EventWorkers); return nil })
	return g.Wait()
}

// Unscheduled notes that a pod found no node, or that its placement was taken back: the
// condition with reason (v1.PodReasonUnschedulable or v1.PodReasonSchedulerError) and
// message, and the event FailedScheduling. nominating says what becomes of the nominated node;
// where it is nil, that is cleared after an error, and where Expected named it.
func (r *Reporter) Unscheduled(pod *v1.Pod, reason, message string, nominating *objects.Nominating) {
	r.events.failed(pod, message)
	r.status.unscheduled(pod, reason, message, nominating)
}

// Unnominated notes that no room is held any more for a pod that waits.
func (r *Reporter) Unnominated(pod *v1.Pod) { r.status.unnominated(pod) }

// Preempted notes that a pod has lost the node that it was promised: the event Preempted.
func (r *Reporter) Preempted(victim *v1.Pod, e *objects.Eviction) {
	r.events.preempted(victim, e, true)
}

// Skipped notes that a pod is not tried, for it is being deleted: the event FailedScheduling.
func (r *Reporter) Skipped(pod *v1.Pod) {
	r.events.failed(pod, fmt.Sprintf("skip schedule deleting pod: %s/%s", pod.Namespace, pod.Name))
}

// Abandoned notes that a pod which is gone has waited on Permit in vain: the event FailedScheduling.
func (r *Reporter) Abandoned(pod *v1.Pod, message string) { r.events.failed(pod, message) }

// Expected notes that a pod goes to a node once its volumes are there.
func (r *Reporter) Expected(pod *v1.Pod, node string) { r.status.expected(pod, node) }

// AwaitsDevices notes that a pod goes to a node once its devices are ready: the event BindingConditionsPending.
func (r *Reporter) AwaitsDevices(pod *v1.Pod, node string) { r.events.awaitsDevices(pod, node) }

// Scheduled notes that a pod is bound: the event Scheduled. What was noted about its status
// before is not written any more.
func (r *Reporter) Scheduled(pod *v1.Pod, node string) {
	r.status.forget(pod.UID)
	r.events.scheduled(pod, node)
}

// GroupCondition notes what became of a pod group: its condition PodGroupScheduled.
func (r *Reporter) GroupCondition(group *v1alpha2.PodGroup, status metav1.ConditionStatus, reason, message string) {
	r.groups.put(group, status, reason, message)
}

// GroupEvent notes an event of a PodGroup.
func (r *Reporter) GroupEvent(group *v1alpha2.PodGroup, scheduler, kind, reason, note string) {
	r.events.ofPodGroup(group, scheduler, kind, reason, note)
}

// pause waits, and reports false when ctx ended meanwhile.
func pause(ctx context.Context, c clock.Clock, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.After(d):
		return true
	}
}
