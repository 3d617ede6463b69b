package kube_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Pods that depend on every rule get the same nodes, scores and messages whether the
// scheduler sees objects as an API server has them or as the source keeps them.
func TestTrimmedObjectsDecideAlike(t *testing.T) {
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 1))
		cluster := build.Random(r, 12, 40, 40)
		if seed%2 == 1 {
			cluster = build.Crowd(r, build.CrowdSize{Nodes: 10, Present: 60, Pending: 60, Kinds: 6, Nominated: 10, Claims: true})
		}
		whole, trimmed := &objects.Snapshot{}, &objects.Snapshot{}
		trim := kube.Transform(kube.Whole{})
		add := func(obj objects.Object) {
			obj = obj.DeepCopyObject().(objects.Object)
			clutter(obj)
			put(whole, obj)
			small, err := trim(obj.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			put(trimmed, small.(objects.Object))
		}
		for _, obj := range cluster.Others {
			add(obj)
		}
		for _, n := range cluster.Nodes {
			add(n)
		}
		for _, p := range append(cluster.Present, cluster.Pending...) {
			add(p)
		}
		want, got := decide(t, whole), decide(t, trimmed)
		if strings.Count(want, "\n") < len(cluster.Pending) {
			t.Errorf("seed %d: got %d decisions, want at least one for each of %d pods", seed, strings.Count(want, "\n"), len(cluster.Pending))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: decisions differ (-whole +trimmed):\n%s", seed, diff)
		}
	}
}

func put(all *objects.Snapshot, obj objects.Object) {
	switch obj := obj.(type) {
	case *v1.Node:
		all.Nodes = append(all.Nodes, obj)
	case *v1.Pod:
		all.Pods = append(all.Pods, obj)
	default:
		all.Cluster = append(all.Cluster, obj)
	}
}

// decide schedules the pending pods of a cluster, and returns the decision log.
func decide(t *testing.T, all *objects.Snapshot) string {
	t.Helper()
	var out bytes.Buffer
	decisions := observe.NewDecisionLog(&out)
	now := time.Unix(1_700_000_000, 0)
	s, err := coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: "test", Term: 1, Shards: 2, Decisions: decisions, QueueNow: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Load(all, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if err := s.Idle(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := decisions.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// clutter adds what objects of a real cluster have and no rule reads.
func clutter(obj objects.Object) {
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1("{}")}})
	switch obj := obj.(type) {
	case *v1.Node:
		obj.Annotations = map[string]string{"node.alpha.kubernetes.io/ttl": "0"}
		obj.Status.Conditions = append(obj.Status.Conditions, v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Message: "kubelet is posting ready status"})
		obj.Status.Capacity = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1000")}
		obj.Spec.ProviderID = "cloud:///1"
	case *v1.Pod:
		obj.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "yesterday"}
		obj.Spec.Volumes = append([]v1.Volume{{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}, obj.Spec.Volumes...)
		obj.Spec.ServiceAccountName = "default"
		for i := range obj.Spec.Containers {
			c := &obj.Spec.Containers[i]
			c.Env = []v1.EnvVar{{Name: "A", Value: "b"}}
			c.Ports = append(c.Ports, v1.ContainerPort{ContainerPort: 8080})
			obj.Status.ContainerStatuses = append(obj.Status.ContainerStatuses, v1.ContainerStatus{Name: c.Name, Ready: true})
		}
		obj.Status.Conditions = append(obj.Status.Conditions, v1.PodCondition{Type: v1.PodReady})
	default:
		// A workload's template is the largest part of it.
		if spec := reflect.ValueOf(obj).Elem().FieldByName("Spec"); spec.IsValid() {
			if template := spec.FieldByName("Template"); template.IsValid() && template.Kind() == reflect.Struct {
				template.Set(reflect.ValueOf(v1.PodTemplateSpec{Spec: v1.PodSpec{NodeName: "nowhere"}}))
			}
		}
	}
}
