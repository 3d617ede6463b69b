package load

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/framework"
)

func pod(milliCPU int64, started time.Time) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milliCPU, resource.DecimalSI)},
	}}}}}
	if !started.IsZero() {
		p.Status.StartTime = &metav1.Time{Time: started}
	}
	return p
}

// node views a node of 10 CPUs.
func node(t *testing.T, annotations map[string]string, pods ...*v1.Pod) fwk.NodeInfo {
	var infos []fwk.PodInfo
	for _, p := range pods {
		info, err := framework.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, info)
	}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: annotations}}
	n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("10")}
	return framework.NewNodeInfo(&framework.Generations{}, n, slices.Values(infos))
}

func TestScores(t *testing.T) {
	plugin, err := New(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	measured := func(percent string) map[string]string {
		return map[string]string{CPU: percent, At: at.Format(time.RFC3339)}
	}
	for what, c := range map[string]struct {
		node fwk.NodeInfo
		want int64
	}{
		"nothing is known":                     {node(t, nil), 0},
		"a measurement that is no number":      {node(t, measured("many")), 0},
		"half way to the target":               {node(t, measured("10")), 50},
		"at the target":                        {node(t, measured("30")), 100},
		"half way from the target to full":     {node(t, measured("60")), 50},
		"full":                                 {node(t, measured("95")), 0},
		"a pod that started before it counted": {node(t, measured("30"), pod(1000, at.Add(-time.Minute))), 100},
		"a pod that started since":             {node(t, measured("10"), pod(2000, at.Add(time.Minute))), 100},
		"a pod that has not started":           {node(t, measured("10"), pod(2000, time.Time{})), 100},
	} {
		if got, s := plugin.(fwk.ScorePlugin).Score(t.Context(), nil, pod(1000, time.Time{}), c.node); !s.IsSuccess() || got != c.want {
			t.Errorf("%s: got %d, %v, want %d", what, got, s, c.want)
		}
	}
}

func TestTargetsThatCanNotBe(t *testing.T) {
	for args, want := range map[string]string{
		`{"targetPercent": 100}`: "args of LoadAware: targetPercent is 100, expected 1 to 99",
		`{"targetPercent": 0}`:   "args of LoadAware: targetPercent is 0, expected 1 to 99",
		`{"target": 5}`:          `args of LoadAware: error unmarshaling JSON: while decoding JSON: json: unknown field "target"`,
	} {
		if _, err := New(t.Context(), &runtime.Unknown{Raw: []byte(args)}, nil); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}
