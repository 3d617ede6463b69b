package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// rack is the label that the scene's nodes have for their racks.
const rack = "example.com/rack"

// scene is a cluster to look at: pools of nodes in zones and racks, workloads that fit, pods that wait for each of several causes, and
// what comes later and pushes others out. The same number of nodes gives the same scene.
type scene struct {
	first, later []runtime.Object
	r            *rand.Rand
}

// newScene makes one of so many nodes, twenty to a rack.
func newScene(nodes int) *scene {
	s := &scene{r: rand.New(rand.NewPCG(1, uint64(nodes)))}
	for _, name := range []string{"kube-system", "shop", "data", "ml"} {
		s.first = append(s.first, build.Namespace(name))
	}
	gpus := 0
	for i := range nodes {
		gpus += s.node(i)
	}
	s.workloads(nodes, gpus)
	return s
}

// node adds the ith node and what runs on it from the start, and returns how many GPUs it has.
func (s *scene) node(i int) (gpus int) {
	zone, in := i%3, i/3
	pool := []string{"general", "general", "general", "compute", "spot"}[in/20%5]
	if in%200 >= 190 {
		pool = "gpu"
	}
	size := map[string][2]string{"general": {"32", "128Gi"}, "compute": {"96", "192Gi"}, "spot": {"16", "64Gi"}, "gpu": {"64", "512Gi"}}[pool]
	name := fmt.Sprintf("%s-%c-%04d", pool, 'a'+zone, in)
	b := build.Node(name).CPU(size[0]).Memory(size[1]).EphemeralStorage("400Gi").Zone(fmt.Sprintf("eu-1%c", 'a'+zone)).
		Label(v1.LabelTopologyRegion, "eu-1").Label(v1.LabelHostname, name).Label(rack, fmt.Sprintf("%c%02d", 'a'+zone, in/20)).
		Label("pool", pool).Label(v1.LabelInstanceTypeStable, pool+"-"+size[0]).
		Label(v1.LabelOSStable, "linux").Label(v1.LabelArchStable, "amd64")
	switch {
	case pool == "gpu":
		gpus = 8
		b.Resource("nvidia.com/gpu", "8").Taint("nvidia.com/gpu=:NoSchedule")
	case pool == "spot":
		b.Taint("spot=:PreferNoSchedule")
	}
	if s.r.IntN(60) == 0 {
		b.Unschedulable()
	}
	s.first = append(s.first, b.Obj())
	s.first = append(s.first, build.Pod("agent-"+name).Namespace("kube-system").Owner("apps/v1", "DaemonSet", "agent").Node(name).
		Priority(2000000000).CPU("250m").Memory("512Mi").Toleration(":NoSchedule").Phase(v1.PodRunning).Obj())
	// Some racks are new, others have been filled by what is long gone from the queue.
	busy := s.r.Float64() * float64(1+in/20%4) / 4
	if pool == "gpu" {
		return gpus
	}
	cpu := map[string]int{"general": 32, "compute": 96, "spot": 16}[pool]
	for n, left := 0, int(busy*float64(1000*cpu)); left > 500; n++ {
		takes := min(500+s.r.IntN(7000), left)
		left -= takes
		s.first = append(s.first, build.Pod(fmt.Sprintf("batch-%s-%d", name, n)).Namespace("data").Owner("batch/v1", "Job", "nightly").Node(name).
			CPU(fmt.Sprintf("%dm", takes)).Memory(fmt.Sprintf("%dMi", takes+s.r.IntN(takes))).Phase(v1.PodRunning).Obj())
	}
	return gpus
}

// deployment has pods as the builder says.
func deployment(namespace, name string, replicas int, pod *build.PodBuilder) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	n := int32(replicas)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: appsv1.DeploymentSpec{
		Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Obj().Spec},
	}}
}

func (s *scene) workloads(nodes, gpus int) {
	const web, gpu = "app=web", "nvidia.com/gpu"
	size := func(cpu, memory string) *build.PodBuilder { return build.Pod("").CPU(cpu).Memory(memory) }
	withGPUs := func(n, cpu, memory string) *build.PodBuilder {
		return size(cpu, memory).Request(gpu, n).Toleration(gpu + ":NoSchedule")
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "ml"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr(intstr.FromString("90%")), Selector: build.Selector("app=train")}}
	spread := size("1", "2Gi").Spread(build.Hard(v1.LabelTopologyZone, 1, web), build.Soft(v1.LabelHostname, 1, web))
	compute := build.Labels(build.Match("pool", v1.NodeSelectorOpIn, "compute"))
	s.first = append(s.first, budget,
		deployment("shop", "web", nodes/10, spread),
		deployment("shop", "cart", nodes/20, size("500m", "1Gi")),
		deployment("shop", "search", nodes/30, size("2", "8Gi").Preferred(10, compute)),
		deployment("data", "stream", nodes/15, size("2500m", "6Gi").NodeSelector("pool", "compute")),
		deployment("ml", "train", gpus/4, withGPUs("4", "16", "96Gi")),
		// What waits, most for GPUs.
		deployment("ml", "notebook", 1+nodes/20, withGPUs("1", "4", "16Gi")),
		deployment("data", "index", 1+nodes/50, size("2", "4Gi").NodeSelector("disk", "nvme")),
		deployment("data", "warehouse", 1+nodes/150, size("48", "256Gi")),
		deployment("shop", "checkout", 1+nodes/100, size("500m", "1Gi").Gate("example.com/quota")),
		deployment("shop", "cache", 5, size("1", "4Gi").Apart(build.Around(v1.LabelTopologyZone, "app=cache"))),
	)
	s.later = append(s.later, deployment("ml", "serve", max(1, gpus/80), withGPUs("4", "8", "64Gi").Priority(1000)))
}

func ptr[T any](x T) *T { return &x }

// write writes objects as a List.
func write(w io.Writer, list []runtime.Object) error {
	items := make([]json.RawMessage, 0, len(list))
	for _, o := range list {
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return err
		}
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
		raw, err := json.Marshal(o)
		if err != nil {
			named, _ := meta.Accessor(o)
			return fmt.Errorf("%s %s: %w", kinds[0].Kind, named.GetName(), err)
		}
		items = append(items, raw)
	}
	return json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}
