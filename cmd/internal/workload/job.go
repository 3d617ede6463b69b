package workload

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// job makes the pods that a job runs at once: each of them runs for ever here,
// so those that would follow never come.
func (x *Expander) job(w *batchv1.Job) []*v1.Pod {
	self := owner{"Job", w.Namespace, w.Name}
	m := newJobMaker(w)
	if or(w.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion {
		return x.indexed(w, m, self)
	}
	first, count := x.missing(self, int32(AtOnce(w)))
	return m.generated(first, count)
}

func newJobMaker(w *batchv1.Job) *maker {
	m := newMaker(w, &w.Spec.Template, batchv1.SchemeGroupVersion.String(), "Job", w.Name)
	for _, prefix := range []string{"", "batch.kubernetes.io/"} {
		m.labels[prefix+"job-name"] = w.Name
		m.labels[prefix+"controller-uid"] = string(m.owner.UID)
	}
	return m
}

// AtOnce is how many pods of a job run at the same time. One that has no number of completions starts none once a pod has succeeded.
func AtOnce(w *batchv1.Job) int {
	n := or(w.Spec.Parallelism, 1)
	switch {
	case or(w.Spec.Suspend, false) || finished(w):
		return 0
	case w.Spec.Completions != nil:
		n = min(n, max(0, *w.Spec.Completions-w.Status.Succeeded))
	case w.Status.Succeeded > 0:
		n = min(n, w.Status.Active)
	}
	return int(n)
}

func finished(w *batchv1.Job) bool {
	for _, c := range w.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == v1.ConditionTrue {
			return true
		}
	}
	return false
}

// indexed makes the pods of an Indexed job: the lowest indexes that nobody has.
func (x *Expander) indexed(w *batchv1.Job, m *maker, self owner) []*v1.Pod {
	there := map[string]bool{}
	for _, p := range x.owned[self] {
		there[p.Annotations[batchv1.JobCompletionIndexAnnotation]] = true
	}
	want := AtOnce(w) - len(there)
	endings := newEndings("Job", w.Namespace, w.Name)
	var pods []*v1.Pod
	for i := 0; len(pods) < want; i++ {
		index := fmt.Sprint(i)
		if there[index] {
			continue
		}
		base := w.Name + "-" + index
		p := m.make(generateName(base)+endings.at(i), base+"-")
		p.Labels = with(p.Labels, batchv1.JobCompletionIndexAnnotation, index)
		p.Annotations = with(p.Annotations, batchv1.JobCompletionIndexAnnotation, index)
		p.Spec.Hostname = base
		tellIndex(&p.Spec)
		pods = append(pods, p)
	}
	return pods
}

// tellIndex gives each container the index in its environment.
func tellIndex(s *v1.PodSpec) {
	const name = "JOB_COMPLETION_INDEX"
	path := fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation)
	for _, containers := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			containers[i].Env = append(containers[i].Env, v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{
				FieldRef: &v1.ObjectFieldSelector{FieldPath: path},
			}})
		}
	}
}

// cronJob makes the pods of one of its jobs.
func (x *Expander) cronJob(w *batchv1.CronJob) []*v1.Pod {
	if or(w.Spec.Suspend, false) || x.controlled[owner{"CronJob", w.Namespace, w.Name}] {
		return nil
	}
	yes := true
	name := fmt.Sprintf("%s-%08d", w.Name, digest("CronJob", w.Namespace, w.Name)%1e8)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.Namespace, UID: UID("Job", w.Namespace, name),
			Labels: w.Spec.JobTemplate.Labels, Annotations: w.Spec.JobTemplate.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob", Name: w.Name, UID: UID("CronJob", w.Namespace, w.Name),
				Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: w.Spec.JobTemplate.Spec,
	}
	return x.job(job)
}
