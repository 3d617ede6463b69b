package leader

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/kube/leaseserver"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func onePods(prefix string, n int) []*v1.Pod {
	var out []*v1.Pod
	for i := range n {
		out = append(out, build.Pod(fmt.Sprintf("%s%04d", prefix, i)).CPU("1").Obj())
	}
	return out
}

func nodesOf(cpu string, names ...string) []*v1.Node {
	var out []*v1.Node
	for _, name := range names {
		out = append(out, build.Node(name).CPU(cpu).Memory("64Gi").Obj())
	}
	return out
}

// wantHolder checks who holds the Lease.
func (l *land) wantHolder(id string) {
	l.t.Helper()
	if got := l.lease.Holder(); !strings.HasPrefix(got, id+"_shardsched-") || !strings.HasSuffix(got, "-test") {
		l.t.Errorf("holder of the Lease: got %q, want %s_shardsched-…-test", got, id)
	}
}

func TestAProcessThatIsToldToEndHandsOver(t *testing.T) {
	l := newLand(t, nodesOf("1000", "n1", "n2")...)
	a := l.start("a")
	a.waitLeading()
	l.wantHolder("a")
	b := l.start("b")
	l.waitContenders(2)
	if b.fence.Leading() {
		t.Error("two lead")
	}
	l.create(onePods("first", 50)...)
	l.waitBound(50)

	release := l.hold()
	l.create(onePods("second", 50)...)
	<-l.waiting
	a.cancel()
	l.create(onePods("third", 50)...) // too late for a
	release()
	if err := a.waitEnd(); err != nil {
		t.Errorf("end of a: got %v, want nil", err)
	}
	if got, want := <-a.sink, "the fence says <nil>"; got != want {
		t.Errorf("a's sink when it is told to end: got %q, want %q", got, want)
	}
	if a.fence.Leading() {
		t.Error("a leads still")
	}
	asked := time.Now()
	b.waitLeading()
	if took := time.Since(asked); took > 10*time.Second {
		t.Errorf("takeover: got it after %v, want it at once", took)
	}
	l.wantHolder("b")
	l.waitBound(150)
	b.cancel()
	if err := b.waitEnd(); err != nil {
		t.Errorf("end of b: got %v, want nil", err)
	}
	if got := l.lease.Holder(); got != "" {
		t.Errorf("holder in the end: got %q, want none", got)
	}
	if l.rejected != 0 {
		t.Errorf("got %d binds of pods that are bound, want none", l.rejected)
	}
}

func TestAProcessThatIsDeposedInEtcdEnds(t *testing.T) {
	l := newLand(t, nodesOf("1000", "n1")...)
	a := l.start("a")
	a.waitLeading()
	b := l.start("b")
	l.waitContenders(2)
	release := l.hold()
	defer release()
	l.create(onePods("p", 20)...)
	<-l.waiting
	deposed := time.Now()
	l.depose()
	if err := a.waitEnd(); !errors.Is(err, ErrLeaseLost) || !errors.Is(err, lease.ErrDeposed) {
		t.Errorf("end of a: got %v, want %v", err, ErrLeaseLost)
	}
	if got := <-a.sink; !strings.Contains(got, "deposed") {
		t.Errorf("a's sink: got %q, want it deposed", got)
	}
	b.waitLeading()
	// a's Lease had fifteen seconds to run.
	if took := time.Since(deposed); took > 10*time.Second {
		t.Errorf("takeover: got it after %v, want it at once", took)
	}
	l.wantHolder("b")
}

// robbed is a land whose leader has ended, for a kube-scheduler has taken the Lease.
func robbed(t *testing.T) *land {
	l := newLand(t, nodesOf("1000", "n1")...)
	a := l.start("a")
	a.waitLeading()
	l.lease.Steal("upstream")
	if err := a.waitEnd(); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("end of a: got %v, want %v", err, ErrLeaseLost)
	}
	go func() { // however long the test takes
		for l.ctx.Err() == nil {
			l.lease.Renew("upstream")
			time.Sleep(time.Second)
		}
	}()
	return l
}

