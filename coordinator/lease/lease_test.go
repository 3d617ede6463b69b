package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// patience bounds what a test waits for; nothing waits that long when all is well.
const patience = 3 * time.Minute

type etcd struct {
	*embedetcd.Server
	dir string
}

func startEtcd(t *testing.T, cfg embedetcd.Config) *etcd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg.Logger = zap.NewNop()
	s, err := embedetcd.Start(ctx, cfg)
	if err != nil {
		t.Fatalf("etcd: %v", err)
	}
	t.Cleanup(s.Close)
	return &etcd{Server: s, dir: cfg.DataDir}
}

func newEtcd(t *testing.T) *etcd {
	t.Helper()
	t.Parallel() // most of a test is waiting for a lease or for its etcd to start
	return startEtcd(t, embedetcd.Config{DataDir: t.TempDir()})
}

func (e *etcd) client(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := e.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func record(id string) *pb.LeaderRecord {
	return &pb.LeaderRecord{Id: id, Address: id + ".example:7000"}
}

func elector(t *testing.T, c *clientv3.Client, id string, ttl time.Duration, clk clock.Clock) *lease.Elector {
	t.Helper()
	e, err := lease.New(lease.Config{Client: c, Cluster: "test", Record: record(id), TTL: ttl, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// campaign starts a campaign and returns where its leadership comes.
func campaign(t *testing.T, e *lease.Elector) <-chan *lease.Leadership {
	t.Helper()
	won := make(chan *lease.Leadership, 1)
	go func() {
		l, err := e.Campaign(t.Context())
		if err != nil {
			if t.Context().Err() == nil {
				t.Errorf("campaign: %v", err)
			}
			close(won)
			return
		}
		won <- l
	}()
	return won
}

func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing within %v", what, patience)
		panic("unreachable")
	}
}

func lead(t *testing.T, e *lease.Elector) *lease.Leadership {
	t.Helper()
	l := await(t, "leadership", campaign(t, e))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.Resign(ctx) // etcd may be gone already
	})
	return l
}

// awaitContenders returns when n keys stand for election.
func awaitContenders(t *testing.T, c *clientv3.Client, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	prefix := lease.Prefix("test")
	watch := c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for range watch {
		resp, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		if resp.Count == n {
			return
		}
	}
	t.Fatalf("%d contenders never came", n)
}

func write(ctx context.Context, c *clientv3.Client, l *lease.Leadership) (bool, error) {
	resp, err := c.Txn(ctx).If(l.Compare()).Then(clientv3.OpPut("/written", "by the leader")).Commit()
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}

func TestOneOfTwoLeadsAndTheOtherFollowsWhenItResigns(t *testing.T) {
	e := newEtcd(t)
	c := e.client(t)
	first := lead(t, elector(t, c, "a", lease.DefaultTTL, nil))
	if err := first.Check(); err != nil {
		t.Fatalf("Check of a new leader: %v", err)
	}
	second := campaign(t, elector(t, e.client(t), "b", lease.DefaultTTL, nil))
	awaitContenders(t, c, 2)
	select {
	case <-second:
		t.Fatal("two lead")
	default:
	}
	if ok, err := write(t.Context(), c, first); !ok || err != nil {
		t.Fatalf("the leader's write: got %v, %v, want true", ok, err)
	}

	if err := first.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := await(t, "the second's turn", second)
	defer next.Resign(context.WithoutCancel(t.Context()))
	if got, want := next.Term(), first.Term(); got <= want {
		t.Errorf("term of the second leader: got %d, want more than %d", got, want)
	}
	if before, none := next.Before().GetId(), first.Before(); before != "a" || none != nil {
		t.Errorf("before the second leader came %q, before the first %v; want a, and nobody", before, none)
	}
	await(t, "Done of the first", first.Done())
	if err := first.Check(); !errors.Is(err, lease.ErrDeposed) {
		t.Errorf("Check after Resign: got %v, want ErrDeposed", err)
	}
	if ok, err := write(t.Context(), c, first); ok || err != nil {
		t.Errorf("write of the deposed: got %v, %v, want false", ok, err)
	}
	if ok, err := write(t.Context(), c, next); !ok || err != nil {
		t.Errorf("write of the new leader: got %v, %v, want true", ok, err)
	}
	if err := first.Resign(t.Context()); err != nil {
		t.Errorf("a second Resign: %v", err)
	}
}

