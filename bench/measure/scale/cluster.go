package main

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/internal/workload"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// objects are a cluster with a pod on every node, and pods that wait; no two pods are alike.
type objects struct {
	nodes        []*v1.Node
	placed, pods []*v1.Pod
}

// newObjects makes them, as the source of a cluster keeps them: without what nobody reads, and with their equal parts in
// common. Equal seeds make equal ones.
func newObjects(nodes, pods int, seed uint64) (o objects, err error) {
	trim := kube.Transform(kube.Whole{})
	keep := func(obj any) {
		if _, failed := trim(obj); failed != nil {
			err = failed
		}
	}
	order := rand.New(rand.NewPCG(seed, uint64(nodes))).Perm(nodes)
	for i := range nodes {
		o.nodes = append(o.nodes, workload.Node(i))
		keep(o.nodes[i])
	}
	for i := range nodes {
		b := build.Pod(fmt.Sprintf("placed-%d", i)).Namespace(workload.Namespace).Node(o.nodes[order[i]].Name)
		o.placed = append(o.placed, workload.Distinct(b, i, true).Obj())
		keep(o.placed[i])
	}
	for i := range pods {
		o.pods = append(o.pods, waiting(i))
		keep(o.pods[i])
	}
	return o, err
}

// waiting is the ith pod that waits.
func waiting(i int) *v1.Pod {
	return workload.Distinct(build.Pod(fmt.Sprintf("pod-%d", i)).Namespace(workload.Namespace), i, false).Obj()
}

// shardTables is a coordinator's state of a cluster without the loop: tables to ask workers about.
type shardTables struct {
	*cache.Cache
	counters *count.Registry
	cluster  *cluster.Cluster
	compiler *compile.Compiler
	profile  *compile.Profile
	made     int // pods that were compiled
}

// newShardTables cuts a cluster into shards.
func newShardTables(o objects, shards int) (*shardTables, error) {
	w := &shardTables{
		Cache: cache.New(shards), counters: count.New(), cluster: cluster.New(),
		compiler: compile.New(), profile: rules.DefaultProfile(v1.DefaultSchedulerName),
	}
	w.UseCounters(w.counters)
	for _, n := range o.nodes {
		if _, err := w.SetNode(n); err != nil {
			return nil, err
		}
	}
	for _, p := range o.placed {
		if _, err := w.SetPod(p); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Counters, Cluster and Volumes are parts of compile.ClusterState.
func (w *shardTables) Counters() *count.Registry { return w.counters }
func (w *shardTables) Cluster() *cluster.Cluster { return w.cluster }
func (w *shardTables) Volumes() compile.Volumes  { return nil }
func (*shardTables) Devices() compile.Devices    { return nil }

// requests ask for classes that nobody has asked for before.
func (w *shardTables) requests(classes, candidates int) ([]fanout.Request, error) {
	out := make([]fanout.Request, classes)
	for i := range out {
		class, err := w.compiler.Class(waiting(w.made), w.profile, w)
		if err != nil {
			return nil, err
		}
		w.made++
		out[i] = fanout.Request{Class: class.Scorer, Candidates: candidates}
	}
	return out, nil
}

var _ fanout.Shards = (*shardTables)(nil)
