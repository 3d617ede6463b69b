package build

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestNodeSaysWhatItIsTold(t *testing.T) {
	n := Node("a").CPU("4").Pods("10").Zone("z").Taint("k=v:NoSchedule").Taint("k:NoExecute").Unschedulable().Image(5, "x:v1").Obj()
	want := []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}, {Key: "k", Effect: v1.TaintEffectNoExecute}}
	if diff := cmp.Diff(want, n.Spec.Taints); diff != "" {
		t.Errorf("taints: want -, got +\n%s", diff)
	}
	if got := n.Status.Allocatable.Pods().Value(); got != 10 {
		t.Errorf("pods: want 10, got %d", got)
	}
	if got := n.Labels[v1.LabelTopologyZone]; got != "z" || !n.Spec.Unschedulable || n.Status.Images[0].SizeBytes != 5 {
		t.Errorf("zone, cordon and image: want z, true and 5 bytes; got %s, %v and %v", got, n.Spec.Unschedulable, n.Status.Images)
	}
}

func TestPodWordsGoToTheLastContainer(t *testing.T) {
	p := Pod("p").CPU("1").Container("second").CPU("2").HostPort("", "", 80).Sidecar("s", "cpu", "3").Obj()
	want := []v1.Container{
		{Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}},
		{
			Name:      "second",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("2")}},
			Ports:     []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}},
		},
	}
	if diff := cmp.Diff(want, p.Spec.Containers); diff != "" {
		t.Errorf("containers: want -, got +\n%s", diff)
	}
	if got := p.Spec.InitContainers[0].Resources.Requests.Cpu().Value(); got != 3 {
		t.Errorf("cpu of the sidecar: want 3, got %d", got)
	}
	if got := len(Pod("q").Obj().Spec.Containers); got != 1 {
		t.Errorf("containers of a pod that was told of none: want 1, got %d", got)
	}
}

func TestTolerationWords(t *testing.T) {
	got := Pod("p").Toleration("k=v:NoSchedule").Toleration("k=").Toleration("k").Toleration("").Obj().Spec.Tolerations
	want := []v1.Toleration{
		{Key: "k", Operator: v1.TolerationOpEqual, Value: "v", Effect: v1.TaintEffectNoSchedule},
		{Key: "k", Operator: v1.TolerationOpEqual},
		{Key: "k", Operator: v1.TolerationOpExists},
		{Operator: v1.TolerationOpExists},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tolerations: want -, got +\n%s", diff)
	}
}
