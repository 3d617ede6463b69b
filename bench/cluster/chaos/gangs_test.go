package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

var gangsFor = flag.Duration("gangs", 0, "how long gangs are created while things are taken apart; 0: as long as each takes once")

// gates are those of pod groups.
const gates = "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"

// gangLoad is gangs that come, and leave once they have started.
type gangLoad struct {
	s      *chaosCluster
	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	gangs  []*gang    // guarded by mu
}

// gang is one: its pods are name-0 and so on.
type gang struct {
	name        string
	pods, least int
	left        bool
}

func (g *gang) keys() (out []string) {
	for i := range g.pods {
		out = append(out, fmt.Sprintf("default/%s-%d", g.name, i))
	}
	return out
}

// create creates the next gang, of two to six pods, all of which must fit or all but one; every third in one zone.
func (l *gangLoad) create(ctx context.Context) {
	l.mu.Lock()
	n := len(l.gangs)
	g := &gang{name: fmt.Sprintf("gang%05d", n), pods: 2 + l.random.IntN(5)}
	g.least = max(g.pods-l.random.IntN(2), 2)
	cpu := fmt.Sprintf("%dm", 500+50*l.random.IntN(20))
	l.gangs = append(l.gangs, g)
	l.mu.Unlock()
	b := build.Gang(g.name, int32(g.least))
	if n%3 == 0 {
		b.Within(v1.LabelTopologyZone)
	}
	group := b.Obj()
	group.UID = ""
	l.insist(ctx, func() error { return l.s.Bed.Create(ctx, group) })
	for i := range g.pods {
		p := build.Pod(fmt.Sprintf("%s-%d", g.name, i)).UID("").Member(g.name).CPU(cpu).Obj()
		l.insist(ctx, func() error { return l.s.Bed.Create(ctx, p) })
	}
}

