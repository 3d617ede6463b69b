package bind

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/rules"
)

// Outcomes gathers what becomes of jobs until the loop takes it in. The zero value is empty.
type Outcomes struct {
	mu   sync.Mutex
	jobs []Job
	errs []error
}

// Add notes an outcome; it tells whether it is the first since Take.
func (o *Outcomes) Add(job Job, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.jobs, o.errs = append(o.jobs, job), append(o.errs, err)
	return len(o.jobs) == 1
}

// Take takes them.
func (o *Outcomes) Take() ([]Job, []error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	jobs, errs := o.jobs, o.errs
	o.jobs, o.errs = nil, nil
	return jobs, errs
}

// Told is what users are told of a bind that failed, worded as upstream's framework does
// where the API server has refused it.
func Told(err error) string {
	if refusal := (*Error)(nil); errors.As(err, &refusal) {
		return refusal.Error()
	}
	var refused interface{ Told() string }
	if errors.As(err, &refused) {
		return fmt.Sprintf("running Bind plugin %q: %s", rules.DefaultBinder, refused.Told())
	}
	return err.Error()
}

// failureLogEvery is how often the log tells that binds fail. What refuses one refuses many: a
// permission that is missing, a policy, a quota.
const failureLogEvery = 10 * time.Second

// FailureLog tells the log that pods are tried again because they could not be bound.
type FailureLog struct {
	told  time.Time
	since int // failures that no line has told of
}

// Note tells of a failure, or counts it for the next line.
func (b *FailureLog) Note(logger klog.Logger, job *Job, err error, now time.Time) {
	b.since++
	if !b.told.IsZero() && now.Sub(b.told) < failureLogEvery {
		return
	}
	logger.Error(err, "Pod is not bound, and tried again", "pod", klog.KObj(job.Binding.Pod), "node", job.Binding.Node, "failures", b.since)
	b.told, b.since = now, 0
}
