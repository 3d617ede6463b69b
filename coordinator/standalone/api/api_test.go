package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// patience bounds what a test waits for; nothing waits that long when all is well.
const patience = 3 * time.Minute

// rig is a server on a store on an etcd of its own, and a client of it.
type rig struct {
	pb.SchedulerServiceClient
	server *api.Server
	store  *store.Store
	etcd   *clientv3.Client
	fence  *fence
	sched  *scheduler
}

type fence struct {
	key     string
	term    int64
	expired atomic.Bool
}

func (f *fence) Check() error {
	if f.expired.Load() {
		return lease.ErrDeposed
	}
	return nil
}

func (f *fence) Compare() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(f.key), "=", f.term)
}

// scheduler answers what the test wants.
type scheduler struct{ err error }

func (s *scheduler) Explain(_ context.Context, req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	return &pb.ExplainResponse{Note: req.GetNamespace() + "/" + req.GetName()}, s.err
}

func (s *scheduler) Summary(context.Context) (*pb.Summary, error) {
	return &pb.Summary{Nodes: 3}, s.err
}

func (s *scheduler) Workers(context.Context) ([]*pb.WorkerStatus, error) {
	return []*pb.WorkerStatus{{Id: "w1"}}, s.err
}

func (s *scheduler) Shards(context.Context) ([]*pb.ShardStatus, error) {
	return []*pb.ShardStatus{{Shard: 0, Nodes: 3}}, s.err
}

func (s *scheduler) ExplainNode(_ context.Context, req *pb.ExplainNodeRequest) (*pb.ExplainNodeResponse, error) {
	return &pb.ExplainNodeResponse{Node: req.GetName()}, s.err
}

func (s *scheduler) Pending(_ context.Context, req *pb.ListPendingRequest) (*pb.ListPendingResponse, error) {
	return &pb.ListPendingResponse{Groups: []*pb.PendingGroup{{Namespace: req.GetNamespace()}}}, s.err
}

func (s *scheduler) PodGroups(_ context.Context, req *pb.ListPodGroupsRequest) (*pb.ListPodGroupsResponse, error) {
	return &pb.ListPodGroupsResponse{PodGroups: []*pb.PodGroupStatus{{Namespace: req.GetNamespace()}}}, s.err
}

func (s *scheduler) PodGroup(_ context.Context, req *pb.ExplainPodGroupRequest) (*pb.ExplainPodGroupResponse, error) {
	return &pb.ExplainPodGroupResponse{Status: &pb.PodGroupStatus{Name: req.GetName()}}, s.err
}

func (s *scheduler) Decisions(_ context.Context, req *pb.ListDecisionsRequest) (*pb.ListDecisionsResponse, error) {
	return &pb.ListDecisionsResponse{Newest: req.GetAfter()}, s.err
}

func (s *scheduler) Plugins(context.Context) (*pb.ListPluginsResponse, error) {
	return &pb.ListPluginsResponse{Uses: []*pb.PluginUse{{Plugin: "NodePorts"}}}, s.err
}

func (s *scheduler) Lacking(context.Context) ([]*pb.LackingPods, error) {
	return []*pb.LackingPods{{What: "a gang"}}, s.err
}

func (s *scheduler) Devices(_ context.Context, req *pb.ListDevicesRequest) (*pb.ListDevicesResponse, error) {
	return &pb.ListDevicesResponse{Devices: []*pb.DeviceStatus{{Node: req.GetNodeNames()[0]}}}, s.err
}

func (s *scheduler) NodeMap(_ context.Context, req *pb.GetNodeMapRequest) (*pb.GetNodeMapResponse, error) {
	return &pb.GetNodeMapResponse{Note: req.GetResource()}, s.err
}

func (s *scheduler) MapNodes(_ context.Context, req *pb.ListMapNodesRequest) (*pb.ListMapNodesResponse, error) {
	return &pb.ListMapNodesResponse{Names: []string{"n1"}}, s.err
}

func (s *scheduler) Fragmentation(context.Context) (*pb.GetFragmentationResponse, error) {
	return &pb.GetFragmentationResponse{Nodes: 3}, s.err
}

var self = &pb.LeaderRecord{Id: "me", Address: "me.example:7000"}