func (l *gangLoad) insist(ctx context.Context, ask func() error) {
	err := insist(ctx, func() error {
		if err := ask(); !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		l.s.T.Error(err)
	}
}

// leave has the oldest gang leave that has started.
func (l *gangLoad) leave(ctx context.Context) {
	l.mu.Lock()
	i := slices.IndexFunc(l.gangs, func(g *gang) bool { return !g.left && l.bound(g) == g.pods })
	if i < 0 {
		l.mu.Unlock()
		return
	}
	g := l.gangs[i]
	g.left = true
	l.mu.Unlock()
	for _, key := range g.keys() {
		_, name, _ := strings.Cut(key, "/")
		l.insist(ctx, func() error {
			return l.s.Admin.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		})
	}
}

// bound is how many pods of a gang have a node.
func (l *gangLoad) bound(g *gang) (n int) {
	for _, key := range g.keys() {
		if testbed.IsBound(l.s.Pods.Get(key)) {
			n++
		}
	}
	return n
}

// run has gangs come and leave until ctx ends.
func (l *gangLoad) run(ctx context.Context) {
	for ctx.Err() == nil {
		l.create(ctx)
		l.mu.Lock()
		many := len(l.gangs) > 60
		l.mu.Unlock()
		if many {
			l.leave(ctx)
		}
		pause(ctx, 300*time.Millisecond)
	}
}

func TestGangsStartWholeWhenEachPartIsKilled(t *testing.T) {
	t.Logf("seed %d", *seed)
	s := newChaosCluster(t, testbed.Config{
		Durable: true, OwnEtcd: true, CoordinatorTokens: tokens,
		APIServerArgs: []string{
			"--etcd-compaction-interval=0", "--audit-log-maxsize=100000", "--runtime-config=scheduling.k8s.io/v1alpha2=true", gates,
		},
	}, size{
		// Single pods come more slowly than they go: else they fill the cluster within minutes, and gangs have no room to start in.
		nodes: *nodes, pods: *pods, rate: *perSec / 2, trickle: 2, churn: *perSec / 12, change: 1, seed: *seed,
	})
	s.args = []string{gates}
	s.Controllers("kubelet")
	s.fill()
	for i := range coordinators {
		s.keepCoordinator(fmt.Sprintf("coordinator-%d", i))
	}
	for i := range workers {
		s.keepWorker(i)
	}
	s.leader(nil)
	gangs := &gangLoad{s: s, random: rand.New(rand.NewPCG(*seed, 2))}
	loading, stop := context.WithCancel(s.ctx)
	defer stop()
	var done sync.WaitGroup
	done.Go(func() { s.load.run(loading) })
	done.Go(func() { gangs.run(loading) })
	s.bindsGoOn(200)
	for begun := time.Now(); ; {
		for _, f := range plan(1, *only, rand.New(rand.NewPCG(*seed, 1))) {
			s.log("%s", f.what)
			f.do(s)
		}
		if time.Since(begun) > *gangsFor {
			break
		}
	}
	stop()
	done.Wait()
	s.settle()
	gangs.settle()
	s.judge()
	gangs.judge()
}

// settle waits until each gang has started, or does not start for want of room.
func (l *gangLoad) settle() {
	l.s.T.Helper()
	l.s.until("no gang is on nodes in part", func(context.Context) (bool, error) {
		for _, g := range l.gangs {
			if n := l.bound(g); !l.disturbed(g) && n > 0 && n < g.least {
				return false, fmt.Errorf("%d pods of %s are, which needs %d", n, g.name, g.least)
			}
			if n := l.bound(g); n == 0 && !l.disturbed(g) {
				for _, p := range g.keys() {
					if p := l.s.Pods.Get(p); testbed.ScheduledCondition(p) == nil {
						return false, fmt.Errorf("nobody has said why %s waits", p.Name)
					}
				}
			}
		}
		return true, nil
	})
}

// disturbed tells whether a gang has left, or lost a pod: with a node, or by ending.
func (l *gangLoad) disturbed(g *gang) bool {
	return g.left || slices.ContainsFunc(g.keys(), func(key string) bool {
		p := l.s.Pods.Get(key)
		return p == nil || p.DeletionTimestamp != nil || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
	})
}

// judge demands that each gang's pods are bound together: from the first to the last that it needs no longer than a takeover.
func (l *gangLoad) judge() {
	s := l.s
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	events, err := s.Audit(ctx)
	s.must(err)
	binds, longest, whole := bindsOf(events), time.Duration(0), 0
	for _, g := range l.gangs {
		var at []time.Time
		blur := time.Duration(0)
		for _, key := range g.keys() {
			when, logged := binds[key]
			if !logged {
				when, blur = boundSince(s.Pods.Get(key)), wholeSecond
			}
			if !when.IsZero() {
				at = append(at, when)
			}
		}
		slices.SortFunc(at, time.Time.Compare)
		switch {
		case len(at) == 0:
			continue
		case len(at) < g.least:
			if !l.disturbed(g) {
				s.T.Errorf("%s needs %d pods on nodes, and has %d", g.name, g.least, len(at))
			}
			continue
		}
		whole++
		from, to := at[0], at[g.least-1]
		limit := lease + blur + max(s.machine.Between(from, to).Allow(slack), takeoverSteps*s.errands.Slowest(from, to))
		longest = max(longest, to.Sub(from))
		if took := to.Sub(from); took > limit {
			s.T.Errorf("%s was on nodes in part for %v, want no more than a takeover takes: %v", g.name, took, limit)
		}
	}
	s.log("%d of %d gangs started, in %v at the most", whole, len(l.gangs), longest.Round(time.Millisecond))
	if whole < len(l.gangs)/4 {
		s.T.Errorf("%d of %d gangs started, want more", whole, len(l.gangs))
	}
}

// wholeSecond is how exact a condition's time is.
const wholeSecond = time.Second

// boundSince is when a pod was bound as its condition tells, which the API server writes with the bind; zero: it is not.
func boundSince(p *v1.Pod) time.Time {
	if !testbed.IsBound(p) {
		return time.Time{}
	}
	c := testbed.ScheduledCondition(p)
	if c == nil || c.Status != v1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// A bind that the API server had done when it was killed is in no audit log: what is logged is logged after the answer.
func TestABindThatNobodyLoggedIsSeenByItsPod(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	bound := build.Pod("p").Node("n").Obj()
	bound.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	waits := bound.DeepCopy()
	waits.Spec.NodeName, waits.Status.Conditions[0].Status = "", v1.ConditionFalse
	if got := boundSince(bound); !got.Equal(at) {
		t.Errorf("a bound pod: got %v, want %v", got, at)
	}
	for name, p := range map[string]*v1.Pod{"a pod that waits": waits, "a pod that is gone": nil} {
		if got := boundSince(p); !got.IsZero() {
			t.Errorf("%s: got %v, want none", name, got)
		}
	}
}

// bindsOf are the times at which pods were bound, but for binds that an API server had done, and not logged, when it was killed.
func bindsOf(events []auditv1.Event) map[string]time.Time {
	out := map[string]time.Time{}
	for _, e := range events {
		if e.ObjectRef != nil && e.ObjectRef.Subresource == "binding" && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusCreated {
			out[e.ObjectRef.Namespace+"/"+e.ObjectRef.Name] = e.RequestReceivedTimestamp.Time
		}
	}
	return out
}
