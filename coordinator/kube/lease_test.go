package kube_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/kube/leaseserver"
	"github.com/shardsched/shardsched/coordinator/lease"
)

// hold acquires a Lease that is free.
func hold(t *testing.T, cfg kube.LeaseConfig) *kube.Lease {
	t.Helper()
	begun := time.Now()
	a := <-acquire(quiet(t), cfg)
	if a.err != nil {
		t.Fatalf("acquire as %s: %v", cfg.Identity, a.err)
	}
	if a.at != begun {
		t.Errorf("acquire as %s: got it after %v, want at once", cfg.Identity, a.at.Sub(begun))
	}
	if err := a.lease.Check(); err != nil {
		t.Errorf("check of a Lease that was just acquired: %v", err)
	}
	return a.lease
}

// elapse lets the bubble's clock go on; nothing is waited for.
func elapse(d time.Duration) { <-time.After(d) }

func isDone(l *kube.Lease) bool {
	synctest.Wait()
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// wantLost checks that a Lease is lost by now.
func wantLost(t *testing.T, when string, l *kube.Lease) {
	t.Helper()
	if err := l.Check(); !errors.Is(err, lease.ErrDeposed) || !isDone(l) {
		t.Errorf("%s: got %v, done %t, want it deposed and done", when, err, isDone(l))
	}
}

func wantHeld(t *testing.T, when string, l *kube.Lease) {
	t.Helper()
	if err := l.Check(); err != nil || isDone(l) {
		t.Errorf("%s: got %v, done %t, want it held", when, err, isDone(l))
	}
}

// wantAfter checks how long something took.
func wantAfter(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: got it after %v, want %v to %v", what, got, least, most)
	}
}

func TestALeaseIsHeldAsLongAsItIsRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseserver.Server) {
		l := hold(t, config(s.Client("me")))
		elapse(10 * leaseDuration)
		wantHeld(t, "after ten durations", l)
		if got := *s.Lease().Spec.LeaseDurationSeconds; got != 15 {
			t.Errorf("duration in the Lease: got %d s, want 15", got)
		}
		if err := l.Release(quiet(t)); err != nil {
			t.Fatal(err)
		}
		wantLost(t, "after the release", l)
		if got := s.Holder(); got != "" {
			t.Errorf("holder after the release: got %q, want none", got)
		}
	})
}

func TestAnUpstreamHolderIsWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		end         func(u *upstream)
		noWatch     bool
		least, most time.Duration
	}{
		"that ends in good order":      {end: (*upstream).end},
		"that goes silent":             {end: (*upstream).die, least: leaseDuration - retryPeriod, most: leaseDuration},
		"where watches are refused":    {end: (*upstream).end, noWatch: true, most: retryPeriod},
		"that is silent and unwatched": {end: (*upstream).die, noWatch: true, least: leaseDuration - retryPeriod, most: leaseDuration + retryPeriod},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *leaseserver.Server) {
				u := run(t, s.Client("upstream"))
				<-u.leading
				c := s.Client("me")
				c.NoWatch = tc.noWatch
				got := acquire(quiet(t), config(c))
				elapse(3*leaseDuration + retryPeriod/4) // between two renewals
				if len(got) > 0 {
					t.Fatalf("got the Lease of a living holder: %v", <-got)
				}
				ended := time.Now()
				tc.end(u)
				a := <-got
				wantAfter(t, "the Lease", a.at.Sub(ended), tc.least, tc.most)
				<-u.ended
				if err := a.lease.Release(quiet(t)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestALeaseThatIsReleasedIsFreeForUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseserver.Server) {
		l := hold(t, config(s.Client("me")))
		u := run(t, s.Client("upstream"))
		elapse(leaseDuration)
		if u.isLeading() {
			t.Fatal("upstream leads beside")
		}
		released := time.Now()
		if err := l.Release(quiet(t)); err != nil {
			t.Fatal(err)
		}
		wantAfter(t, "upstream's Lease", (<-u.leading).Sub(released), 0, 3*retryPeriod)
		u.end()
	})
}