// follower starts a server that follows nobody.
func follower(t *testing.T) *rig {
	t.Helper()
	r := &rig{server: api.New(api.Config{Self: self, Configuration: &pb.GetConfigurationResponse{NoEffect: []string{"a field"}}}), sched: &scheduler{}}
	g := grpc.NewServer()
	r.server.Register(g)
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///test",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		if err := await(t, "end of the server", served); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	r.SchedulerServiceClient = pb.NewSchedulerServiceClient(conn)
	return r
}

// leader starts a server that leads.
func leader(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	r := follower(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	etcd, err := embedetcd.Start(ctx, embedetcd.Config{DataDir: t.TempDir(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	if r.etcd, err = etcd.Client(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.etcd.Close() })
	put, err := r.etcd.Put(ctx, "/leader", "me")
	if err != nil {
		t.Fatal(err)
	}
	r.fence = &fence{key: "/leader", term: put.Header.Revision}
	r.store = store.New(r.etcd, "test")
	r.server.SetLeading(r.store, r.fence, r.sched)
	return r
}

func await[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing within %v", what, patience)
		panic("unreachable")
	}
}

func pod(name string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c"}]}}`
}

func node(name string) string {
	return `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + name + `"},"status":{"capacity":{"cpu":"8"}}}`
}

func apply(raws ...string) *pb.ApplyRequest {
	req := &pb.ApplyRequest{}
	for _, raw := range raws {
		req.Objects = append(req.Objects, &pb.Object{Raw: []byte(raw)})
	}
	return req
}

func (r *rig) apply(t *testing.T, raws ...string) uint64 {
	t.Helper()
	resp, err := r.Apply(t.Context(), apply(raws...))
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return resp.GetRevision()
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: got %v (%v), want %v", what, got, err, want)
	}
}

// calls makes every call but GetLeader and returns their errors.
func (r *rig) calls(t *testing.T) map[string]error {
	t.Helper()
	ctx := t.Context()
	errs := map[string]error{}
	_, errs["Apply"] = r.Apply(ctx, apply(node("n1")))
	_, errs["Delete"] = r.Delete(ctx, &pb.DeleteRequest{})
	_, errs["ListObjects"] = r.ListObjects(ctx, &pb.ListObjectsRequest{Kind: "Pod"})
	_, errs["ListWorkers"] = r.ListWorkers(ctx, &pb.ListWorkersRequest{})
	_, errs["ListShards"] = r.ListShards(ctx, &pb.ListShardsRequest{})
	_, errs["ListPlugins"] = r.ListPlugins(ctx, &pb.ListPluginsRequest{})
	_, errs["GetConfiguration"] = r.GetConfiguration(ctx, &pb.GetConfigurationRequest{})
	_, errs["ListTraces"] = r.ListTraces(ctx, &pb.ListTracesRequest{})
	_, errs["ListPending"] = r.ListPending(ctx, &pb.ListPendingRequest{})
	_, errs["ListPodGroups"] = r.ListPodGroups(ctx, &pb.ListPodGroupsRequest{})
	_, errs["ExplainPodGroup"] = r.ExplainPodGroup(ctx, &pb.ExplainPodGroupRequest{Namespace: "default", Name: "g"})
	_, errs["ListDecisions"] = r.ListDecisions(ctx, &pb.ListDecisionsRequest{})
	_, errs["ListDevices"] = r.ListDevices(ctx, &pb.ListDevicesRequest{NodeNames: []string{"n1"}})
	_, errs["GetNodeMap"] = r.GetNodeMap(ctx, &pb.GetNodeMapRequest{Resource: "memory"})
	_, errs["ListMapNodes"] = r.ListMapNodes(ctx, &pb.ListMapNodesRequest{Fingerprint: 1})
	_, errs["GetFragmentation"] = r.GetFragmentation(ctx, &pb.GetFragmentationRequest{})
	_, errs["Explain"] = r.Explain(ctx, &pb.ExplainRequest{Namespace: "default", Name: "a"})
	_, errs["ExplainNode"] = r.ExplainNode(ctx, &pb.ExplainNodeRequest{Name: "n1"})
	_, errs["GetSummary"] = r.GetSummary(ctx, &pb.GetSummaryRequest{})
	watch, err := r.Watch(ctx, &pb.WatchRequest{Kind: "Pod", AfterRevision: 1})
	if err == nil {
		_, err = watch.Recv()
	}
	errs["Watch"] = err
	return errs
}

// wantNotLeader checks a refusal and the leader that it names.
func wantNotLeader(t *testing.T, what string, err error, leader *pb.LeaderRecord) {
	t.Helper()
	wantNotLeaderDetail(t, what, err, &pb.NotLeader{Leader: leader})
}

func wantNotLeaderDetail(t *testing.T, what string, err error, want *pb.NotLeader) {
	t.Helper()
	wantCode(t, what, err, codes.FailedPrecondition)
	details := status.Convert(err).Details()
	if len(details) != 1 {
		t.Errorf("%s: got details %v, want one", what, details)
		return
	}
	got, ok := details[0].(*pb.NotLeader)
	if !ok || !proto.Equal(got, want) {
		t.Errorf("%s: got detail %v, want %v", what, details[0], want)
	}
}

func TestAFollowerNamesTheLeader(t *testing.T) {
	r := follower(t)
	other := &pb.LeaderRecord{Id: "other", Address: "other.example:7000"}
	for _, leader := range []*pb.LeaderRecord{nil, other} {
		if leader != nil {
			r.server.SetFollowing(leader)
		}
		for what, err := range r.calls(t) {
			wantNotLeader(t, what, err, leader)
		}
		got, err := r.GetLeader(t.Context(), &pb.GetLeaderRequest{})
		if want := (&pb.GetLeaderResponse{Leader: leader}); err != nil || !proto.Equal(got, want) {
			t.Errorf("GetLeader: got %v, %v, want %v", got, err, want)
		}
	}
}

func TestALeaderWhoseLeaseRanOutRefuses(t *testing.T) {
	r := leader(t)
	got, err := r.GetLeader(t.Context(), &pb.GetLeaderRequest{})
	if want := (&pb.GetLeaderResponse{Leader: self, IsSelf: true}); err != nil || !proto.Equal(got, want) {
		t.Errorf("GetLeader: got %v, %v, want %v", got, err, want)
	}
	r.fence.expired.Store(true)
	for what, err := range r.calls(t) {
		wantNotLeader(t, what, err, nil)
	}
}

func TestALeaderThatEtcdDeposedRefusesToWrite(t *testing.T) {
	r := leader(t)
	if _, err := r.etcd.Delete(t.Context(), "/leader"); err != nil {
		t.Fatal(err)
	}
	_, err := r.Apply(t.Context(), apply(node("n1")))
	wantNotLeader(t, "Apply", err, nil)
}

func TestObjectsAreAppliedListedAndDeleted(t *testing.T) {
	r := leader(t)
	applied, err := r.Apply(t.Context(), apply(node("n1"), pod("a"), pod("b")))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(applied.GetOutcomes()), "[APPLY_OUTCOME_CREATED APPLY_OUTCOME_CREATED APPLY_OUTCOME_CREATED]"; got != want {
		t.Errorf("outcomes: got %s, want %s", got, want)
	}
	list, err := r.ListObjects(t.Context(), &pb.ListObjectsRequest{Kind: "Pod"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.GetObjects()) != 2 || list.GetContinueToken() != "" || list.GetRevision() < applied.GetRevision() {
		t.Fatalf("got %v, want two pods on one page at %d or later", list, applied.GetRevision())
	}
	first := list.GetObjects()[0]
	obj, err := objects.Decode(first.GetRaw())
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := obj.(*v1.Pod); !ok || p.Name != "a" || p.UID == "" || first.GetRef().GetName() != "a" || first.GetRevision() != applied.GetRevision() {
		t.Errorf("got %v at %d, want pod a with a uid at %d", first.GetRef(), first.GetRevision(), applied.GetRevision())
	}
	deleted, err := r.Delete(t.Context(), &pb.DeleteRequest{Refs: []*pb.ObjectRef{
		{Kind: "Pod", Namespace: "default", Name: "a"}, {Kind: "Node", Name: "none"},
	}})
	if err != nil || fmt.Sprint(deleted.GetDeleted()) != "[true false]" || deleted.GetRevision() <= applied.GetRevision() {
		t.Errorf("got %v, %v, want [true false] after %d", deleted, err, applied.GetRevision())
	}
}

func TestPagesAndNames(t *testing.T) {
	r := leader(t)
	raws := []string{}
	for _, ns := range []string{"x", "y"} {
		for i := range 5 {
			raws = append(raws, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":"p%d"},"spec":{"containers":[{"name":"c"}]}}`, ns, i))
		}
	}
	r.apply(t, raws...)
	for name, tc := range map[string]struct {
		req  *pb.ListObjectsRequest
		want string
	}{
		"all, in pages":           {&pb.ListObjectsRequest{Kind: "Pod", Limit: 3}, "x/p0 x/p1 x/p2 | x/p3 x/p4 y/p0 | y/p1 y/p2 y/p3 | y/p4"},
		"a namespace":             {&pb.ListObjectsRequest{Kind: "Pod", Namespace: "y", Limit: 3}, "y/p0 y/p1 y/p2 | y/p3 y/p4"},
		"one pod":                 {&pb.ListObjectsRequest{Kind: "Pod", Namespace: "y", Name: "p3"}, "y/p3"},
		"one that is not there":   {&pb.ListObjectsRequest{Kind: "Pod", Namespace: "z", Name: "p3"}, ""},
		"a name in any namespace": {&pb.ListObjectsRequest{Kind: "Pod", Name: "p3"}, "x/p3 y/p3"},
	} {
		var pages []string
		for {
			resp, err := r.ListObjects(t.Context(), tc.req)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var names []string
			for _, o := range resp.GetObjects() {
				names = append(names, o.GetRef().GetNamespace()+"/"+o.GetRef().GetName())
			}
			pages = append(pages, strings.Join(names, " "))
			if tc.req.ContinueToken = resp.GetContinueToken(); tc.req.ContinueToken == "" {
				break
			}
		}
		if got := strings.Join(pages, " | "); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	_, err := r.ListObjects(t.Context(), &pb.ListObjectsRequest{Kind: "Pod", ContinueToken: "nonsense"})
	wantCode(t, "a token that is none", err, codes.InvalidArgument)
}

func TestBadRequestsAreExplained(t *testing.T) {
	r := leader(t)
	for name, tc := range map[string]struct {
		req  *pb.ApplyRequest
		want string
	}{
		"garbage":             {apply("garbage"), "objects[0]: 7 bytes are neither"},
		"an unknown kind":     {apply(node("n1"), `{"apiVersion":"v1","kind":"Secret"}`), `objects[1]: unknown kind: "Secret"`},
		"an unknown field":    {apply(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"specs":{}}`), `unknown field "specs"`},
		"another's reference": {&pb.ApplyRequest{Objects: []*pb.Object{{Ref: &pb.ObjectRef{Kind: "Node", Name: "n2"}, Raw: []byte(node("n1"))}}}, "the reference says Node n2, the object is Node n1"},
		"a name twice":        {apply(node("n1"), node("n1")), `Node n1: metadata.name: Duplicate value: "n1"`},
		"a revision":          {&pb.ApplyRequest{Objects: []*pb.Object{{Revision: 5, Raw: []byte(node("n1"))}}}, "revision"},
	} {
		_, err := r.Apply(t.Context(), tc.req)
		wantCode(t, name, err, codes.InvalidArgument)
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %q, want it to contain %q", name, err, tc.want)
		}
	}
	_, err := r.ListObjects(t.Context(), &pb.ListObjectsRequest{Kind: "Secret"})
	wantCode(t, "a list of secrets", err, codes.InvalidArgument)
	_, err = r.Delete(t.Context(), &pb.DeleteRequest{Refs: []*pb.ObjectRef{{Kind: "Pod", Namespace: "default", Name: "UPPER"}}})
	wantCode(t, "a name that can not be", err, codes.InvalidArgument)
	if list, err := r.ListObjects(t.Context(), &pb.ListObjectsRequest{Kind: "Node"}); err != nil || len(list.GetObjects()) != 0 {
		t.Errorf("nodes: got %v, %v, want none written", list, err)
	}
}

func TestViolationsNameObjectAndFieldAndStayShort(t *testing.T) {
	r := leader(t)
	long := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"a":"` + strings.Repeat("x", 3<<20) + `"}}}`
	negative := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"-1"}}}]}}`
	_, err := r.Apply(t.Context(), apply(node("good"), long, negative))
	wantCode(t, "apply", err, codes.InvalidArgument)
	details := status.Convert(err).Details()
	if len(details) != 1 {
		t.Fatalf("got details %v, want one", details)
	}
	bad, ok := details[0].(*errdetails.BadRequest)
	if !ok || len(bad.GetFieldViolations()) != 2 {
		t.Fatalf("got %v, want a BadRequest with two violations", details[0])
	}
	for i, want := range []string{"objects[1].metadata.labels[a]", "objects[2].spec.containers[0].resources.requests[cpu]"} {
		if got := bad.GetFieldViolations()[i].GetField(); got != want {
			t.Errorf("violation %d: got %s, want %s", i, got, want)
		}
	}
	if got := len(err.Error()); got > 1000 {
		t.Errorf("the message has %d bytes, want it short", got)
	}
}

func TestAWatchStreamsAndResumes(t *testing.T) {
	r := leader(t)
	r.apply(t, pod("before"))
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := r.Watch(ctx, &pb.WatchRequest{Kind: "Pod"})
	if err != nil {
		t.Fatal(err)
	}
	begin, err := watch.Recv()
	if err != nil || len(begin.GetEvents()) != 0 || begin.GetRevision() == 0 {
		t.Fatalf("got %v, %v, want the revision at which the watch begins", begin, err)
	}
	r.apply(t, node("n1")) // of another kind
	added := r.apply(t, pod("a"))
	got, err := watch.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if e := got.GetEvents(); len(e) != 1 || e[0].GetType() != pb.WatchEventType_WATCH_EVENT_TYPE_ADDED || e[0].GetObject().GetRef().GetName() != "a" || got.GetRevision() != added {
		t.Errorf("got %v, want pod a added at %d", got, added)
	}
	cancel()

	if _, err := r.Delete(t.Context(), &pb.DeleteRequest{Refs: []*pb.ObjectRef{{Kind: "Pod", Namespace: "default", Name: "a"}}}); err != nil {
		t.Fatal(err)
	}
	again, err := r.Watch(t.Context(), &pb.WatchRequest{Kind: "Pod", Namespace: "default", AfterRevision: got.GetRevision()})
	if err != nil {
		t.Fatal(err)
	}
	next, err := again.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if e := next.GetEvents(); len(e) != 1 || e[0].GetType() != pb.WatchEventType_WATCH_EVENT_TYPE_DELETED || e[0].GetObject().GetRef().GetName() != "a" || len(e[0].GetObject().GetRaw()) == 0 {
		t.Errorf("got %v, want pod a deleted, with what it was", next)
	}
}

func TestAWatchEndsWhenTheLeaderFollows(t *testing.T) {
	r := leader(t)
	watch, err := r.Watch(t.Context(), &pb.WatchRequest{Kind: "Pod"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	other := &pb.LeaderRecord{Id: "other", Address: "other.example:7000"}
	r.server.SetFollowing(other)
	_, err = watch.Recv()
	wantNotLeader(t, "watch", err, other)
}

func TestAWatchFromACompactedRevisionIsOutOfRange(t *testing.T) {
	r := leader(t)
	r.apply(t, pod("a"))
	end := r.apply(t, pod("b"))
	if _, err := r.etcd.Compact(t.Context(), int64(end), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	watch, err := r.Watch(t.Context(), &pb.WatchRequest{Kind: "Pod", AfterRevision: 1})
	if err == nil {
		_, err = watch.Recv()
	}
	wantCode(t, "watch", err, codes.OutOfRange)
}

func TestLargeChangesComeInMessagesBelowFourMiB(t *testing.T) {
	r := leader(t)
	start := r.apply(t, node("n1"))
	filling := strings.Repeat("x", 250<<10)
	const count = 20
	for begin := 0; begin < count; begin += 10 {
		raws := make([]string, 10)
		for i := range raws {
			raws[i] = fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p%02d","annotations":{"a":%q}},"spec":{"containers":[{"name":"c"}]}}`, begin+i, filling)
		}
		r.apply(t, raws...)
	}
	watch, err := r.Watch(t.Context(), &pb.WatchRequest{Kind: "Pod", AfterRevision: start})
	if err != nil {
		t.Fatal(err)
	}
	seen, last := 0, start
	for seen < count {
		resp, err := watch.Recv() // refuses more than 4 MiB
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.GetEvents() {
			if want := fmt.Sprintf("p%02d", seen); e.GetObject().GetRef().GetName() != want {
				t.Fatalf("event %d: got %s, want %s", seen, e.GetObject().GetRef().GetName(), want)
			}
			seen++
		}
		if resp.GetRevision() < last {
			t.Errorf("revision: got %d after %d", resp.GetRevision(), last)
		}
		last = resp.GetRevision()
	}
}

