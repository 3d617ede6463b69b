package groups

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// reservation are stories of room that is held for gangs, which upstream does not do.
func reservation() map[string]func(*rig.Rig) {
	return map[string]func(*rig.Rig){
		"room is held for a gang, but from pods that end before it starts": roomIsLent,
	}
}

// endsWithin has a pod run for so many seconds at the most.
func endsWithin(b *build.PodBuilder, seconds int64) *v1.Pod {
	p := b.Obj()
	p.Spec.ActiveDeadlineSeconds = &seconds
	return p
}

func roomIsLent(r *rig.Rig) {
	on(r, slots("a", 2).Obj(), slots("b", 2).Obj())
	job := endsWithin(build.Pod("job").CPU("1").Node("b"), 3600)
	now := metav1.Now()
	job.Status.Phase, job.Status.StartTime = v1.PodRunning, &now
	r.Create(job, build.Gang("big", 4).Obj())
	r.Create(members("big", 4)...)
	condition(r, "big", metav1.ConditionFalse, "Unschedulable", unschedulable)
	r.Create(build.Pod("endless").CPU("1").Obj(), endsWithin(build.Pod("long").CPU("1"), 3600))
	for _, key := range []string{"default/endless", "default/long"} {
		told(r, key, "0/2 nodes are available: 2 "+noCPU)
	}
	r.Create(endsWithin(build.Pod("brief").CPU("1"), 60))
	r.Until("are bound", testbed.IsBound, "default/brief")
	r.Delete("default/brief")
	r.Must(r.Pods.Never(r.Context(), time.Second, "is bound", testbed.IsBound, "default/endless", "default/long"))
	r.Delete("default/job")
	started(r, "big", 4)
}
