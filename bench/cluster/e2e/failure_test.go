package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/judge/audit"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// While 5,000 pods arrive, each kind of process is killed in turn and comes back.
func TestNoPodIsLostOrBoundTwiceWhenProcessesAreKilled(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := newRig(t)
	workers := r.start(2, 3)
	leader, term := r.leader(0)
	r.applyNodes(nodes(300))
	const all = 5000
	l := r.arrive(pods("pod", all, rand.New(rand.NewPCG(*seed, 0))), 350)

	l.until(700)
	l.bindsGoOn(1)
	r.log("kill -9 %s", workers[0].Name)
	workers[0].Kill()
	l.bindsGoOn(100)

	l.until(1400)
	l.bindsGoOn(1)
	r.log("kill -9 %s, which leads in term %d", leader.Name, term)
	leader.Kill()
	second, term := r.leader(term)
	r.log("%s leads in term %d", second.Name, term)
	l.bindsGoOn(100)

	l.until(2200)
	r.startWorker(workers[0].Name)
	r.untilWorkers(3)
	r.log("%s is back", workers[0].Name)

	l.until(2600)
	l.bindsGoOn(1)
	r.etcd.kill()
	r.etcd.restart()
	l.bindsGoOn(100)

	l.until(3300)
	r.startCoordinator(leader.Name)
	r.log("%s is back", leader.Name)

	l.until(3900)
	l.bindsGoOn(1)
	leader, term = r.leader(0)
	r.etcd.kill()
	line, err := leader.LineWith(r.ctx, "Leader lease ended", fmt.Sprintf("term=%d", term))
	if err != nil {
		t.Fatal(err)
	}
	r.log("%s, without etcd: %s", leader.Name, line)
	r.etcd.restart()
	leader, term = r.leader(term)
	r.log("%s leads in term %d", leader.Name, term)
	l.bindsGoOn(100)

	l.until(all)
	r.settle()
	r.judge()
	r.log("%d attempts of clients had to be repeated", r.client.Retries())
}

// All is killed at one time, as by a power cut, and started again.
func TestNothingAcknowledgedIsLostWhenEverythingIsKilled(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := newRig(t)
	workers := r.start(2, 3)
	r.applyNodes(nodes(300))
	const all = 1500
	list := pods("pod", all, rand.New(rand.NewPCG(*seed, 3)))
	l := r.arrive(list, 500)

	l.until(600)
	l.bindsGoOn(1)
	r.until("the history is kept", func() (bool, error) {
		resp, err := r.etcd.client.Get(r.ctx, audit.Prefix(clusterName)+"history/0000")
		return err == nil && len(resp.Kvs) > 0, err
	})
	r.etcd.kill()
	for _, p := range r.group.Processes() {
		p.Kill()
	}
	r.etcd.restart()
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		r.startCoordinator(name)
	}
	for _, w := range workers {
		r.startWorker(w.Name)
	}
	r.log("all is back")
	l.until(all)
	// Of those before all may have been bound when everything was killed.
	const more = 300
	l = r.arrive(pods("more", more, rand.New(rand.NewPCG(*seed, 4))), 500)
	l.bindsGoOn(100)
	l.until(all + more)
	r.untilWorkers(len(workers))
	r.settle()
	r.judge()
	if n := r.explainedByEarlier(list[:100]); n == 0 {
		t.Error("of the first 100 pods the leader tells no decision of the one that was killed")
	} else {
		r.log("%d of the first 100 pods are explained with the scores of the leader that was killed", n)
	}
}

// explainedByEarlier counts the pods of which the leader tells by which scores an earlier one has decided.
func (r *rig) explainedByEarlier(list []*v1.Pod) (n int) {
	for _, p := range list {
		var out *pb.ExplainResponse
		err := r.client.Do(r.ctx, func(ctx context.Context, s pb.SchedulerServiceClient) (err error) {
			out, err = s.Explain(ctx, &pb.ExplainRequest{Namespace: p.Namespace, Name: p.Name, Top: 1})
			return err
		})
		if err != nil {
			r.t.Fatalf("explain %s: %v", p.Name, err)
		}
		for _, d := range out.GetHistory() {
			if d.GetDecidedBy() != "" && d.GetDecision().GetNode() != "" && len(d.GetTop()) > 0 {
				n++
				break
			}
		}
	}
	return n
}