func TestALeaseOfTheOwnGroupIsTakenAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseserver.Server) {
		first := s.Client(kube.HolderIdentity("host_1", "g"))
		old := hold(t, config(first))
		first.Set(func(c *leaseserver.Client) { c.Hangs = true }) // it is stopped

		deposed := false // in etcd
		cfg := config(s.Client(kube.HolderIdentity("host_2", "g")))
		cfg.Ours = func(holder string) bool { return kube.IsOfGroup(holder, "g") && deposed }
		ctx, cancel := context.WithCancel(quiet(t))
		waits := acquire(ctx, cfg)
		elapse(leaseDuration / 3)
		if len(waits) > 0 {
			t.Fatal("got the Lease of one that may still lead")
		}
		cancel()
		if a := <-waits; !errors.Is(a.err, context.Canceled) {
			t.Errorf("acquire that was given up: got %v", a.err)
		}
		deposed = true
		l := hold(t, cfg)
		first.Set(func(c *leaseserver.Client) { c.Hangs = false }) // it goes on
		elapse(renewDeadline)
		wantLost(t, "the old holder", old)
		wantHeld(t, "the new one", l)
		for _, release := range []func(){old.Abandon, func() { _ = old.Release(quiet(t)) }} {
			release()
			if got := s.Holder(); got != cfg.Identity {
				t.Errorf("holder after the old one let go: got %q, want %q", got, cfg.Identity)
			}
		}
		l.Abandon()
		if got := s.Holder(); got != cfg.Identity {
			t.Errorf("holder after the new one abandoned it: got %q, want %q", got, cfg.Identity)
		}
	})
}

// The holder says in the Lease how clients reach it. A kube-scheduler that takes the Lease keeps the annotation, which is not about it.
func TestALeaseTellsClientsOfItsHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseserver.Server) {
		cfg := config(s.Client(kube.HolderIdentity("host_1", "g")))
		cfg.Clients = kube.ClientAccess{Address: "127.0.0.1:7450", Pod: "kube-system/a"}
		l := hold(t, cfg)
		elapse(2 * retryPeriod) // it is renewed
		holder, access, err := kube.Holder(s.Lease())
		if err != nil || holder != cfg.Identity || access != cfg.Clients {
			t.Errorf("got %q, %v, %v, want %q and %v", holder, access, err, cfg.Identity, cfg.Clients)
		}
		if err := l.Release(quiet(t)); err != nil {
			t.Fatal(err)
		}
		if holder, _, err := kube.Holder(s.Lease()); holder != "" || err != nil || len(s.Lease().Annotations) > 0 {
			t.Errorf("released: got holder %q, %v, annotations %v, want none", holder, err, s.Lease().Annotations)
		}
		hold(t, cfg)
		for _, x := range []struct{ thief, want string }{
			{"vm_5f68", "kube-scheduler vm_5f68 holds "},
			{kube.HolderIdentity("other", "h"), "and does not say there how clients reach it"},
		} {
			s.Steal(x.thief)
			if holder, _, err := kube.Holder(s.Lease()); holder != x.thief || err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("taken by %s: got %q, %v, want %q", x.thief, holder, err, x.want)
			}
		}
	})
}

func TestAGroupIsTheWholeEnd(t *testing.T) {
	for _, tc := range []struct {
		holder, group string
		want          bool
	}{
		{kube.HolderIdentity("host_5e1f", "1f-ab-default"), "1f-ab-default", true},
		{kube.HolderIdentity("host_5e1f", "1f-ab-b-default"), "1f-ab-default", false},
		{kube.HolderIdentity("host_5e1f", "1f-ab-x_shardsched-1f-ab-default"), "1f-ab-default", false},
		{"host_5e1f", "", false},
		{"", "1f-ab-default", false},
	} {
		if got := kube.IsOfGroup(tc.holder, tc.group); got != tc.want {
			t.Errorf("%q is of group %q: got %t, want %t", tc.holder, tc.group, got, tc.want)
		}
	}
}

func TestALeaseIsLost(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(s *leaseserver.Server, c *leaseserver.Client)
		// within is how long the holder may go on.
		within time.Duration
	}{
		"when another took it":     {func(s *leaseserver.Server, _ *leaseserver.Client) { s.Steal("thief") }, 0},
		"when somebody emptied it": {func(s *leaseserver.Server, _ *leaseserver.Client) { s.Steal("") }, 0},
		"when somebody deleted it": {func(s *leaseserver.Server, _ *leaseserver.Client) { s.Remove() }, 0},
		"when the API server is away": {func(_ *leaseserver.Server, c *leaseserver.Client) {
			c.Set(func(c *leaseserver.Client) { c.Down = true })
		}, renewDeadline + retryPeriod},
		"when the API server hangs": {func(_ *leaseserver.Server, c *leaseserver.Client) {
			c.Set(func(c *leaseserver.Client) { c.Hangs = true })
		}, renewDeadline + retryPeriod},
		"when no watch tells of a thief": {func(s *leaseserver.Server, c *leaseserver.Client) {
			c.Set(func(c *leaseserver.Client) { c.Lossy = true })
			s.Steal("thief")
		}, retryPeriod},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *leaseserver.Server) {
				c := s.Client("me")
				if tc.within == retryPeriod {
					c.NoWatch = true
				}
				l := hold(t, config(c))
				elapse(leaseDuration + retryPeriod/4)
				tc.happens(s, c)
				begun := time.Now()
				writes := len(s.Log())
				<-l.Done()
				wantAfter(t, "the loss", time.Since(begun), 0, tc.within)
				wantLost(t, "then", l)
				c.Set(func(c *leaseserver.Client) { c.Down, c.Hangs, c.Lossy = false, false, false })
				elapse(leaseDuration)
				if err := l.Release(quiet(t)); err != nil {
					t.Error(err)
				}
				if got := s.Log(); len(got) != writes {
					t.Errorf("written after the loss: got %q, want nothing", got[writes:])
				}
			})
		})
	}
}

