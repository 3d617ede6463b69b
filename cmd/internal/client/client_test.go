package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// coordinator is a scripted server.
type coordinator struct {
	pb.UnimplementedSchedulerServiceServer
	asked   int
	summary func(asked int) error
	list    func(*pb.ListObjectsRequest) *pb.ListObjectsResponse
	watch   func(*pb.WatchRequest, grpc.ServerStreamingServer[pb.WatchResponse]) error
}

func (c *coordinator) GetSummary(context.Context, *pb.GetSummaryRequest) (*pb.GetSummaryResponse, error) {
	c.asked++
	return &pb.GetSummaryResponse{}, c.summary(c.asked)
}

func (c *coordinator) ListObjects(_ context.Context, q *pb.ListObjectsRequest) (*pb.ListObjectsResponse, error) {
	return c.list(q), nil
}

func (c *coordinator) Watch(q *pb.WatchRequest, s grpc.ServerStreamingServer[pb.WatchResponse]) error {
	c.asked++
	return c.watch(q, s)
}

// cluster is coordinators by address, on a network in memory, with a clock of its own.
type cluster struct {
	listeners map[string]*bufconn.Listener
	now       time.Time
	slept     time.Duration
}

func newCluster(t *testing.T, all map[string]*coordinator) *cluster {
	c := &cluster{listeners: map[string]*bufconn.Listener{}, now: time.Unix(0, 0)}
	for address, one := range all {
		l := bufconn.Listen(1 << 16)
		s := grpc.NewServer()
		pb.RegisterSchedulerServiceServer(s, one)
		go s.Serve(l)
		t.Cleanup(s.Stop)
		c.listeners[address] = l
	}
	return c
}

