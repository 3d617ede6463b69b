package whatif

import (
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/workload"
)

// job makes the pods that a Job, or one Job of a CronJob, runs at once. They run for ever: none ends, so none comes after it.
type job struct {
	key     Key
	owner   Key // of the pods: the Job
	object  runtime.Object
	stamped int
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

func (j *job) lost(*Cluster, *pod) {}

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
