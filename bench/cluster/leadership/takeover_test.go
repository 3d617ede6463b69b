package leadership

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/shardsched/shardsched/bench/cluster/chaos"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

const (
	// duration is the Lease's, as the test bed configures it.
	duration = 4 * time.Second
	// slack is what a takeover may take beyond the lease on two busy cores.
	slack = 2 * time.Second
	// every is how often a pod comes that wants to be bound.
	every = 50 * time.Millisecond
)

// bound is what a takeover may take: what is left of a lease, and slack, on a machine of its own.
type bound struct{ lease, slack time.Duration }

// span is a time.
type span struct{ from, to time.Time }

// takeoverCluster is a cluster to which pods come all the time.
type takeoverCluster struct {
	*testbed.Cluster
	pods    atomic.Int64
	machine *chaos.Machine
	kills   []span
}

func newTakeoverCluster(t *testing.T) *takeoverCluster {
	s := &takeoverCluster{Cluster: testbed.New(t, testbed.Config{})}
	for i := range 20 {
		s.Create(build.Node(fmt.Sprintf("n%02d", i)).CPU("1000").Memory("1000Gi").Pods("1000").Obj())
	}
	s.pour()
	return s
}

// pour makes pods come from now on, and watches what the machine gives.
func (s *takeoverCluster) pour() {
	s.machine = chaos.NewMachine(func() (pids []int) {
		for _, p := range s.Processes() {
			pids = append(pids, p.PID())
		}
		return pids
	})
	s.Go(s.machine.Run)
	s.Go(func(ctx context.Context) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			n := s.pods.Load()
			if err := s.Bed.Create(ctx, build.Pod(fmt.Sprintf("p%05d", n)).CPU("10m").Obj()); err != nil && ctx.Err() == nil {
				s.T.Errorf("create pod %d: %v", n, err)
			}
			s.pods.Add(1)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// bindsNow waits until a pod is bound that is made after the call.
func (s *takeoverCluster) bindsNow() {
	s.T.Helper()
	s.Bound(fmt.Sprintf("default/p%05d", s.pods.Load()+1))
}

// wantWithin checks what a takeover took. Times by the wall are stretched by what the machine was kept from.
func (s *takeoverCluster) wantWithin(what string, took span, b bound) {
	s.T.Helper()
	had := s.machine.Between(took.from, took.to)
	if got, limit := took.to.Sub(took.from), b.lease+had.Allow(b.slack); got < 0 || got > limit {
		s.T.Errorf("%s: got a takeover of %v, want no more than %v: %v, and %v, stretched because %v", what, got, limit, b.lease, b.slack, had)
	}
}

// kill kills a scheduler, and remembers when.
func (s *takeoverCluster) kill(p *testbed.SchedulerProcess) {
	from := time.Now()
	p.Kill()
	s.kills = append(s.kills, span{from, time.Now()})
}

// cut tells whether a bind was under way when a scheduler was killed: the API server's answer had nobody to go to.
func (s *takeoverCluster) cut(e *auditv1.Event) bool {
	return slices.ContainsFunc(s.kills, func(k span) bool {
		return e.RequestReceivedTimestamp.Time.Before(k.to) && e.StageTimestamp.After(k.from)
	})
}

// agent of a bind: which scheduler it was.
func agent(e *auditv1.Event) string {
	if strings.HasPrefix(e.UserAgent, "shardsched/") {
		return "ours"
	}
	return "upstream"
}

// binds are those that the API server made, in the order in which they came in.
func (s *takeoverCluster) binds() []auditv1.Event {
	s.T.Helper()
	binds := slices.DeleteFunc(s.Audited(), func(e auditv1.Event) bool {
		return !testbed.IsScheduler(e.User.Username) || e.ObjectRef == nil || e.ObjectRef.Subresource != "binding"
	})
	slices.SortStableFunc(binds, func(a, b auditv1.Event) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time)
	})
	return binds
}

// wantPeriods checks who bound, one after the other, and returns when each began and ended. A bind may fail that was under way when its
// scheduler was killed, or, of upstream's, ended: the API server's answer has nobody to go to.
func (s *takeoverCluster) wantPeriods(want ...string) (first, last []time.Time) {
	s.T.Helper()
	const underWay = time.Second
	var got []string
	failed := map[int][]auditv1.Event{} // by the period
	for _, e := range s.binds() {
		if a := agent(&e); len(got) == 0 || got[len(got)-1] != a {
			got, first, last = append(got, a), append(first, e.RequestReceivedTimestamp.Time), append(last, time.Time{})
		}
		last[len(last)-1] = e.RequestReceivedTimestamp.Time
		if e.ResponseStatus.Code != 201 {
			failed[len(got)-1] = append(failed[len(got)-1], e)
		}
	}
	for period, binds := range failed {
		for _, e := range binds {
			if agent(&e) == "ours" && s.cut(&e) {
				continue
			}
			if agent(&e) == "ours" || period == len(got)-1 || last[period].Sub(e.RequestReceivedTimestamp.Time) > underWay {
				s.T.Errorf("bind by %s: %s", agent(&e), testbed.AuditLine(e))
			}
		}
	}
	if !slices.Equal(got, want) {
		s.T.Fatalf("bound by: got %q, want %q", got, want)
	}
	return first, last
}

