package whatif

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// aJob is Job shop/web.
func aJob(t testing.TB, spec string) *batchv1.Job {
	return read[batchv1.Job](t, "metadata: {name: web, namespace: shop}\n"+spec)
}

const jobTemplate = "  template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'a:1'}]}}\n"

// jobWorld has the pods of a Job on two nodes.
func jobWorld(t testing.TB, spec string) *world {
	there := aJob(t, spec)
	pods, _ := made(t, 2, there)
	return newWorld(t, []int{4, 4}, Input{Pods: pods, Workloads: []runtime.Object{there}})
}

// Pods that a Job loses count as failed: it makes them again, unless there are too many of them.
func TestJobsThatLosePods(t *testing.T) {
	const policy = "  backoffLimit: 0\n  podFailurePolicy: {rules: [{action: %s, onPodConditions: [{type: DisruptionTarget, status: 'True'}]}]}\n"
	for name, x := range map[string]struct{ spec, want string }{
		"few":             {"spec:\n  parallelism: 4\n", "Job shop/web   evicted   4      4        0         1 node"},
		"none may fail":   {"spec:\n  parallelism: 4\n  backoffLimit: 0\n", "4 pods are not made: the Job has failed: pods that it loses count as failed, which makes 2, and its backoffLimit is 0"},
		"some had failed": {"spec:\n  parallelism: 4\n  backoffLimit: 3\nstatus: {failed: 2}\n", "the Job has failed: pods that it loses count as failed, which makes 4, and its backoffLimit is 3"},
		"ignored":         {"spec:\n  parallelism: 4\n" + fmt.Sprintf(policy, "Ignore"), "Job shop/web   evicted   4      4        0         1 node"},
		"fatal":           {"spec:\n  parallelism: 4\n" + fmt.Sprintf(policy, "FailJob"), "4 pods are not made: the Job has failed: its podFailurePolicy says so of a pod that is disrupted"},
		"by index":        {"spec:\n  parallelism: 4\n  completions: 4\n  completionMode: Indexed\n  backoffLimit: 0\n  backoffLimitPerIndex: 1\n", "evicted   4      4        0         1 node"},
	} {
		t.Run(name, func(t *testing.T) {
			w := jobWorld(t, strings.Replace(x.spec, "spec:\n", "spec:\n"+jobTemplate, 1))
			r := w.apply(Change{Drain: []string{"n0"}})
			if got, failed := table(r), strings.Contains(x.want, "failed"); !strings.Contains(got, x.want) || r.Placed == failed || failed != (w.names("web") == "") {
				t.Errorf("got placed %t, %s and\n%s\nwant %s", r.Placed, w.names("web"), got, x.want)
			}
		})
	}
}

func TestWhatAChangeDoesToAJob(t *testing.T) {
	const there = "spec:\n" + jobTemplate + "  parallelism: 4\n"
	for name, x := range map[string]struct{ there, now, want string }{
		"suspended":   {there, there + "  suspend: true\n", "Job shop/web   scaled   4 -> 0   4 -> 0"},
		"resumed":     {there + "  suspend: true\n", there, "Job shop/web   scaled   0 -> 4   0 -> 4"},
		"fewer":       {there, strings.Replace(there, ": 4", ": 1", 1), "Job shop/web   scaled   4 -> 1   4 -> 1"},
		"the same":    {there, there, "Job shop/web   unchanged   4      4"},
		"completions": {there, there + "  completions: 4\n", "spec.completions can't be changed"},
		"mode":        {there + "  completions: 4\n", there + "  completions: 4\n  completionMode: Indexed\n", "spec.completionMode can't be changed"},
		"template":    {there, strings.Replace(there, "a:1", "a:2", 1), "spec.template can't be changed: an API server refuses it; deleted first (simulate: --delete job/shop/web), it is made anew"},
		"another one": {there, strings.Replace(there, "a:1", "a:2", 1), "Job shop/web   new      4      4        0"},
		"template, while suspended": {there + "  suspend: true\n", strings.Replace(there, "a:1", "a:2", 1),
			"Job shop/web   scaled   0 -> 4   0 -> 4"},
		"elastic": {there + "  completions: 4\n  completionMode: Indexed\n",
			strings.Replace(there, ": 4", ": 6", 1) + "  completions: 6\n  completionMode: Indexed\n", "Job shop/web   scaled   4 -> 6   4 -> 6"},
	} {
		t.Run(name, func(t *testing.T) {
			w := jobWorld(t, x.there)
			now := aJob(t, x.now)
			change := Change{Workloads: []runtime.Object{now}}
			if name == "another one" {
				change.Delete = []Key{keyOf(now)}
			}
			err := w.c.Apply(change)
			got := fmt.Sprint(err)
			if err == nil {
				w.settle()
				got = table(w.c.Report())
			}
			if !strings.Contains(got, x.want) {
				t.Errorf("got\n%s\nwant %s", got, x.want)
			}
		})
	}
}

// A CronJob of the cluster starts no Job, and goes with those that run.
func TestCronJobsOfTheCluster(t *testing.T) {
	const text = "metadata: {name: night, namespace: shop}\nspec: {schedule: '@daily', jobTemplate: {spec: {parallelism: 3, template: {spec: {containers: [{name: c}]}}}}}"
	cron := read[batchv1.CronJob](t, text)
	run := aJob(t, "spec:\n"+jobTemplate+"  parallelism: 2\n")
	run.OwnerReferences = read[batchv1.Job](t, "metadata: {ownerReferences: [{kind: CronJob, name: night, controller: true}]}").OwnerReferences
	pods, _ := made(t, 2, run)
	there := Input{Pods: pods, Workloads: []runtime.Object{cron, run}}
	for want, x := range map[string]Change{
		"CronJob shop/night   unchanged   2      2        0":       {Workloads: []runtime.Object{read[batchv1.CronJob](t, text)}},
		"CronJob shop/night   deleted   2 -> 0   2 -> 0   0":       {Delete: []Key{{"CronJob", "shop", "night"}}},
		"CronJob shop/night   evicted   2      2        0":         {Drain: []string{"n0"}},
		"CronJob shop/other   new      0 -> 3   0 -> 3   0       ": {Workloads: []runtime.Object{read[batchv1.CronJob](t, strings.Replace(text, "night", "other", 1))}},
	} {
		w := newWorld(t, []int{4, 4}, there)
		if got := table(w.apply(x)); !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
}
