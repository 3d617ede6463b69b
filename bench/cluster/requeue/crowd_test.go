package requeue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/submit"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// waiting are the pods that fit nowhere, coming those that do.
	waiting, coming = 2000, 200
	// stuck is a pod whose binds are refused.
	stuck = noEntry + "/stuck"
)

// testCrowd has many pods wait that fit nowhere, of a higher priority, and others come that
// do fit.
func testCrowd(t *testing.T, s meteredRig) {
	s = s.in(t)
	s.prepare(there(small("a").CPU("50").Pods("1000").Obj()))
	before := s.count()
	crowd := make([]runtime.Object, waiting)
	for i := range crowd {
		crowd[i] = build.Pod(fmt.Sprintf("waits-%04d", i)).Priority(10).CPU("100").Obj()
	}
	s.CreateAll(crowd...)
	unschedulable := label("result", "unschedulable")
	s.until("all were tried once", func(now counts) bool {
		return now.sum(pending, label("queue", "unschedulable")) == waiting && now.since(before).sum(attempts, unschedulable) >= waiting
	})
	if got := s.count().since(before).sum(attempts, unschedulable); got != waiting {
		t.Errorf("attempts of %d pods that fit nowhere: got %v, want one each", waiting, got)
	}

	before = s.count()
	s.bindMore("comes", coming)
	// Their arrival helps none of those that wait.
	if d := s.count().since(before); d.sum(attempts, unschedulable) != 0 {
		t.Errorf("while %d pods came that fit: got %v attempts of those that do not, want none; counted since:\n%s", coming, d.sum(attempts, unschedulable), d)
	}
	if rig.Upstream() {
		return // what follows takes it minutes: it tries each of them before any other
	}
	// A pod that leaves may help any of them. None fits all the same; others are bound meanwhile.
	s.Delete("default/comes-0000")
	s.bindMore("more", coming/10)
	s.until("those that wait do so again", func(now counts) bool {
		return now.sum(pending, label("queue", "unschedulable")) == waiting && now.sum(pending, label("queue", "active")) == 0
	})
	if got := s.count().since(before).sum(attempts, unschedulable); got > waiting {
		t.Errorf("attempts of those that wait, after a pod has left: got %v, want no more than one each", got)
	}
}

// bindMore makes pods that fit and waits until they have a node.
func (s meteredRig) bindMore(name string, n int) {
	s.T.Helper()
	var pods []runtime.Object
	var keys []string
	for i := range n {
		p := build.Pod(fmt.Sprintf("%s-%04d", name, i)).CPU("10m").Obj()
		pods, keys = append(pods, p), append(keys, "default/"+p.Name)
	}
	s.CreateAll(pods...)
	s.Until("are bound", testbed.IsBound, keys...)
}

// testLeaderKilled kills the leader of a crowd that waits. The next one knows how often each
// was tried, and when a pod may be again.
func testLeaderKilled(t *testing.T, s meteredRig) {
	s = s.in(t)
	s.open(false)
	s.Create(build.Pod("stuck").Namespace(noEntry).CPU("10m").Obj())
	standby := s.Coordinator(testbed.Scheduler{Name: "standby", Args: []string{"-v=2"}})
	const one = "waits-0007"
	tries := s.settled()
	known := s.explain(s.Scheduler, "default", one)
	if known.Attempts < 1 {
		t.Fatalf("attempts of %s that the first leader knows of: got %d, want at least 1", one, known.Attempts)
	}
	s.Scheduler.Kill()
	s.bindMore("after", 20)

	next := s
	next.Rig = &rig.Rig{Cluster: s.Cluster, Scheduler: standby, Host: s.Host}
	// While it is being bound nothing is told of its attempts.
	next.Await(fmt.Sprintf("the next leader knows of no less than %d attempts of %s", tries.Attempts, stuck), func(context.Context) (string, bool) {
		got := next.explain(standby, noEntry, "stuck").Attempts
		return fmt.Sprint(got, " attempts"), got >= tries.Attempts
	})
	next.until("all wait again", func(now counts) bool { return now.sum(pending, label("queue", "unschedulable")) == waiting })
	// The room of a pod whose bind is refused is free again, which may help any of them.
	got := next.explain(standby, "default", one).Attempts
	now := next.count()
	each := 1 + now.sum(attempts, label("result", "error"))
	if got := now.sum(attempts, label("result", "unschedulable")); got > waiting*each {
		t.Errorf("attempts of %d pods that wait, by the next leader: got %v, want no more than %v", waiting, got, waiting*each)
	}
	most := known.Attempts + uint32(each)
	if got < known.Attempts || got > most {
		t.Errorf("attempts of %s that the next leader knows of: got %d, want %d to %d", one, got, known.Attempts, most)
	}
	next.open(true)
	next.Bound(stuck)
	next.wantBackoff(stuck, next.requests()["create binding "+stuck])
}

// settled waits until the pod that is stuck was tried more than once, the leader's journal says
// all that there is to say of it, and nothing new is to be expected for a second. It returns
// what that is.
func (s meteredRig) settled() (tries *pb.ExplainResponse) {
	s.T.Helper()
	s.Await("the journal is written", func(context.Context) (string, bool) {
		tries = s.explain(s.Scheduler, noEntry, "stuck")
		lag, until := s.count().sum("shardsched_journal_lag_entries"), tries.GetWaits().GetBackoffUntil()
		return fmt.Sprintf("%d attempts, a lag of %v, and backing off until %v", tries.Attempts, lag, until.AsTime()), tries.Attempts >= 2 && lag == 0 && until.IsValid() && time.Until(until.AsTime()) > time.Second
	})
	return tries
}

// explain asks a coordinator about a pod.
func (s meteredRig) explain(p *testbed.SchedulerProcess, namespace, name string) *pb.ExplainResponse {
	s.T.Helper()
	c := submit.New(p.Listen)
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.T.Context(), 30*time.Second)
	defer cancel()
	var resp *pb.ExplainResponse
	s.Must(c.Do(ctx, func(ctx context.Context, api pb.SchedulerServiceClient) (err error) {
		resp, err = api.Explain(ctx, &pb.ExplainRequest{Namespace: namespace, Name: name})
		return err
	}))
	return resp
}