func (s *takeoverCluster) waitBound() {
	s.T.Helper()
	n := s.pods.Load()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("default/p%05d", i)
	}
	s.Until("are bound", testbed.IsBound, keys...)
}

func exitCode(s *takeoverCluster, p *testbed.SchedulerProcess) int {
	s.T.Helper()
	select {
	case <-p.Done():
	case <-time.After(testbed.Patience):
		s.T.Fatalf("%s does not end", p.Name)
	}
	if exit := (&exec.ExitError{}); errors.As(p.Err(), &exit) {
		return exit.ExitCode()
	}
	return 0
}

func TestTheLeadGoesFromOneSchedulerToAnother(t *testing.T) {
	s := newTakeoverCluster(t)
	upstream := s.Upstream(testbed.Scheduler{Name: "upstream-1"})
	s.bindsNow()
	ours := s.Coordinator(testbed.Scheduler{Name: "ours-1"})
	s.bindsNow()
	began := time.Now()
	phases := []string{"upstream"}
	var bounds []bound // of each handover
	next := func(what string, end func(), limit bound) {
		t.Helper()
		end()
		began = time.Now()
		s.bindsNow()
		t.Logf("%s: the next pod was bound after %v", what, time.Since(began).Round(time.Millisecond))
		bounds = append(bounds, limit)
		phases = append(phases, map[string]string{"upstream": "ours", "ours": "upstream"}[phases[len(phases)-1]])
	}

	next("upstream is told to end, ours takes over", upstream.Terminate, bound{0, 2 * slack})
	upstream = s.Upstream(testbed.Scheduler{Name: "upstream-2"})
	next("ours is told to end, upstream takes over", ours.Terminate, bound{0, 2 * slack})
	if got := exitCode(s, ours); got != 0 {
		t.Errorf("exit code of ours that was told to end: got %d, want 0", got)
	}
	ours = s.Coordinator(testbed.Scheduler{Name: "ours-2"})
	next("upstream is killed, ours takes over", func() { s.kill(upstream) }, bound{duration, slack})
	upstream = s.Upstream(testbed.Scheduler{Name: "upstream-3"})
	next("ours is stopped, upstream takes over", ours.Pause, bound{duration, slack})
	ours.Resume()
	if got := exitCode(s, ours); got != 1 {
		t.Errorf("exit code of ours that was stopped: got %d, want 1", got)
	}
	s.bindsNow()
	s.waitBound()

	first, last := s.wantPeriods(phases...)
	for i, limit := range bounds {
		gap := span{last[i], first[i+1]}
		t.Logf("from the last bind of %s to the first of %s: %v", phases[i], phases[i+1], gap.to.Sub(gap.from).Round(time.Millisecond))
		s.wantWithin(fmt.Sprintf("handover %d", i+1), gap, limit)
	}
	s.wantNothingAfter(first[len(first)-1], "ours")
	s.wantAnnounced()
}

// wantNothingAfter checks that a scheduler wrote nothing since then, be it what it may.
func (s *takeoverCluster) wantNothingAfter(then time.Time, who string) {
	s.T.Helper()
	for _, e := range s.Audited() {
		write := slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb)
		review := e.ObjectRef != nil && strings.HasSuffix(e.ObjectRef.Resource, "reviews") // of who asks its endpoints
		if write && !review && testbed.IsScheduler(e.User.Username) && agent(&e) == who && e.RequestReceivedTimestamp.After(then) {
			s.T.Errorf("written by %s after it was deposed: %s", who, testbed.AuditLine(e))
		}
	}
}

// wantAnnounced waits until ours are announced as upstream's are: events come after the fact.
func (s *takeoverCluster) wantAnnounced() {
	s.T.Helper()
	by := map[bool]int{}
	err := wait.PollUntilContextCancel(s.Context(), 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := s.Admin.CoreV1().Events(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		clear(by)
		for _, e := range list.Items {
			if e.Reason == "LeaderElection" && e.InvolvedObject.Kind == "Lease" && strings.HasSuffix(e.Message, " became leader") && e.Type == v1.EventTypeNormal {
				by[strings.Contains(e.Message, "_shardsched-")]++
			}
		}
		return by[true] >= 2 && by[false] >= 3, nil
	})
	if err != nil || by[true] != 2 || by[false] != 3 {
		s.T.Errorf("events of new leaders: got %d of ours and %d of upstream's, %v, want 2 and 3", by[true], by[false], err)
	}
}
