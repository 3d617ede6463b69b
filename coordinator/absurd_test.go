package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/coordinator/build"
	"github.com/shardsched/shardsched/coordinator/store"
	"github.com/shardsched/shardsched/scorer"
)

// Whoever may make pods may put them on a node himself, of any size: those of others are placed beside them.
func TestPodsOfAbsurdSizeArePlacedByTheirAuthor(t *testing.T) {
	vast := func(i int) *v1.Pod {
		p := build.Pod(fmt.Sprintf("vast-%d", i)).Node("a").Obj()
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("9223372036854775"), v1.ResourceMemory: resource.MustParse("9223372036854775807"),
			"example.com/x": resource.MustParse("9223372036854775807"), v1.ResourceEphemeralStorage: resource.MustParse("9223372036854775807"),
		}
		return p
	}
	onStage(t, clusterOf(nodesOf("4", "a", "b"), vast(0)), nil, func(x *stage) {
		x.deliver(store.Added, vast(1))
		x.deliver(store.Added, vast(2))
		x.deliver(store.Added, cores("p", "1"))
		x.wantPods("beside them", "p promised b")
		x.wantSnapshots()
		for i := range 3 {
			x.deliver(store.Deleted, vast(i))
		}
		x.deliver(store.Added, cores("q", "4"))
		x.wantPods("when they are gone", "p promised b", "q promised a")
	})
}

// wantSnapshots has workers be able to load all tables.
func (x *stage) wantSnapshots() {
	x.t.Helper()
	err := x.call(x.ctx, func() {
		for shard := range 2 {
			t := x.cache.Table(shard)
			rows := slices.Collect(t.Snapshot)
			_, err := scorer.LoadTable(uint32(shard), t.Generation(), rows, slices.Collect(t.Counters))
			for _, r := range rows {
				err = errors.Join(err, r.Validate())
			}
			if err != nil {
				x.t.Errorf("shard %d: %v", shard, err)
			}
		}
	})
	if err != nil {
		x.t.Fatal(err)
	}
}

// Likewise he may have any number of budgets match a pod.
func TestMoreBudgetsMatchAPodThanArePrecise(t *testing.T) {
	none := intstr.FromInt32(0)
	all := clusterOf(nodesOf("4", "a"), build.Pod("own").Label("k", "v").Node("a").CPU("1").Obj())
	for i := range 3000 {
		all.Cluster = append(all.Cluster, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(i)},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k": "v"}}},
		})
	}
	onStage(t, all, nil, func(x *stage) {
		x.deliver(store.Added, cores("p", "1"))
		x.wantPods("beside it", "p promised a")
	})
}
