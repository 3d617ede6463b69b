package whatif

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/workload"
)

// job makes the pods that a Job, or one Job of a new CronJob, runs at once. They run for ever: none ends, so none comes after it. Those
// that it loses count as failed (k8s.io/kubernetes/pkg/controller/job): too many of them, and the Job has failed.
type job struct {
	key     Key
	owner   Key // of the pods: the Job
	object  runtime.Object
	stamped int
	lostNow int    // pods, those left out that its podFailurePolicy ignores
	failed  string // why it has failed; empty: it has not
}

func (c *Cluster) newJob(obj runtime.Object) *job {
	j := &job{key: keyOf(obj), object: obj}
	j.owner = j.key
	if cron, ok := obj.(*batchv1.CronJob); ok {
		// Its Jobs in the input run by themselves.
		for _, p := range workload.New(nil, nil).Expand(cron).Pods {
			j.owner = Key{"Job", p.Namespace, p.OwnerReferences[0].Name}
			c.tops[j.owner] = j.key
			break
		}
	}
	c.workloads[j.key] = j
	return j
}

// spec is the Job's, and how many of its pods had failed before.
func (j *job) spec() (s *batchv1.JobSpec, before int) {
	switch obj := j.object.(type) {
	case *batchv1.Job:
		return &obj.Spec, int(obj.Status.Failed)
	case *batchv1.CronJob:
		return &obj.Spec.JobTemplate.Spec, 0
	}
	return &batchv1.JobSpec{}, 0
}

func (j *job) lost(*Cluster, *pod) {
	spec, before := j.spec()
	switch onDisruption(spec.PodFailurePolicy) {
	case batchv1.PodFailurePolicyActionIgnore:
		return
	case batchv1.PodFailurePolicyActionFailJob:
		j.failed = "the Job has failed: its podFailurePolicy says so of a pod that is disrupted"
		return
	}
	j.lostNow++
	// Where each index has a limit of its own, there is none of all.
	if limit := int(or(spec.BackoffLimit, 6)); spec.BackoffLimitPerIndex == nil && before+j.lostNow > limit {
		j.failed = fmt.Sprintf("the Job has failed: pods that it loses count as failed, which makes %d, and its backoffLimit is %d",
			before+j.lostNow, limit)
	}
}

// onDisruption is what a Job does of a pod that is evicted, preempted, or gone with its node.
func onDisruption(p *batchv1.PodFailurePolicy) batchv1.PodFailurePolicyAction {
	if p != nil {
		for _, rule := range p.Rules {
			for _, c := range rule.OnPodConditions {
				if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue {
					return rule.Action
				}
			}
		}
	}
	return batchv1.PodFailurePolicyActionCount
}

func (j *job) rollout(*Cluster) *Rollout { return nil }

// missing are the pods that the controller would make now.
func (j *job) missing(c *Cluster) []*v1.Pod {
	var there []runtime.Object
	for _, p := range c.of(j.owner) {
		there = append(there, p.obj)
	}
	return workload.New(nil, there).Expand(j.object).Pods
}

func (j *job) wants(c *Cluster) int { return len(c.of(j.owner)) + len(j.missing(c)) }

func (j *job) sync(c *Cluster) bool {
	if j.failed != "" {
		return c.removeAll(j.owner)
	}
	missing := j.missing(c)
	for _, p := range missing {
		for c.taken(p.Namespace)(p.Name) {
			p.Name = workload.Generated(p.Namespace, "Job", p.Name, j.stamped)
			j.stamped++
		}
		c.create(p)
	}
	return len(missing) > 0
}

// cron is a CronJob of the cluster. Its Jobs play by themselves, and it starts no other.
type cron struct{}

func (cron) sync(*Cluster) bool        { return false }
func (cron) wants(*Cluster) int        { return 0 }
func (cron) lost(*Cluster, *pod)       {}
func (cron) rollout(*Cluster) *Rollout { return nil }
