package coordinator

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// claimed is a claim with the volume that it is bound to: a driver's, by the volume's name.
func claimed(name string, mode v1.PersistentVolumeAccessMode) []objects.Object {
	c := build.Claim(name, "").Mode(mode).Bound("pv-" + name).Obj()
	return []objects.Object{c, build.Volume("pv-"+name, "").CSI("d", name).Bound(c).Obj()}
}

// What a pod takes of the cluster's storage, the pods behind it in the batch find taken.
func TestPodsOfABatchThatTakeVolumes(t *testing.T) {
	const (
		inUse  = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
		none   = "node(s) didn't find available persistent volumes to bind"
		beyond = "node(s) exceed max volume count"
		away   = "node(s) didn't match PersistentVolume's node affinity"
	)
	pod := func(name string, claims ...string) *v1.Pod { return build.Pod(name).Claim(claims...).Obj() }
	local := []objects.Object{build.WaitingClass("local", "")}
	free := func(name, size, node string) objects.Object {
		return build.Volume(name, "local").Size(size).On(v1.LabelHostname, node).Obj()
	}
	wait := func(names ...string) (out []objects.Object) {
		for _, name := range names {
			out = append(out, build.Claim(name, "local").Obj())
		}
		return out
	}
	all := func(lists ...[]objects.Object) (out []objects.Object) {
		for _, list := range lists {
			out = append(out, list...)
		}
		return out
	}
	for name, x := range map[string]struct {
		nodes  []*v1.Node
		others []objects.Object
		pods   []*v1.Pod
		want   []string
	}{
		"two want the only volume": {
			inZones("4", "n", "m"), all(local, wait("a", "b"), []objects.Object{free("v", "1Gi", "n")}),
			[]*v1.Pod{pod("p", "a"), pod("q", "b")},
			[]string{"p n of 1", "q: 2 " + none},
		},
		"each takes the smallest that is left": {
			inZones("4", "n", "m"), all(local, wait("a", "b", "c"), []objects.Object{free("large", "5Gi", "n"), free("small", "1Gi", "m")}),
			[]*v1.Pod{build.Pod("p").Claim("a").NodeSelector(v1.LabelHostname, "n").Obj(), pod("q", "b"), pod("r", "c")},
			[]string{"p n of 1", "q m of 1", "r: 2 " + none},
		},
		"they share a claim, which is bound with the first": {
			inZones("4", "n", "m"), all(local, wait("a"), []objects.Object{free("v", "1Gi", "m")}),
			[]*v1.Pod{pod("p", "a"), pod("q", "a"), build.Pod("r").Claim("a").NodeSelector(v1.LabelHostname, "n").Obj()},
			[]string{"p m of 1", "q m of 1", "r: 1 " + away + ", 1 node(s) didn't match Pod's node affinity/selector"},
		},
		"a claim for one pod": {
			inZones("4", "n", "m"), claimed("a", v1.ReadWriteOncePod), []*v1.Pod{pod("p", "a"), pod("q", "a")},
			[]string{"p n of 2", "q: 2 " + inUse},
		},
		"two claims for one pod each, named the other way round": {
			inZones("4", "n", "m"), all(claimed("a", v1.ReadWriteOncePod), claimed("b", v1.ReadWriteOncePod)),
			[]*v1.Pod{pod("p", "a"), pod("q", "b", "a"), pod("r", "b")},
			[]string{"p n of 2", "q: 2 " + inUse, "r m of 2"},
		},
		"a shared volume counts once": {
			inZones("4", "n"), all([]objects.Object{build.CSINode("n", "d", 1)}, claimed("a", v1.ReadWriteMany), claimed("b", v1.ReadWriteOnce)),
			[]*v1.Pod{pod("p", "a"), pod("q", "a"), pod("r", "b"), pod("s", "a")},
			[]string{"p n of 1", "q n of 1", "r: 1 " + beyond, "s n of 1"},
		},
		"under two names, too": { // two claims of one volume of the driver's
			inZones("4", "n"), func() []objects.Object {
				list := all([]objects.Object{build.CSINode("n", "d", 1)}, claimed("a", v1.ReadWriteMany), claimed("b", v1.ReadWriteMany))
				for _, obj := range list {
					if v, ok := obj.(*v1.PersistentVolume); ok {
						v.Spec.CSI.VolumeHandle = "the same"
					}
				}
				return list
			}(),
			[]*v1.Pod{pod("p", "a"), pod("q", "b")},
			[]string{"p n of 1", "q n of 1"},
		},
		"a claim that gets its volume counts as that": {
			inZones("4", "n"), all(local, wait("a"), claimed("b", v1.ReadWriteOnce), []objects.Object{
				build.CSINode("n", "d", 1), build.Volume("v", "local").CSI("d", "v").Obj(),
			}),
			[]*v1.Pod{pod("p", "a"), pod("q", "b")},
			[]string{"p n of 1", "q: 1 " + beyond},
		},
		"beside others of the driver's": {
			inZones("4", "n", "m"), all(local, wait("a"), claimed("b", v1.ReadWriteOnce), claimed("c", v1.ReadWriteOnce), []objects.Object{
				build.CSINode("n", "d", 2), build.Volume("v", "local").CSI("d", "v").On(v1.LabelHostname, "n").Obj(),
			}),
			[]*v1.Pod{build.Pod("present").Claim("c").Node("n").Obj(), pod("p", "a"), pod("q", "b")},
			[]string{"p n of 1", "q m of 1"},
		},
		"a claim whose volume is made": {
			inZones("4", "n"), []objects.Object{
				build.WaitingClass("made", "d"), build.CSINode("n", "d", 1), build.Claim("a", "made").Obj(), build.Claim("b", "made").Obj(),
			},
			[]*v1.Pod{pod("p", "a"), pod("q", "b"), pod("r", "a")},
			[]string{"p n of 1", "q: 1 " + beyond, "r n of 1"},
		},
		"disks that a driver stands in for": {
			inZones("4", "n"), []objects.Object{build.CSINode("n", "pd.csi.storage.gke.io", 1)},
			[]*v1.Pod{disk("p", "1"), disk("q", "1"), disk("r", "2")},
			[]string{"p n of 1", "q n of 1", "r: 1 " + beyond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, batch := range []int{1, 2, 512} {
				s := newTrial(t, SchedulerConfig{Shards: 2, BatchSize: batch}, 0)
				s.Load(&objects.Snapshot{Nodes: x.nodes, Pods: x.pods, Cluster: x.others}, nil)
				s.turn(t)
				s.fanout.Close()
				var got []string
				for _, d := range s.decided(t) {
					line := d.Pod[len("default/"):]
					if d.Node != "" {
						line += fmt.Sprintf(" %s of %d", d.Node, d.Feasible)
					} else {
						line += fmt.Sprintf(": %s", d.Message[len("0/1 nodes are available: "):len(d.Message)-1])
					}
					got = append(got, line)
				}
				if d := cmp.Diff(x.want, got); d != "" {
					t.Errorf("in batches of %d (-want +got):\n%s", batch, d)
				}
			}
		})
	}
}

// disk is a pod that reads a disk.
func disk(name, of string) *v1.Pod {
	return build.Pod(name).Mount(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: of, ReadOnly: true}}).Obj()
}