func TestAProcessWhoseLeaseIsTakenEnds(t *testing.T) {
	l := robbed(t)
	if got := l.lease.Holder(); got != "upstream" {
		t.Errorf("holder: got %q, want upstream", got)
	}

	b := l.start("b")
	l.waitContenders(1)
	b.standby(t)
	b.waitWords("kube-scheduler upstream holds kube-system/kube-scheduler; this coordinator stands by")
	l.depose() // while it waits for the Lease
	l.waitContenders(1)
	b.standby(t)
	l.lease.Steal("")
	b.waitLeading()
	l.wantHolder("b")
}

// A leader that takes the Lease over names who held it, also a kube-scheduler.
func TestALeaderNamesTheHolderBefore(t *testing.T) {
	l := robbed(t)
	b := l.start("b")
	b.waitWords("kube-scheduler upstream holds kube-system/kube-scheduler; this coordinator stands by")
	l.lease.Steal("")
	b.waitLeading()
	there := onePods("there", 1)
	there[0].Spec.NodeName = "n1"
	l.create(there...)
	b.waitBefore(there[0], "kube-scheduler upstream")
}

// waitBefore waits until the leader explains a pod that it has not placed, and names who led before.
func (p *process) waitBefore(pod *v1.Pod, want string) {
	p.land.t.Helper()
	for {
		out, err := p.api.Explain(p.land.ctx, &pb.ExplainRequest{Namespace: pod.Namespace, Name: pod.Name})
		if got := out.GetArrival().GetLeaderBefore(); got == want {
			return
		} else if p.land.ctx.Err() != nil || err == nil {
			p.land.t.Fatalf("before %s: got %q, %v, want %q", p.id, got, err, want)
		}
		time.Sleep(10 * time.Millisecond) // nobody tells when it may be asked
	}
}

// waitWords waits until a process that does not lead says why in these words.
func (p *process) waitWords(want string) {
	p.land.t.Helper()
	for {
		_, err := p.api.GetSummary(p.land.ctx, &pb.GetSummaryRequest{})
		if got := status.Convert(err).Message(); got == want {
			return
		} else if p.land.ctx.Err() != nil {
			p.land.t.Fatalf("process %s says %q, want %q", p.id, got, want)
		}
		time.Sleep(10 * time.Millisecond) // nobody tells when its words change
	}
}

// standby checks that a process is fine and does not lead.
func (p *process) standby(t *testing.T) {
	t.Helper()
	_, err := p.api.GetSummary(t.Context(), &pb.GetSummaryRequest{})
	if len(p.ended)+len(p.terms) > 0 || p.fence.Leading() || status.Code(err) != codes.FailedPrecondition {
		t.Errorf("process %s: ended %t, leads %t, summary %v; want it to stand by", p.id, len(p.ended) > 0, p.fence.Leading(), err)
	}
	if err := p.fence.Check(); !errors.Is(err, lease.ErrDeposed) {
		t.Errorf("fence of %s: got %v, want it closed", p.id, err)
	}
}

func TestALeaderTellsWhatItDoesAndSendsForObjectsElsewhere(t *testing.T) {
	l := newLand(t, nodesOf("10", "n1")...)
	a := l.start("a", func(c *Config) { c.Lease = nil })
	a.waitLeading()
	if l.lease.Lease() != nil {
		t.Errorf("without leader election: got Lease %v, want none", l.lease.Lease())
	}
	l.create(onePods("p", 3)...)
	l.waitBound(3)
	sum, err := a.api.GetSummary(t.Context(), &pb.GetSummaryRequest{})
	if err != nil || sum.GetSummary().GetNodes() != 1 {
		t.Errorf("summary: got %v, %v, want one node", sum, err)
	}
	_, err = a.api.ListObjects(t.Context(), &pb.ListObjectsRequest{Kind: "Pod"})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "use kubectl") {
		t.Errorf("list: got %v, want FAILED_PRECONDITION that names kubectl", err)
	}
}

func TestAStandbyWhoseCacheIsDelayedReadsNothing(t *testing.T) {
	l := newLand(t, nodesOf("10", "n1")...)
	delay := func(c *Config) { c.Mode = Kubernetes{Source: c.Mode.(Kubernetes).Source, DelayCacheUntilActive: true} }
	a := l.start("a", delay)
	a.waitLeading()
	b := l.start("b", delay)
	l.waitContenders(2)
	select {
	case <-b.source.started:
		t.Error("the standby's informers run")
	default:
	}
	a.cancel()
	b.waitLeading()
	<-b.source.started
}

