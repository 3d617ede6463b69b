package workload

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func amounts(pairs ...string) v1.ResourceList {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func limitRange(items ...v1.LimitRangeItem) *v1.LimitRange {
	return &v1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "shop"}, Spec: v1.LimitRangeSpec{Limits: items}}
}

func admitted(namespace string, requests, limits v1.ResourceList) *v1.Pod {
	c := v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: v1.PodSpec{Containers: []v1.Container{c}}}
}

func described(remarks []Remark) (texts []string) {
	for _, r := range remarks {
		texts = append(texts, r.Field.String()+": "+r.Problem)
	}
	return texts
}

// A container without requests gets those of its namespace's range: the default, or what stands for it; what it says itself stays.
func TestLimitRangesFillInContainers(t *testing.T) {
	a := NewAdmission([]runtime.Object{limitRange(v1.LimitRangeItem{
		Type: v1.LimitTypeContainer, Default: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "1"), Max: amounts("memory", "4Gi"),
		Min: amounts("ephemeral-storage", "1Gi"),
	})})
	for name, x := range map[string]struct {
		pod              *v1.Pod
		requests, limits v1.ResourceList
	}{
		"empty": {admitted("shop", nil, nil), amounts("cpu", "1", "memory", "4Gi", "ephemeral-storage", "1Gi"), amounts("cpu", "2", "memory", "4Gi")},
		"with its own": {admitted("shop", amounts("cpu", "500m", "memory", "1Gi"), amounts("memory", "2Gi")),
			amounts("cpu", "500m", "memory", "1Gi", "ephemeral-storage", "1Gi"), amounts("cpu", "2", "memory", "2Gi")},
		"of another namespace": {admitted("other", nil, nil), nil, nil},
	} {
		unknown, refused := a.Pod(x.pod)
		if len(unknown)+len(refused) > 0 {
			t.Errorf("%s: got remarks %v and %v, want none", name, unknown, refused)
		}
		r := x.pod.Spec.Containers[0].Resources
		if d := cmp.Diff(x.requests, r.Requests); d != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(x.limits, r.Limits); d != "" {
			t.Errorf("%s: limits (-want +got):\n%s", name, d)
		}
	}
	there := admitted("shop", nil, nil)
	there.UID = "u"
	if a.Pod(there); there.Spec.Containers[0].Resources.Requests != nil {
		t.Error("a pod that is there was filled in")
	}
}

