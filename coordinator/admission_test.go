package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// A pod that a kubelet refuses leaves the informers as it was before. It is read once, and counted by its reason.
func TestPodsThatAKubeletRefusesAreCounted(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	failed := map[string]string{"cpu": "OutOfcpu", "gpu": "OutOfexample.com/gpu", "late": "DeadlineExceeded", "other": "OutOfpods"}
	var read []string
	configure := func(cfg *SchedulerConfig) {
		cfg.Registerer = r
		cfg.ReadPod = func(_ context.Context, _, name string) (*v1.Pod, error) {
			read = append(read, name)
			p := cores(name, "1")
			switch reason, ok := failed[name]; {
			case name == "deleted":
				return nil, errors.New("not found")
			case name == "other":
				p.UID = "another pod of the name"
				fallthrough
			case ok:
				p.Status.Phase, p.Status.Reason = v1.PodFailed, reason
			}
			return p, nil
		}
	}
	before := build.Pod("before").CPU("1").Node("n").Obj() // bound by somebody else
	runScenarioWith(t, configure, clusterOf(nodesOf("64", "n"), before), nil, func(x *scenario) {
		for _, name := range []string{"cpu", "gpu", "late", "other", "deleted", "ran", "told"} {
			p := cores(name, "1")
			x.deliver(objects.Added, p)
			p.Spec.NodeName = "n"
			x.confirm(p, "n")
			switch name {
			case "ran":
				p = x.update(p, "101", func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
			case "told":
				p = x.update(p, "101", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
			}
			x.deliver(objects.Deleted, p)
		}
		x.deliver(objects.Deleted, before)
		if n := len(x.admission.pending); n != 0 {
			t.Errorf("%d pods are kept, want none", n)
		}
	})
	if want := []string{"cpu", "gpu", "late", "other", "deleted"}; !slices.Equal(read, want) {
		t.Errorf("read: got %q, want %q", read, want)
	}
	var got []string
	for _, line := range gathered(t, r, "shardsched_kubelet_refused_pods_total") {
		if line[len(line)-2:] != " 0" {
			got = append(got, line)
		}
	}
	want := []string{
		"shardsched_kubelet_refused_pods_total{reason=OutOfOther} 1",
		"shardsched_kubelet_refused_pods_total{reason=OutOfcpu} 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// However many pods leave at once, the loop does not wait for the API server.
func TestSoManyPodsWaitToBeRead(t *testing.T) {
	const over = 10
	var answer chan struct{}
	asked := 0
	configure := func(cfg *SchedulerConfig) {
		answer = make(chan struct{}) // of the bubble
		cfg.ReadPod = func(context.Context, string, string) (*v1.Pod, error) {
			asked++
			<-answer
			return nil, errors.New("not found")
		}
	}
	nodes := []*v1.Node{build.Node("n").CPU("1000000").Pods("1000000").Obj()}
	runScenarioWith(t, configure, clusterOf(nodes), nil, func(x *scenario) {
		var come, leave []objects.Event
		for i := range departuresWaiting + over {
			p := build.Pod(fmt.Sprintf("p%d", i)).CPU("1").Obj()
			come = append(come, objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
			there := p.DeepCopy()
			there.Spec.NodeName = "n"
			leave = append(leave, objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: there})
		}
		x.Deliver(come)
		synctest.Wait()
		if n := len(x.admission.pending); n != departuresWaiting+over {
			t.Fatalf("%d pods were bound, want all", n)
		}
		x.Deliver(leave)
		synctest.Wait()
		if n := len(x.admission.gone); n != departuresWaiting {
			t.Errorf("%d pods wait, want %d", n, departuresWaiting)
		}
		close(answer)
		synctest.Wait()
		if want := departuresWaiting + 1; asked != want { // one was being read
			t.Errorf("read %d pods, want %d", asked, want)
		}
	})
}
