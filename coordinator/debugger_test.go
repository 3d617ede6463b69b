package coordinator

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestTheStateIsHeldAgainstTheSourceAndDumped(t *testing.T) {
	known := build.Pod("there").UID("there").CPU("1").Node("a").Obj()
	waits := build.Pod("huge").UID("huge").CPU("100").Obj()
	promised := cores("p", "1")
	nodes := nodesOf("4", "a", "b")
	runScenario(t, clusterOf(nodes, known, waits), nil, func(x *scenario) {
		x.deliver(objects.Added, promised)
		log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		ctx := klog.NewContext(x.ctx, log)
		// Lines of a value are indented.
		text := func() string {
			return strings.ReplaceAll(log.GetSink().(ktesting.Underlier).GetBuffer().String(), "\n\t", "\n")
		}
		other := build.Pod("other").UID("other").Obj()
		other.Spec.SchedulerName = "another"
		same := func() ([]*v1.Node, []*v1.Pod, error) { return nodes, []*v1.Pod{known, waits, promised, other}, nil }
		if err := x.Compare(ctx, same); err != nil || strings.Contains(text(), "mismatch") {
			t.Errorf("the same: got %v and %q, want nothing", err, text())
		}
		differs := func() ([]*v1.Node, []*v1.Pod, error) {
			return nodesOf("4", "b", "c"), []*v1.Pod{known, promised, build.Pod("new").UID("new").Obj()}, nil
		}
		if err := x.Compare(ctx, differs); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`Cache mismatch missedNodes=["c"] redundantNodes=["a"]`,
			`Cache mismatch missedPods=["new"] redundantPods=["huge"]`,
		} {
			if !strings.Contains(text(), want) {
				t.Errorf("got %s\nwant %s", text(), want)
			}
		}
		gone := errors.New("gone")
		if err := x.Compare(ctx, func() ([]*v1.Node, []*v1.Pod, error) { return nil, nil, gone }); !errors.Is(err, gone) {
			t.Errorf("got %v, want %v", err, gone)
		}
		if err := x.Dump(ctx); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"Node name: a\nDeleted: false\nRequested Resources: &{MilliCPU:1000 ", "Scheduled Pods(number: 1):\nname: there, namespace: ",
			`summary="activeQ:0; backoffQ:0; unschedulablePods:1"`, "name: huge, namespace: ",
		} {
			if !strings.Contains(text(), want) {
				t.Errorf("got %s\nwant it to have %q", text(), want)
			}
		}
	})
}