// An answer that is long in coming counts from when its request was sent.
func TestTheDeadlineCountsFromWhenTheWriteWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseserver.Server) {
		const slow = 4 * time.Second
		c := s.Client("me")
		c.Slow = slow
		cfg := config(c)
		clock := clocktesting.NewFakeClock(time.Now())
		cfg.Clock = clock
		got := acquire(quiet(t), cfg)
		for len(s.Log()) == 0 {
			elapse(time.Second)
		}
		clock.Step(leaseDuration) // before the answer is here
		if a := <-got; a.err == nil {
			wantLost(t, "when the answer comes too late", a.lease)
			a.lease.Abandon()
		} else if !errors.Is(a.err, kube.ErrOutOfReach) {
			t.Errorf("when the answer comes too late: got %v, want %v or a Lease that is lost", a.err, kube.ErrOutOfReach)
		}
	})
}

// A process that was stopped finds that its Lease has run out the first time it asks, and its
// elector does not get it back.
func TestAHolderThatWasStoppedIsExpired(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseserver.Server) {
		c := s.Client("me")
		cfg := config(c)
		cfg.Duration = leaseDuration + 900*time.Millisecond // of which the Lease holds the seconds
		clock := clocktesting.NewFakeClock(time.Now())
		cfg.Clock = clock
		l := hold(t, cfg)
		synctest.Wait() // it renews right away
		clock.Step(leaseDuration - time.Nanosecond)
		if err := l.Check(); err != nil {
			t.Errorf("right before the end: %v", err)
		}
		clock.Step(time.Nanosecond)
		writes := len(s.Log())
		wantLost(t, "at the end", l)
		elapse(leaseDuration)
		if got := s.Log(); len(got) != writes {
			t.Errorf("written after the end: got %q, want nothing", got[writes:])
		}
		wantLost(t, "ever after", l)
		l.Abandon()
	})
}

// recorder is client-go's.
type recorder struct{ events []string }

func (r *recorder) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	lease := obj.(*coordinationv1.Lease)
	r.events = append(r.events, fmt.Sprintf("%s %s/%s %s %s %s", lease.Kind, lease.Namespace, lease.Name, kind, reason, fmt.Sprintf(format, args...)))
}

func TestWhoLeadsIsAnnouncedAsUpstreamDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseserver.Server) {
		cfg := config(s.Client("me"))
		r := &recorder{}
		cfg.Recorder = r
		l := hold(t, cfg)
		if len(r.events) != 0 {
			t.Errorf("before it is announced: got %q, want nothing", r.events)
		}
		l.Announce("became leader")
		if want := []string{"Lease kube-system/kube-scheduler Normal LeaderElection me became leader"}; !slices.Equal(r.events, want) {
			t.Errorf("got %q, want %q", r.events, want)
		}
		l.Abandon()
	})
}

func TestAContenderThatGivesUpHoldsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseserver.Server) {
		for name, slow := range map[string]time.Duration{"while it waits for the answer": time.Second, "in the moment of success": 0} {
			c := s.Client(name)
			c.Slow = slow
			ctx, cancel := context.WithTimeout(quiet(t), 3*slow/2)
			a := <-acquire(ctx, config(c))
			cancel()
			if a.err == nil {
				t.Fatalf("%s: got a Lease, want an error", name)
			}
			if got := s.Holder(); got == name && slow == 0 {
				t.Errorf("%s: got holder %q, want none", name, got)
			}
			if s.Lease() != nil && s.Holder() != "" {
				s.Steal("")
			}
		}
	})
}

// A contender that is not answered must not wait for ever: it may hold something that others of its
// group wait for.
func TestAContenderThatIsNotAnsweredGivesUp(t *testing.T) {
	request := renewDeadline / 2
	for name, tc := range map[string]struct {
		way         func(*leaseserver.Client)
		least, most time.Duration
	}{
		"as nobody is there":        {func(c *leaseserver.Client) { c.Down = true }, renewDeadline, renewDeadline + retryPeriod},
		"as its requests hang":      {func(c *leaseserver.Client) { c.Hangs = true }, renewDeadline, renewDeadline + 2*request + retryPeriod},
		"as its writes do not work": {func(c *leaseserver.Client) { c.Slow = request + time.Second }, renewDeadline, renewDeadline + 2*request + retryPeriod},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *leaseserver.Server) {
				c := s.Client("me")
				tc.way(c)
				begun := time.Now()
				a := <-acquire(quiet(t), config(c))
				if !errors.Is(a.err, kube.ErrOutOfReach) {
					t.Errorf("got %v, want %v", a.err, kube.ErrOutOfReach)
				}
				wantAfter(t, "the end", a.at.Sub(begun), tc.least, tc.most)
			})
		})
	}
}

