package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
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
	runScenario(t, clusterOf(nodesOf("4", "a", "b"), vast(0)), nil, func(x *scenario) {
		x.deliver(objects.Added, vast(1))
		x.deliver(objects.Added, vast(2))
		x.deliver(objects.Added, cores("p", "1"))
		x.wantPods("beside them", "p promised b")
		x.wantSnapshots()
		for i := range 3 {
			x.deliver(objects.Deleted, vast(i))
		}
		x.deliver(objects.Added, cores("q", "4"))
		x.wantPods("when they are gone", "p promised b", "q promised a")
	})
}

// Or with texts that the API server takes at any length.
func TestLongTextsOfPlacedPodsConcernNobodyElse(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, change := range map[string]func(*v1.PodSpec){
		"a disk's name": func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: long}}}}
		},
		"a volume's id": func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: long}}}}
		},
		"monitors": func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: []string{long, "b"}, RBDImage: long, RBDPool: long}}}}
		},
		"a target": func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{TargetPortal: long, IQN: long}}}}
		},
		"a disk's address": func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: long, DataDiskURI: long}}}}
		},
		"a path": func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: long}}}}
		},
		"a claim": func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: long}}}}
		},
		"an image": func(s *v1.PodSpec) { s.Containers[0].Image = long },
		"a port's address": func(s *v1.PodSpec) {
			s.Containers[0].Ports = []v1.ContainerPort{{HostIP: long, HostPort: 1, ContainerPort: 1, Protocol: v1.ProtocolTCP}}
		},
		"a resource": func(s *v1.PodSpec) {
			s.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceName("example.com/" + v1.ResourceName(long)): resource.MustParse("1")}
		},
		"a topology key": func(s *v1.PodSpec) {
			s.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				{TopologyKey: long, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": long}}},
			}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			runScenario(t, clusterOf(nodesOf("4", "a", "b")), nil, func(x *scenario) {
				placed, waits := build.Pod("placed").Node("a").Obj(), build.Pod("waits").Node("").Obj()
				change(&placed.Spec)
				change(&waits.Spec)
				x.deliver(objects.Added, placed)
				x.deliver(objects.Added, waits)
				x.deliver(objects.Added, cores("p", "1"))
				elapse(time.Second)
				var node string
				if err := x.call(x.ctx, func() { _, node, _ = x.state.Pod(cores("p", "1").UID) }); err != nil || node == "" {
					t.Fatalf("a pod beside it: got node %q, %v; want one", node, err)
				}
				x.wantSnapshots()
				x.deliver(objects.Deleted, placed)
				x.deliver(objects.Deleted, waits)
				x.deliver(objects.Added, cores("q", "3"))
				x.wantSnapshots()
			})
		})
	}
}

// A node's kubelet may write what it likes as well, of its own node.
func TestLongTextsOfANodeConcernNoOther(t *testing.T) {
	long := strings.Repeat("x", 1<<17)
	for name, change := range map[string]func(*v1.Node){
		"an image":      func(n *v1.Node) { n.Status.Images = []v1.ContainerImage{{Names: []string{long}, SizeBytes: 1 << 30}} },
		"an annotation": func(n *v1.Node) { n.Annotations = map[string]string{v1.PreferAvoidPodsAnnotationKey: long} },
		"a resource": func(n *v1.Node) {
			n.Status.Allocatable["example.com/"+v1.ResourceName(long)] = resource.MustParse("1")
		},
		"a label": func(n *v1.Node) { n.Labels = map[string]string{"a": long} },
		"a taint": func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: "a", Value: long, Effect: v1.TaintEffectPreferNoSchedule}}
		},
		"a feature": func(n *v1.Node) { n.Status.DeclaredFeatures = []string{long} },
		"amounts": func(n *v1.Node) {
			n.Status.Allocatable[v1.ResourceMemory] = resource.MustParse("-9223372036854775807")
			n.Status.Allocatable[v1.ResourcePods] = resource.MustParse("-1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodesOf("4", "a", "b")
			change(nodes[0])
			runScenario(t, clusterOf(nodes[:1]), nil, func(x *scenario) {
				x.deliver(objects.Added, nodes[1])
				x.deliver(objects.Modified, nodes[0])
				x.deliver(objects.Added, build.Pod("on").Node("a").Obj())
				x.deliver(objects.Added, cores("p", "3"))
				x.deliver(objects.Added, cores("q", "1"))
				elapse(time.Second)
				x.wantSnapshots()
				x.deliver(objects.Deleted, nodes[0])
				x.wantSnapshots()
			})
		})
	}
}

// wantSnapshots has workers be able to load all tables.
func (x *scenario) wantSnapshots() {
	x.t.Helper()
	err := x.call(x.ctx, func() {
		for shard := range 2 {
			t := x.state.Table(shard)
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
	runScenario(t, all, nil, func(x *scenario) {
		x.deliver(objects.Added, cores("p", "1"))
		x.wantPods("beside it", "p promised a")
	})
}