func TestALeaderThatIsKilledIsFollowedWhenItsLeaseExpires(t *testing.T) {
	e := newEtcd(t)
	dying := e.client(t)
	const ttl = 5 * time.Second // long enough that neither loses its lease before, where the machine is busy
	first := lead(t, elector(t, dying, "a", ttl, nil))
	second := campaign(t, elector(t, e.client(t), "b", ttl, nil))
	awaitContenders(t, e.client(t), 2)
	dying.Close() // as a killed process: nothing renews, nobody says goodbye
	await(t, "Done of the killed one", first.Done())
	if err := first.Check(); !errors.Is(err, lease.ErrDeposed) {
		t.Errorf("Check of the killed one: got %v, want ErrDeposed", err)
	}
	next := await(t, "takeover", second)
	defer next.Resign(context.WithoutCancel(t.Context()))
	if err := next.Check(); err != nil {
		t.Errorf("Check of the next: %v", err)
	}
}

// expire lets etcd end every lease, as it does when they are not renewed.
func expire(t *testing.T, c *clientv3.Client) {
	t.Helper()
	leases, err := c.Leases(t.Context())
	if err != nil || len(leases.Leases) == 0 {
		t.Fatalf("leases: got %v, %v, want some", leases, err)
	}
	for _, l := range leases.Leases {
		if _, err := c.Revoke(t.Context(), l.ID); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALeaderWhoseLeaseIsRevokedLearnsIt(t *testing.T) {
	e := newEtcd(t)
	c := e.client(t)
	l := lead(t, elector(t, c, "a", lease.DefaultTTL, nil))
	expire(t, c)
	await(t, "Done", l.Done())
	if err := l.Check(); !errors.Is(err, lease.ErrDeposed) {
		t.Errorf("Check: got %v, want ErrDeposed", err)
	}
}

func TestALeaderThatWakesAfterItsDeadlineIsRefusedTwice(t *testing.T) {
	const ttl = time.Hour // etcd does not end it by itself while the test runs
	e := newEtcd(t)
	clk := clocktesting.NewFakeClock(time.Now())
	c := e.client(t)
	// A client that is cut off renews nothing, as in a process that is stopped.
	cut := e.client(t)
	paused := lead(t, elector(t, cut, "paused", ttl, clk))
	cut.Close()
	clk.SetTime(clk.Now().Add(ttl - time.Nanosecond))
	if err := paused.Check(); err != nil {
		t.Fatalf("Check right before the deadline: %v", err)
	}
	clk.Step(time.Nanosecond)
	if err := paused.Check(); !errors.Is(err, lease.ErrDeposed) {
		t.Errorf("Check at the deadline: got %v, want ErrDeposed", err)
	}
	await(t, "Done", paused.Done())

	expire(t, c)
	next := lead(t, elector(t, c, "next", lease.DefaultTTL, nil))
	if ok, err := write(t.Context(), c, paused); ok || err != nil {
		t.Errorf("write of the paused: got %v, %v, want false", ok, err)
	}
	if ok, err := write(t.Context(), c, next); !ok || err != nil {
		t.Errorf("write of the next: got %v, %v, want true", ok, err)
	}
	clk.SetTime(clk.Now().Add(-ttl))
	if err := paused.Check(); !errors.Is(err, lease.ErrDeposed) {
		t.Errorf("Check with a clock that was set back: got %v, want ErrDeposed for ever", err)
	}
}

// armed is a fake clock that tells of each timer that somebody waits for.
type armed struct {
	*clocktesting.FakeClock
	timers chan time.Duration
}

func (a armed) NewTimer(d time.Duration) clock.Timer {
	timer := a.FakeClock.NewTimer(d)
	a.timers <- d
	return timer
}

func TestRenewalMovesTheDeadline(t *testing.T) {
	const ttl = time.Hour // etcd does not end it by itself while the test runs
	clk := armed{clocktesting.NewFakeClock(time.Now()), make(chan time.Duration, 64)}
	l := lead(t, elector(t, newEtcd(t).client(t), "a", ttl, clk))
	for range 9 {
		for await(t, "the next renewal", clk.timers) != ttl/3 {
		}
		clk.Step(ttl / 3)
		if err := l.Check(); err != nil {
			t.Fatalf("Check of a leader that renews: %v", err)
		}
	}
}

func TestALeaderSurvivesARestartOfEtcdWithinItsTTL(t *testing.T) {
	dir := t.TempDir()
	e := startEtcd(t, embedetcd.Config{DataDir: dir, Listen: "127.0.0.1:0"})
	c := e.client(t)
	l := lead(t, elector(t, c, "a", lease.DefaultTTL, nil))
	e.Close()
	startEtcd(t, embedetcd.Config{DataDir: dir, Listen: e.Endpoint()})
	ok, err := write(t.Context(), c, l)
	for ; err != nil && t.Context().Err() == nil && l.Check() == nil; ok, err = write(t.Context(), c, l) {
		t.Logf("etcd is not back: %v", err)
	}
	if !ok || err != nil {
		t.Errorf("write after the restart: got %v, %v, want true", ok, err)
	}
	if err := l.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func TestALeaderWithoutEtcdStops(t *testing.T) {
	e := newEtcd(t)
	l := lead(t, elector(t, e.client(t), "a", 2*time.Second, nil))
	e.Close()
	await(t, "Done", l.Done())
}

func TestACampaignEndsWithItsContext(t *testing.T) {
	e := newEtcd(t)
	c := e.client(t)
	lead(t, elector(t, c, "a", lease.DefaultTTL, nil))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := elector(t, c, "b", lease.DefaultTTL, nil).Campaign(ctx)
		ended <- err
	}()
	awaitContenders(t, c, 2)
	cancel()
	if err := await(t, "end of the campaign", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	awaitContenders(t, c, 1)
}

func TestAContenderWhoseLeaseLapsedStartsAgain(t *testing.T) {
	e := newEtcd(t)
	c := e.client(t)
	first := lead(t, elector(t, c, "a", lease.DefaultTTL, nil))
	second := campaign(t, elector(t, c, "b", lease.DefaultTTL, nil))
	awaitContenders(t, c, 2)
	last, err := c.Get(t.Context(), lease.Prefix("test"), clientv3.WithLastCreate()...)
	if err != nil || len(last.Kvs) != 1 {
		t.Fatalf("the second's key: %v, %v", last, err)
	}
	if _, err := c.Revoke(t.Context(), clientv3.LeaseID(last.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	awaitContenders(t, c, 2)
	if err := first.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := await(t, "the second's turn", second)
	defer next.Resign(context.WithoutCancel(t.Context()))
	if err := next.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func TestObserveTellsEveryLeader(t *testing.T) {
	e := newEtcd(t)
	c := e.client(t)
	seen := make(chan *pb.LeaderRecord, 16)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- lease.Observe(ctx, c, "test", func(r *pb.LeaderRecord) { seen <- r }) }()
	expect := func(want *pb.LeaderRecord) {
		t.Helper()
		if got := await(t, "a leader", seen); !proto.Equal(got, want) {
			t.Fatalf("observed: got %v, want %v", got, want)
		}
	}
	expect(nil)
	first := lead(t, elector(t, c, "a", lease.DefaultTTL, nil))
	expect(record("a"))
	second := campaign(t, elector(t, c, "b", lease.DefaultTTL, nil))
	awaitContenders(t, c, 2)
	if err := first.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(record("b"))
	if err := await(t, "the second's turn", second).Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(nil)
	cancel()
	if err := await(t, "end of Observe", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	c := newEtcd(t).client(t)
	for name, cfg := range map[string]lease.Config{
		"no client":           {Cluster: "x"},
		"no cluster":          {Client: c},
		"a slash":             {Client: c, Cluster: "a/b"},
		"a TTL too short":     {Client: c, Cluster: "x", TTL: time.Second},
		"a TTL with fraction": {Client: c, Cluster: "x", TTL: 2500 * time.Millisecond},
	} {
		if _, err := lease.New(cfg); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