func TestTheSchedulerAnswersThroughTheAPI(t *testing.T) {
	r := leader(t)
	explained, err := r.Explain(t.Context(), &pb.ExplainRequest{Namespace: "default", Name: "a"})
	if err != nil || explained.GetNote() != "default/a" {
		t.Errorf("Explain: got %v, %v", explained, err)
	}
	summary, err := r.GetSummary(t.Context(), &pb.GetSummaryRequest{})
	if err != nil || summary.GetSummary().GetNodes() != 3 {
		t.Errorf("GetSummary: got %v, %v", summary, err)
	}
	workers, err := r.ListWorkers(t.Context(), &pb.ListWorkersRequest{})
	if err != nil || len(workers.GetWorkers()) != 1 {
		t.Errorf("ListWorkers: got %v, %v", workers, err)
	}
	plugins, err := r.ListPlugins(t.Context(), &pb.ListPluginsRequest{})
	if err != nil || len(plugins.GetUses()) != 1 {
		t.Errorf("ListPlugins: got %v, %v", plugins, err)
	}
	for range 2 { // what is fixed is not added up
		c, err := r.GetConfiguration(t.Context(), &pb.GetConfigurationRequest{})
		if err != nil || len(c.GetNoEffect()) != 1 || len(c.GetLacking()) != 1 {
			t.Errorf("GetConfiguration: got %v, %v", c, err)
		}
	}
	shards, err := r.ListShards(t.Context(), &pb.ListShardsRequest{})
	if err != nil || len(shards.GetShards()) != 1 {
		t.Errorf("ListShards: got %v, %v", shards, err)
	}
	for want, err := range map[codes.Code]error{
		codes.NotFound:         status.Error(codes.NotFound, "no such pod"),
		codes.Internal:         errors.New("a bug"),
		codes.DeadlineExceeded: fmt.Errorf("explain: %w", context.DeadlineExceeded),
	} {
		r.sched.err = err
		_, got := r.Explain(t.Context(), &pb.ExplainRequest{Namespace: "default", Name: "a"})
		wantCode(t, err.Error(), got, want)
	}
	_, err = r.Explain(t.Context(), &pb.ExplainRequest{Name: "a"})
	wantCode(t, "a pod without namespace", err, codes.InvalidArgument)
}

// Beside a kube-scheduler that holds the Lease no coordinator leads, and a standby says who does.
func TestAStandbyNamesTheHolderOfTheLease(t *testing.T) {
	r := follower(t)
	r.server.StandBy("kube-system/kube-scheduler", "kube-scheduler vm_5f68")
	r.server.SetFollowing(nil) // told late of the leader in etcd
	for what, err := range r.calls(t) {
		wantNotLeaderDetail(t, what, err, &pb.NotLeader{Holder: "kube-scheduler vm_5f68"})
		if got, want := status.Convert(err).Message(), "kube-scheduler vm_5f68 holds kube-system/kube-scheduler; this coordinator stands by"; what != "Watch" && got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	r.server.StandBy("", "")
	for what, err := range r.calls(t) {
		if got := status.Convert(err).Message(); strings.Contains(got, "vm_5f68") {
			t.Errorf("%s: got %q after the Lease was free", what, got)
		}
	}
}