// A leader that can do nothing would keep out those that can.
func TestAProcessThatCannotLeadKeepsNobodyOut(t *testing.T) {
	t.Run("it can't read the API server's objects", func(t *testing.T) {
		l := newLand(t, nodesOf("10", "n1")...)
		synced := make(chan struct{})
		a := l.start("a", func(c *Config) { c.Mode.(Kubernetes).Source.(*picturer).synced = synced })
		<-a.source.started
		b := l.start("b")
		b.waitLeading()
		l.waitContenders(1)
		close(synced)
		l.waitContenders(2)
		b.cancel()
		a.waitLeading()
	})
	t.Run("it can't reach the Lease", func(t *testing.T) {
		l := newLand(t, nodesOf("10", "n1")...)
		a := l.start("a", func(c *Config) {
			c.Lease.Client.(*leaseserver.Client).Down = true
			c.Lease.RenewDeadline, c.Lease.RetryPeriod = time.Second, 200*time.Millisecond
		})
		l.waitContenders(1)
		b := l.start("b")
		b.waitLeading()
		a.standby(t)
		a.way.Set(func(c *leaseserver.Client) { c.Down = false })
		l.waitContenders(2)
		b.cancel()
		a.waitLeading()
		l.wantHolder("a")
	})
}

// A process that is told to end before it can begin ends all the same, with nothing held.
func TestAProcessEndsWhereverItIs(t *testing.T) {
	for name, reach := range map[string]func(*land, *process){
		"while its caches fill":        func(l *land, p *process) { <-p.source.started },
		"while a leader's caches fill": func(l *land, p *process) { l.waitContenders(1) },
		"while another holds the Lease": func(l *land, p *process) {
			other := kube.HolderIdentity("other", "not-the-same")
			l.lease.Steal(other)
			l.waitContenders(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLand(t)
			first := l.start("first")
			first.waitLeading()
			first.cancel()
			if err := first.waitEnd(); err != nil {
				t.Fatal(err)
			}
			p := l.start("p", func(c *Config) {
				c.Mode.(Kubernetes).Source.(*picturer).synced = make(chan struct{})
				c.Mode = Kubernetes{Source: c.Mode.(Kubernetes).Source, DelayCacheUntilActive: name != "while its caches fill"}
			})
			reach(l, p)
			p.cancel()
			if err := p.waitEnd(); err != nil {
				t.Errorf("got %v, want nil", err)
			}
			l.waitContenders(0)
			if got := l.lease.Holder(); strings.HasPrefix(got, "p_") {
				t.Errorf("holder: got %q, want another or none", got)
			}
		})
	}
}

func TestTheWatchdogBarksWhenALeaderHangs(t *testing.T) {
	now := time.Unix(1000, 0)
	s := NewFence("kube-scheduler", func() time.Time { return now })
	dog := s.Watchdog()
	want := func(when, text string) {
		t.Helper()
		if err := dog.Check(nil); text == "" && err != nil || text != "" && (err == nil || err.Error() != text) {
			t.Errorf("%s: got %v, want %q", when, err, text)
		}
	}
	want("while it stands by", "")
	lost := &switchable{}
	s.open(lost)
	want("while it leads", "")
	lost.err = lease.ErrDeposed
	want("right after the loss", "")
	now = now.Add(watchdogTolerance)
	want("as long as it is tolerated", "")
	now = now.Add(time.Nanosecond)
	want("then", "failed election to renew leadership on lease kube-scheduler")
	s.close()
	want("when it stands by again", "")
}

func TestTheFenceTellsSinceWhenItLeads(t *testing.T) {
	now := time.Unix(1000, 0)
	f := NewFence("kube-scheduler", func() time.Time { return now })
	want := func(when string, since time.Time) {
		t.Helper()
		if now = now.Add(time.Second); !f.Since().Equal(since) {
			t.Errorf("%s: got %v, want %v", when, f.Since(), since)
		}
	}
	want("while it stands by", time.Time{})
	held, won := &switchable{}, now
	f.open(held)
	want("while it leads", won)
	held.err = lease.ErrDeposed
	want("when a lease is lost, before the term has ended", time.Time{})
	f.close()
	want("when it stands by again", time.Time{})
	won = now
	f.open(&switchable{})
	want("in the next term", won)
}

// switchable is a fence that the test opens and closes.
type switchable struct {
	firm
	err error
}

func (s *switchable) Check() error { return s.err }
