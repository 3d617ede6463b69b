package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/judge/oracle/conformance"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// While pods arrive, pods and nodes are deleted and changed and a worker is killed. Every decision
// is then held against upstream's plugins, on the state that it was made on.
func TestDecisionsAreUpstreamsWhileEverythingChanges(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := newRig(t)
	r.build()
	file := filepath.Join(r.dir, "flight.record")
	r.flags = []string{"--record", file}
	leader := r.startCoordinator("coordinator-0")
	r.flags = nil
	workers := []string{"worker-0", "worker-1"}
	killable := r.startWorker(workers[0])
	r.startWorker(workers[1])
	r.untilWorkers(2)

	const size, all = 40, 900
	random := rand.New(rand.NewPCG(*seed, 7))
	r.applyNodes(nodes(size))
	list := pods("pod", all, random)
	l := r.arrive(list, 150)
	for step := 1; step <= 8; step++ {
		l.until(all * step / 10)
		switch step {
		case 3:
			killable.Kill()
		case 6:
			r.startWorker(workers[0])
		}
		// Some nodes change, some go, and come back with the next step.
		changed := nodes(size)
		for _, n := range changed {
			n.Labels["step"] = fmt.Sprint(step % 3)
			n.Spec.Unschedulable = random.IntN(10) == 0
		}
		r.remove("Node", "", changed[step].Name)
		r.applyNodes(slices.Delete(changed, step, step+1))
		var gone []string
		for range 12 {
			gone = append(gone, list[random.IntN(all*step/10)].Name)
		}
		slices.Sort(gone)
		r.remove("Pod", list[0].Namespace, slices.Compact(gone)...)
	}
	l.until(all)
	r.until("the scheduler is idle", r.idle)
	leader.Terminate()
	<-leader.Done()

	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ctx := klog.NewContext(r.ctx, klog.Logger{})
	result, err := (&conformance.Flight{Record: in, Every: 20}).Replay(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range result.Differences {
		t.Errorf("%v", d)
	}
	if result.Ended != "" {
		t.Errorf("the record ends before its time: %s", result.Ended)
	}
	if result.Decisions < all/2 || result.Changes < 2*all/3 {
		t.Errorf("got %v, want decisions and changes of most of %d pods", result, all)
	}
	r.log("%v", result)
}

// remove deletes objects of one kind.
func (r *rig) remove(kind, namespace string, names ...string) {
	r.t.Helper()
	req := &pb.DeleteRequest{}
	for _, name := range names {
		req.Refs = append(req.Refs, &pb.ObjectRef{Kind: kind, Namespace: namespace, Name: name})
	}
	if err := r.client.Do(r.ctx, func(ctx context.Context, s pb.SchedulerServiceClient) error {
		_, err := s.Delete(ctx, req)
		return err
	}); err != nil {
		r.t.Fatal(err)
	}
}
