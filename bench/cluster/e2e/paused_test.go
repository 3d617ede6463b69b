package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/shardsched/shardsched/bench/judge/audit"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A leader is stopped while it binds, and goes on when another leads. It must not write
// under its old term again, and is a good contender afterwards. A worker that is stopped
// holds nobody up.
func TestPausedLeaderWritesNothingWhenItWakes(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := newRig(t)
	workers := r.start(2, 3)
	old, oldTerm := r.leader(0)
	r.applyNodes(nodes(300))
	const all, first = 3000, 2000
	list := pods("pod", all, rand.New(rand.NewPCG(*seed, 1)))
	l := r.arrive(list[:first], 400)

	l.until(600)
	l.bindsGoOn(1)
	old.Pause()
	r.log("%s, which leads in term %d, is paused", old.Name, oldTerm)
	next, nextTerm := r.leader(oldTerm)
	r.log("%s leads in term %d", next.Name, nextTerm)
	l.bindsGoOn(300)

	old.Resume()
	r.log("%s goes on", old.Name)
	line, err := old.LineWith(r.ctx, "Leader lease ended", fmt.Sprintf("term=%d", oldTerm))
	if err != nil {
		t.Fatal(err)
	}
	r.log("%s: %s", old.Name, line)
	r.untilContends(old, nextTerm)

	// However long that took, pods come while the worker is stopped.
	l.until(first)
	l = r.arrive(list[first:], 400)
	workers[0].Pause()
	r.log("%s is paused", workers[0].Name)
	l.bindsGoOn(300)
	workers[0].Resume()
	r.log("%s goes on", workers[0].Name)

	r.refusesClients(old, next)
	l.until(all)
	r.settle()

	r.log("kill -9 %s", next.Name)
	next.Kill()
	again, lastTerm := r.leader(nextTerm)
	if again != old {
		t.Errorf("%s leads in term %d, want %s", again.Name, lastTerm, old.Name)
	}
	l = r.arrive(pods("late", 200, rand.New(rand.NewPCG(*seed, 2))), 400)
	l.until(all + 200)
	r.settle()

	reigns := r.judge()
	if i := slices.IndexFunc(reigns, func(g *audit.Reign) bool { return g.Term == oldTerm }); i < 0 || reigns[i].Ended == 0 || reigns[i].Writes == 0 {
		t.Errorf("reigns: got %+v, want one of term %d that wrote and ended", reigns, oldTerm)
	}
}

// untilContends waits until a coordinator stands for election anew.
func (r *rig) untilContends(m *member, after int64) {
	r.t.Helper()
	r.until(m.Name+" contends again", func() (bool, error) {
		records, terms, err := r.contenders()
		for i, record := range records {
			if record.GetAddress() == m.address && terms[i] > after {
				return true, nil
			}
		}
		return false, err
	})
}

// refusesClients demands that a follower names the leader.
func (r *rig) refusesClients(follower, leader *member) {
	r.t.Helper()
	conn, err := grpc.NewClient(follower.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	r.until(follower.Name+" sends clients to "+leader.Name, func() (bool, error) {
		ctx, cancel := context.WithTimeout(r.ctx, 5*time.Second)
		defer cancel()
		_, err := pb.NewSchedulerServiceClient(conn).GetSummary(ctx, &pb.GetSummaryRequest{})
		if err == nil {
			r.t.Fatalf("%s answers, though %s leads", follower.Name, leader.Name)
		}
		s := status.Convert(err)
		for _, d := range s.Details() {
			if n, ok := d.(*pb.NotLeader); ok && s.Code() == codes.FailedPrecondition {
				return n.GetLeader().GetAddress() == leader.address, err
			}
		}
		return false, err
	})
}
