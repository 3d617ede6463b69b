package quota

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
)

// handle has informers and nothing else.
type handle struct{ fwk.Handle }

func (handle) SharedInformerFactory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(fake.NewClientset(), 0)
}

func newPlugin(t *testing.T, args string) (*Plugin, error) {
	t.Helper()
	p, err := New(t.Context(), &runtime.Unknown{Raw: []byte(args)}, handle{})
	if err != nil {
		return nil, err
	}
	return p.(*Plugin), nil
}

func pod(namespace, uid, cpu string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: types.UID(uid)},
		Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
		}}}},
	}
}

func TestANamespaceKeepsToItsQuota(t *testing.T) {
	p, err := newPlugin(t, `{"quotas": [{"namespace": "a", "max": {"cpu": "3"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	filter := func(pod *v1.Pod) string {
		_, s := p.PreFilter(t.Context(), nil, pod, nil)
		return s.Code().String() + " " + s.Message()
	}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	want("a namespace without a quota", filter(pod("b", "x", "100")), "Skip ")
	want("room", filter(pod("a", "1", "2")), "Success ")
	for range 2 { // a pod counts once, also where an informer tells of it
		p.Reserve(t.Context(), nil, pod("a", "1", "2"), "n")
	}
	want("none left", filter(pod("a", "2", "2")), `UnschedulableAndUnresolvable namespace "a" would use 4 of 3 cpu`)
	want("enough for a small one", filter(pod("a", "3", "1")), "Success ")
	p.Unreserve(t.Context(), nil, pod("a", "1", "2"), "n")
	want("given back", filter(pod("a", "2", "2")), "Success ")

	bound := pod("a", "4", "3")
	bound.Spec.NodeName = "n"
	p.seen(bound)
	want("bound by somebody else", filter(pod("a", "3", "1")), `UnschedulableAndUnresolvable namespace "a" would use 4 of 3 cpu`)
	bound.Status.Phase = v1.PodSucceeded
	p.seen(bound)
	want("it has ended", filter(pod("a", "3", "1")), "Success ")
}

func TestQuotasThatCanNotBe(t *testing.T) {
	for args, want := range map[string]string{
		`{"quotas": [{"max": {"cpu": "1"}}]}`:                  "args of NamespaceQuota: quotas[0].namespace is empty",
		`{"quotas": [{"namespace": "a"}, {"namespace": "a"}]}`: `args of NamespaceQuota: quotas[1].namespace: "a" is named twice`,
	} {
		if _, err := newPlugin(t, args); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}