func TestLimitRangesRefuse(t *testing.T) {
	container := func(i v1.LimitRangeItem) v1.LimitRangeItem { i.Type = v1.LimitTypeContainer; return i }
	ofPod := func(i v1.LimitRangeItem) v1.LimitRangeItem { i.Type = v1.LimitTypePod; return i }
	for name, x := range map[string]struct {
		item v1.LimitRangeItem
		pod  *v1.Pod
		want string // empty: taken
	}{
		"little":          {container(v1.LimitRangeItem{Min: amounts("cpu", "1")}), admitted("shop", amounts("cpu", "900m"), nil), "spec.containers[0].resources.requests[cpu]: LimitRange r: 900m is less than 1"},
		"a low limit":     {ofPod(v1.LimitRangeItem{Min: amounts("cpu", "1")}), admitted("shop", amounts("cpu", "1"), amounts("cpu", "500m")), "spec.limits[cpu]: LimitRange r: 500m is less than 1"},
		"nothing":         {ofPod(v1.LimitRangeItem{Min: amounts("cpu", "1")}), admitted("shop", nil, nil), "spec.requests[cpu]: LimitRange r: there is none, and at least 1 is wanted"},
		"much":            {container(v1.LimitRangeItem{Max: amounts("cpu", "1")}), admitted("shop", amounts("cpu", "1"), amounts("cpu", "2")), "spec.containers[0].resources.limits[cpu]: LimitRange r: 2 is more than 1"},
		"a great request": {container(v1.LimitRangeItem{Max: amounts("cpu", "1")}), admitted("shop", amounts("cpu", "2"), nil), "spec.containers[0].resources.requests[cpu]: LimitRange r: 2 is more than 1"},
		"no limit":        {ofPod(v1.LimitRangeItem{Max: amounts("cpu", "1")}), admitted("shop", amounts("cpu", "1"), nil), "spec.limits[cpu]: LimitRange r: there is none, and at most 1 is allowed"},
		"a steep ratio":   {container(v1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu", "2")}), admitted("shop", amounts("cpu", "1"), amounts("cpu", "2100m")), "spec.containers[0].resources.limits[cpu]: LimitRange r: 2100m is more than 2 times the request, 1"},
		"no ratio":        {container(v1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu", "2")}), admitted("shop", amounts("cpu", "1"), nil), "spec.containers[0].resources.limits[cpu]: LimitRange r: there is none, and at most 2 times the request is allowed"},
		"right":           {container(v1.LimitRangeItem{Min: amounts("cpu", "1"), Max: amounts("cpu", "2"), MaxLimitRequestRatio: amounts("cpu", "2")}), admitted("shop", amounts("cpu", "1"), amounts("cpu", "2")), ""},
	} {
		_, refused := NewAdmission([]runtime.Object{limitRange(x.item)}).Pod(x.pod)
		var want []string
		if x.want != "" {
			want = []string{x.want}
		}
		if got := described(refused); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestLimitRangesBoundClaims(t *testing.T) {
	a := NewAdmission([]runtime.Object{limitRange(v1.LimitRangeItem{Type: v1.LimitTypePersistentVolumeClaim, Min: amounts("storage", "1Gi"), Max: amounts("storage", "2Gi")})})
	var got []string
	for _, size := range []string{"500Mi", "1Gi", "3Gi"} {
		c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
		c.Spec.Resources.Requests = amounts("storage", size)
		got = append(got, fmt.Sprintf("%s %q", size, described(a.Claim(c))))
	}
	want := []string{
		`500Mi ["spec.resources.requests[storage]: LimitRange r: 500Mi is less than 1Gi"]`, `1Gi []`,
		`3Gi ["spec.resources.requests[storage]: LimitRange r: 3Gi is more than 2Gi"]`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("claims (-want +got):\n%s", d)
	}
}

// A RuntimeClass gives its pods overhead, and keeps them to the nodes that have it.
func TestRuntimeClassesHaveTheirSay(t *testing.T) {
	toleration := v1.Toleration{Key: "kata", Operator: v1.TolerationOpExists}
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Overhead: &nodev1.Overhead{PodFixed: amounts("memory", "120Mi")},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"kata": "yes"}, Tolerations: []v1.Toleration{toleration}}}
	a := NewAdmission([]runtime.Object{class})
	of := func(name string, change func(*v1.PodSpec)) *v1.Pod {
		p := admitted("shop", nil, nil)
		p.Spec.RuntimeClassName = ptr.To(name)
		change(&p.Spec)
		return p
	}
	p := of("kata", func(s *v1.PodSpec) {
		s.NodeSelector, s.Tolerations = map[string]string{"disk": "ssd"}, []v1.Toleration{toleration}
	})
	if unknown, refused := a.Pod(p); len(unknown)+len(refused) > 0 {
		t.Errorf("got remarks %v and %v, want none", unknown, refused)
	}
	want := v1.PodSpec{NodeSelector: map[string]string{"disk": "ssd", "kata": "yes"}, Tolerations: []v1.Toleration{toleration}, Overhead: amounts("memory", "120Mi")}
	got := v1.PodSpec{NodeSelector: p.Spec.NodeSelector, Tolerations: p.Spec.Tolerations, Overhead: p.Spec.Overhead}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pod of the class (-want +got):\n%s", d)
	}
	for _, x := range []struct {
		pod              *v1.Pod
		unknown, refused []string
	}{
		{of("gvisor", func(*v1.PodSpec) {}), []string{`spec.runtimeClassName: no RuntimeClass "gvisor" is known: no overhead, and any node will do`}, nil},
		{of("kata", func(s *v1.PodSpec) { s.Overhead = amounts("memory", "1Mi") }), nil, []string{"spec.overhead: it is not that of RuntimeClass kata"}},
		{of("kata", func(s *v1.PodSpec) { s.NodeSelector = map[string]string{"kata": "no"} }), nil, []string{`spec.nodeSelector[kata]: it is "no", and "yes" by RuntimeClass kata`}},
	} {
		unknown, refused := a.Pod(x.pod)
		if !slices.Equal(described(unknown), x.unknown) || !slices.Equal(described(refused), x.refused) {
			t.Errorf("got %q and %q, want %q and %q", described(unknown), described(refused), x.unknown, x.refused)
		}
	}
}