func (c *cluster) client(t *testing.T, patience time.Duration, addresses ...string) *Client {
	cl, err := New(Config{
		Addresses: addresses, Patience: patience,
		Dial: func(address string) (*grpc.ClientConn, error) {
			return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
					if l := c.listeners[address]; l != nil {
						return l.DialContext(ctx)
					}
					return nil, errors.New("nobody is there")
				}))
		},
		Now: func() time.Time { return c.now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			c.now = c.now.Add(d)
			c.slept += d
			return ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func summary(c *Client, ctx context.Context) error {
	return c.Do(ctx, func(ctx context.Context, s pb.SchedulerServiceClient) error {
		_, err := s.GetSummary(ctx, &pb.GetSummaryRequest{})
		return err
	})
}

func notLeader(t *testing.T, leader string) error {
	n := &pb.NotLeader{}
	if leader != "" {
		n.Leader = &pb.LeaderRecord{Address: leader}
	}
	s, err := status.New(codes.FailedPrecondition, "not the leader").WithDetails(n)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

func fine(int) error { return nil }

func TestFollowsTheLeader(t *testing.T) {
	leader := &coordinator{summary: fine}
	follower := &coordinator{summary: func(int) error { return notLeader(t, "b") }}
	c := newCluster(t, map[string]*coordinator{"a": follower, "b": leader})
	cl := c.client(t, time.Second, "a")
	for range 2 {
		if err := summary(cl, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if follower.asked != 1 || leader.asked != 2 || c.slept != 0 {
		t.Errorf("got %d calls to the follower, %d to the leader, slept %s; want 1, 2, 0: the leader is remembered", follower.asked, leader.asked, c.slept)
	}
}

func TestWaitsForAnElection(t *testing.T) {
	a := &coordinator{summary: func(asked int) error {
		if asked < 4 {
			return notLeader(t, "")
		}
		return nil
	}}
	c := newCluster(t, map[string]*coordinator{"a": a})
	if err := summary(c.client(t, 10*time.Second, "a"), t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.slept != 3*pause {
		t.Errorf("slept %s, want %s", c.slept, 3*pause)
	}
}

func TestGoesOnToTheNextAddress(t *testing.T) {
	b := &coordinator{summary: fine}
	c := newCluster(t, map[string]*coordinator{"b": b})
	if err := summary(c.client(t, 10*time.Second, "gone", "b"), t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestLeavesOneThatTakesConnectionsOnly is about a paused process: the kernel goes on to take
// connections for it. It runs on real time, for the time is gRPC's.
func TestLeavesOneThatTakesConnectionsOnly(t *testing.T) {
	t.Parallel()
	paused, alive := listen(t), listen(t)
	s := grpc.NewServer()
	pb.RegisterSchedulerServiceServer(s, &coordinator{summary: fine})
	go s.Serve(alive)
	t.Cleanup(s.Stop)
	cl, err := New(Config{
		Addresses: []string{paused.Addr().String(), alive.Addr().String()}, Patience: 15 * time.Second,
		Dial: DialWith(insecure.NewCredentials()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if err := summary(cl, t.Context()); err != nil {
		t.Errorf("got %v, want the answer of the second address within the usual patience", err)
	}
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestPatienceEnds(t *testing.T) {
	// Two that name each other would be followed for ever.
	a := &coordinator{summary: func(int) error { return notLeader(t, "b") }}
	b := &coordinator{summary: func(int) error { return notLeader(t, "a") }}
	c := newCluster(t, map[string]*coordinator{"a": a, "b": b})
	err := summary(c.client(t, 2*time.Second, "a", "b"), t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "no coordinator leads at a, b for 2s: ") {
		t.Errorf("got %v, want that nobody leads", err)
	}
	if c.slept > 2*time.Second {
		t.Errorf("slept %s, want at most the patience", c.slept)
	}
}

// A leader that was killed is named until its lease has run out.
func TestALeaderThatDoesNotAnswerIsNamedAsSuch(t *testing.T) {
	a := &coordinator{summary: func(int) error { return notLeader(t, "killed:1") }}
	c := newCluster(t, map[string]*coordinator{"a": a})
	err := summary(c.client(t, 2*time.Second, "a"), t.Context())
	if want := " at killed:1 was the last to lead, and does not answer; another one leads once its lease has run out: "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
	if a.asked < 2 {
		t.Errorf("got %d calls to the follower, want more than one: it may know of another leader by now", a.asked)
	}
}

func TestOtherErrorsAreTheCallers(t *testing.T) {
	a := &coordinator{summary: func(int) error { return status.Error(codes.InvalidArgument, "no such field") }}
	c := newCluster(t, map[string]*coordinator{"a": a})
	err := summary(c.client(t, time.Second, "a"), t.Context())
	if err == nil || err.Error() != "no such field" || Code(err) != codes.InvalidArgument || a.asked != 1 {
		t.Errorf("got %v after %d calls, want the message alone after one", err, a.asked)
	}
}

// TestMayBeTaken tells refusals, and coordinators that nobody reached, from
// requests that went down with their coordinator.
func TestMayBeTaken(t *testing.T) {
	refusing := &coordinator{summary: func(int) error { return status.Error(codes.InvalidArgument, "no") }}
	dying := &coordinator{summary: func(int) error { return status.Error(codes.Unavailable, "going down") }}
	c := newCluster(t, map[string]*coordinator{"refusing": refusing, "dying": dying})
	for address, want := range map[string]bool{"refusing": false, "dying": true, "gone": false} {
		if err := summary(c.client(t, time.Second, address), t.Context()); MayBeTaken(err) != want {
			t.Errorf("%s: got may be taken %v of %v, want %v", address, !want, err, want)
		}
	}
	if err := summary(c.client(t, time.Second, "dying", "gone"), t.Context()); !MayBeTaken(err) {
		t.Errorf("got not taken of %v, want that the first try counts", err)
	}
}

func TestCancelIsTold(t *testing.T) {
	c := newCluster(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := summary(c.client(t, time.Hour, "gone"), ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
}

func pod(t *testing.T, name string) *pb.Object {
	raw, err := objects.Encode(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	return &pb.Object{Ref: &pb.ObjectRef{Kind: KindPod, Namespace: "default", Name: name}, Raw: raw}
}

func TestListReadsAllPages(t *testing.T) {
	a := &coordinator{list: func(q *pb.ListObjectsRequest) *pb.ListObjectsResponse {
		if q.GetContinueToken() == "" {
			return &pb.ListObjectsResponse{Objects: []*pb.Object{pod(t, "a")}, ContinueToken: "more", Revision: 7}
		}
		return &pb.ListObjectsResponse{Objects: []*pb.Object{pod(t, "b")}, Revision: 7}
	}}
	c := newCluster(t, map[string]*coordinator{"a": a})
	pods, err := c.client(t, time.Second, "a").Pods(t.Context(), "default")
	if err != nil || len(pods) != 2 || pods[1].Name != "b" {
		t.Errorf("got %v, %v; want a and b", pods, err)
	}
}

// TestWatchResumes breaks the stream after each change: the next begins where the
// last one ended, and nothing comes twice.
func TestWatchResumes(t *testing.T) {
	var from []uint64
	a := &coordinator{watch: func(q *pb.WatchRequest, s grpc.ServerStreamingServer[pb.WatchResponse]) error {
		from = append(from, q.GetAfterRevision())
		next := q.GetAfterRevision() + 1
		if next > 12 {
			return status.Error(codes.OutOfRange, "compacted")
		}
		err := s.Send(&pb.WatchResponse{Revision: next, Events: []*pb.WatchEvent{{
			Type: pb.WatchEventType_WATCH_EVENT_TYPE_ADDED, Object: pod(t, string(rune('a'+len(from)-1))),
		}}})
		if err != nil || next%2 == 0 {
			return err
		}
		return status.Error(codes.Unavailable, "going down")
	}}
	c := newCluster(t, map[string]*coordinator{"a": a})
	var names []string
	err := c.client(t, time.Second, "a").Watch(t.Context(), KindPod, "", 10, func(_ pb.WatchEventType, obj runtime.Object) error {
		names = append(names, obj.(*v1.Pod).Name)
		return nil
	})
	if Code(err) != codes.OutOfRange {
		t.Errorf("got %v, want out of range", err)
	}
	if want := []uint64{10, 11, 12}; !slices.Equal(from, want) {
		t.Errorf("got watches from %d, want %d", from, want)
	}
	if want := []string{"a", "b"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestWatchEndsWithItsReader(t *testing.T) {
	a := &coordinator{watch: func(_ *pb.WatchRequest, s grpc.ServerStreamingServer[pb.WatchResponse]) error {
		return s.Send(&pb.WatchResponse{Events: []*pb.WatchEvent{{Object: pod(t, "a")}}})
	}}
	c := newCluster(t, map[string]*coordinator{"a": a})
	broken := status.Error(codes.Unavailable, "broken pipe")
	err := c.client(t, time.Second, "a").Watch(t.Context(), KindPod, "", 0, func(pb.WatchEventType, runtime.Object) error { return broken })
	if !errors.Is(err, broken) || a.asked != 1 {
		t.Errorf("got %v after %d watches, want the reader's own error after one", err, a.asked)
	}
}

// realClient is a client on the real network with the clock of a cluster.
func realClient(t *testing.T, c *cluster, cfg Config) *Client {
	cfg.Dial = DialWith(insecure.NewCredentials())
	cfg.Now = func() time.Time { return c.now }
	cfg.Sleep = func(ctx context.Context, d time.Duration) error {
		c.now = c.now.Add(d)
		c.slept += d
		return ctx.Err()
	}
	cl, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// closed is an address of this machine at which nobody listens.
func closed(t *testing.T) string {
	l := listen(t)
	l.Close()
	return l.Addr().String()
}

// Where nobody listens on this machine, waiting for long helps nobody; but one address that answers is enough to go on.
func TestGivesUpSoonWhereNobodyListensHere(t *testing.T) {
	follower := listen(t)
	s := grpc.NewServer()
	pb.RegisterSchedulerServiceServer(s, &coordinator{summary: func(int) error { return notLeader(t, "") }})
	go s.Serve(follower)
	t.Cleanup(s.Stop)
	for name, x := range map[string]struct {
		addresses []string
		slept     time.Duration
		want      string
	}{
		"nobody at all":            {[]string{closed(t), closed(t)}, 2*time.Second - pause, "nobody listens at 127.0.0.1:"},
		"nobody at a socket":       {[]string{"unix:///nowhere/at.all"}, 2*time.Second - pause, "nobody listens at unix:///nowhere/at.all"},
		"a follower beside":        {[]string{closed(t), follower.Addr().String()}, 10*time.Second - pause, "no coordinator leads at"},
		"a name without a machine": {[]string{"nobody.invalid:7450"}, 2*time.Second - pause, "no address is known of nobody.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{now: time.Unix(0, 0)}
			err := summary(realClient(t, c, Config{Addresses: x.addresses, Patience: 10 * time.Second, Absence: 2 * time.Second}), t.Context())
			if err == nil || !strings.Contains(err.Error(), x.want) || c.slept != x.slept {
				t.Errorf("got %v after %s, want %q after %s", err, c.slept, x.want, x.slept)
			}
		})
	}
}

// Whoever listens and speaks something else is named at once.
func TestNamesWhoIsNoCoordinator(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	c := &cluster{now: time.Unix(0, 0)}
	address := plain.Listener.Addr().String()
	err := summary(realClient(t, c, Config{Addresses: []string{address}, Patience: time.Minute}), t.Context())
	want := address + " speaks HTTP and no gRPC: clients use the port of the coordinator's --listen, 7450 by default"
	if err == nil || err.Error() != want || c.slept != 0 {
		t.Errorf("got %v after %s, want %q at once", err, c.slept, want)
	}
	if got, want := foreign("host:7451", saysHTTP), "host:7451 speaks HTTP and no gRPC: 7451 is the metrics port; clients use 7450"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A kube-scheduler that leads is named at once: no coordinator will answer.
func TestDoesNotWaitForAKubeScheduler(t *testing.T) {
	a := &coordinator{summary: func(int) error {
		s, err := status.New(codes.FailedPrecondition, "kube-scheduler x holds a/b; this coordinator stands by").WithDetails(&pb.NotLeader{Holder: "x"})
		if err != nil {
			t.Error(err)
		}
		return s.Err()
	}}
	c := newCluster(t, map[string]*coordinator{"a": a})
	err := summary(c.client(t, time.Minute, "a"), t.Context())
	if err == nil || err.Error() != "kube-scheduler x holds a/b; this coordinator stands by" || c.slept != 0 {
		t.Errorf("got %v after %s, want who holds the Lease, at once", err, c.slept)
	}
}

// Who finds the leader by other means is asked again before each round, and what followers know is not looked at.
func TestAsksWhereTheLeaderIs(t *testing.T) {
	leader := &coordinator{summary: fine}
	follower := &coordinator{summary: func(int) error { return notLeader(t, "nowhere") }}
	c := newCluster(t, map[string]*coordinator{"follower": follower, "leader": leader})
	cl := c.client(t, time.Minute, "unused")
	answers := []string{"", "follower", "leader"}
	cl.current, cl.config.Addresses = "", nil
	cl.config.Find = func(context.Context) (string, error) {
		next := answers[0]
		answers = answers[1:]
		if next == "" {
			return "", errors.New("nobody holds it")
		}
		return next, nil
	}
	if err := summary(cl, t.Context()); err != nil || len(answers) > 0 || c.slept != 2*pause {
		t.Errorf("got %v after %s, %q not asked; want an answer after %s", err, c.slept, answers, 2*pause)
	}
	cl.current = ""
	cl.config.Find = func(context.Context) (string, error) { return "", &FinalError{errors.New("another leads")} }
	if err := summary(cl, t.Context()); err == nil || err.Error() != "another leads" || c.slept != 2*pause {
		t.Errorf("got %v after %s, want the finder's error at once", err, c.slept)
	}
	cl.config.Find = func(context.Context) (string, error) { return "", errors.New("nobody holds it") }
	if err := summary(cl, t.Context()); err == nil || c.slept != 2*pause+time.Minute-pause {
		t.Errorf("got %v after %s, want an error once patience is over", err, c.slept)
	}
}
