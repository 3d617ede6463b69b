package gang

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// handle has informers and pods that wait on Permit.
type handle struct {
	fwk.Handle
	waiting []*waiting
}

func (*handle) SharedInformerFactory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(fake.NewClientset(), 0)
}

func (h *handle) IterateOverWaitingPods(f func(fwk.WaitingPod)) {
	for _, w := range h.waiting {
		f(w)
	}
}

func (*handle) Activate(klog.Logger, map[string]*v1.Pod) {}

// waiting notes what becomes of a pod that waits.
type waiting struct {
	fwk.WaitingPod
	pod     *v1.Pod
	verdict string
}

func (w *waiting) GetPod() *v1.Pod { return w.pod }
func (w *waiting) Allow(string)    { w.verdict = "allowed" }
func (w *waiting) Reject(_, msg string) bool {
	w.verdict = msg
	return true
}

func pod(name, gang, size string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "x", Name: name, UID: types.UID(name), Labels: map[string]string{NameLabel: gang, SizeLabel: size},
	}}
}

func TestAGangGoesTogether(t *testing.T) {
	h := &handle{}
	made, err := New(t.Context(), &runtime.Unknown{Raw: []byte(`{"permitTimeout": "5s"}`)}, h)
	if err != nil {
		t.Fatal(err)
	}
	p := made.(*Plugin)
	a, b := pod("a", "g", "2"), pod("b", "g", "2")
	other := &waiting{pod: pod("c", "another", "2")}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	filter := func(pod *v1.Pod) string {
		_, s := p.PreFilter(t.Context(), nil, pod, nil)
		return s.Code().String() + " " + s.Message()
	}
	permit := func(pod *v1.Pod) string {
		s, timeout := p.Permit(t.Context(), nil, pod, "n")
		return fmt.Sprint(s.Code(), " ", timeout, " ", s.Message())
	}
	want("no gang", filter(&v1.Pod{}), "Skip ")
	want("no size", filter(pod("d", "g", "two")), `UnschedulableAndUnresolvable label gang.shardsched.io/size is "two", expected a number of 1 or more`)
	p.seen(a)
	want("one of two", filter(a), `UnschedulableAndUnresolvable gang "g" has 1 of 2 pods`)
	p.seen(b)
	want("both", filter(a), "Success ")

	p.Reserve(t.Context(), nil, a, "n")
	want("the first", permit(a), `Wait 5s gang "g" has 1 of 2 pods`)
	first := &waiting{pod: a}
	h.waiting = []*waiting{first, other}
	p.Reserve(t.Context(), nil, b, "n")
	want("the second", permit(b), "Success 0s ")
	want("the first", first.verdict, "allowed")
	want("another gang's", other.verdict, "")

	p.Unreserve(t.Context(), nil, b, "n")
	want("where the second loses its node", first.verdict, `gang "g" lost pod b`)
	p.deleted(a)
	p.deleted(b)
	if len(p.gangs) != 0 {
		t.Errorf("got %d gangs when all pods are gone, want none", len(p.gangs))
	}
}

func TestTheTimeoutIsPositive(t *testing.T) {
	want := "args of Gang: permitTimeout is -1s, expected more than 0"
	if _, err := New(t.Context(), &runtime.Unknown{Raw: []byte(`{"permitTimeout": "-1s"}`)}, &handle{}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	p, err := New(t.Context(), nil, &handle{})
	if err != nil || p.(*Plugin).timeout != time.Minute {
		t.Errorf("by default: got %v, %v, want a minute", p, err)
	}
}