// Whatever happens to the ways to the API server: ours and upstream's never lead at one time.
func TestNeverTwoHolders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 7), 5, 25).Draw(rt, "steps")
		pauses := rapid.SliceOfN(rapid.IntRange(1, 25000), len(steps), len(steps)).Draw(rt, "pauses")
		inBubble(t, func(t *testing.T, s *leaseserver.Server) {
			for _, foul := range neverTwo(t, s, steps, pauses) {
				rt.Error(foul)
			}
		})
	})
}

// neverTwo lets coordinators and kube-schedulers compete through faults.
func neverTwo(t *testing.T, s *leaseserver.Server, steps, pauses []int) (foul []string) {
	ctx, cancel := context.WithCancel(quiet(t))
	var ours []*kube.Lease
	waiting := map[*leaseserver.Client]<-chan acquisition{}
	var ups []*upstream
	var clients []*leaseserver.Client
	check := func() {
		leaders := []string{}
		for _, u := range ups {
			if u.isLeading() {
				leaders = append(leaders, u.client.Who)
			}
		}
		for _, l := range ours {
			if l.Check() == nil {
				leaders = append(leaders, "ours")
			}
		}
		if len(leaders) > 1 {
			foul = append(foul, fmt.Sprintf("got %q leading at one time", leaders))
		}
	}
	wait := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			elapse(min(250*time.Millisecond, time.Until(end)))
			synctest.Wait()
			for c, got := range waiting {
				if len(got) > 0 {
					if a := <-got; a.err == nil {
						ours = append(ours, a.lease)
					}
					delete(waiting, c)
				}
			}
			check()
		}
	}
	for i, step := range steps {
		switch name := fmt.Sprintf("n%d", i); step {
		case 0:
			c := s.Client("upstream-" + name)
			clients, ups = append(clients, c), append(ups, run(t, c))
		case 1:
			c := s.Client("ours-" + name)
			clients = append(clients, c)
			waiting[c] = acquire(ctx, config(c))
		case 2, 3, 4:
			if len(clients) > 0 {
				clients[i%len(clients)].Set(func(c *leaseserver.Client) {
					// An upstream leader whose requests hang goes on while it tries to release its Lease,
					// longer than that lasts.
					hangs := step == 3 && strings.HasPrefix(c.Who, "ours")
					c.Down, c.Hangs, c.Lossy = step < 4 && !hangs, hangs, step == 4
				})
			}
		case 5:
			for _, c := range clients {
				c.Set(func(c *leaseserver.Client) { c.Down, c.Hangs, c.Lossy = false, false, false })
			}
		case 6:
			if len(ups) > 0 {
				ups[i%len(ups)].end()
			}
		case 7:
			if len(ours) > 0 {
				bye, end := context.WithTimeout(ctx, time.Second)
				_ = ours[i%len(ours)].Release(bye) // the way there may be broken
				end()
			}
		}
		wait(time.Duration(pauses[i]) * time.Millisecond)
	}
	cancel()
	for _, c := range clients {
		c.Set(func(c *leaseserver.Client) { c.Down, c.Hangs = true, false })
	}
	for _, l := range ours {
		l.Abandon()
	}
	for _, u := range ups {
		u.end()
	}
	for _, got := range waiting {
		if a := <-got; a.err == nil {
			a.lease.Abandon()
		}
	}
	return foul
}

// Who stands by says for whom: once per holder, for that is what an operator looks for.
func TestAContenderSaysWhoHoldsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseserver.Server) {
		u := run(t, s.Client("upstream"))
		<-u.leading
		var mu sync.Mutex
		var said []string
		ctx := klog.NewContext(t.Context(), funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(args, "Stands by") {
				said = append(said, args)
			}
		}, funcr.Options{}))
		ctx, cancel := context.WithTimeout(ctx, 2*leaseDuration)
		defer cancel()
		var holders []string
		cfg := config(s.Client("me"))
		cfg.StandsBy = func(_, holder string) {
			mu.Lock()
			defer mu.Unlock()
			holders = append(holders, holder)
		}
		if a := <-acquire(ctx, cfg); a.err == nil {
			t.Fatal("got the Lease of a living holder")
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(holders, []string{"upstream"}) {
			t.Errorf("told of the holders %q, want one", holders)
		}
		if len(said) != 1 || !strings.Contains(said[0], `"holder"="upstream"`) {
			t.Errorf("log: got %q, want one line that names the holder", said)
		}
		u.end()
	})
}
