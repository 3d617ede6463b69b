package worker_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/klog/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
	"github.com/shardsched/shardsched/worker"
)

// nextEvent is the next change of the watched keys.
func nextEvent(t *testing.T, w clientv3.WatchChan) *clientv3.Event {
	t.Helper()
	r, ok := <-w
	if !ok || r.Err() != nil || len(r.Events) != 1 {
		t.Fatalf("watch: got %d events, open %v, error %v; want one event", len(r.Events), ok, r.Err())
	}
	return r.Events[0]
}

func TestRegistrationKeepsTheKeyAndTakesItAway(t *testing.T) {
	client := startEtcd(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	member := &pb.WorkerRegistration{Id: "w1", Address: "127.0.0.1:7000", Cores: 4, Version: "v1"}
	r := worker.NewRegistration(worker.RegistrationConfig{Client: client, Cluster: "blue", Member: member, TTL: 5 * time.Second})
	watch := client.Watch(t.Context(), "/shardsched/blue/workers/", clientv3.WithPrefix(), clientv3.WithRev(1))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()

	first := nextEvent(t, watch)
	<-r.Registered()
	if got, want := string(first.Kv.Key), "/shardsched/blue/workers/w1"; got != want || r.Key() != want {
		t.Errorf("got key %s and Key %s, want %s", got, r.Key(), want)
	}
	var got pb.WorkerRegistration
	if err := proto.Unmarshal(first.Kv.Value, &got); err != nil {
		t.Fatalf("decode the registration: %v", err)
	}
	if diff := cmp.Diff(member, &got, protocmp.Transform()); diff != "" {
		t.Errorf("registration (-want +got):\n%s", diff)
	}

	// The lease is lost: the key goes, and comes back under another lease.
	if _, err := client.Revoke(ctx, clientv3.LeaseID(first.Kv.Lease)); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	if e := nextEvent(t, watch); e.Type != clientv3.EventTypeDelete {
		t.Fatalf("after the lease was lost: got %v, want the key deleted", e)
	}
	again := nextEvent(t, watch)
	if again.Type != clientv3.EventTypePut || again.Kv.Lease == first.Kv.Lease || again.Kv.Lease == 0 {
		t.Fatalf("got %v under lease %x, want the key again, under a lease other than %x", again.Type, again.Kv.Lease, first.Kv.Lease)
	}

	cancel()
	if e := nextEvent(t, watch); e.Type != clientv3.EventTypeDelete {
		t.Fatalf("after the end: got %v, want the key deleted", e)
	}
	if err := <-ended; err != nil {
		t.Fatalf("run: got %v, want nil", err)
	}
}

func TestRunDeregistersThenFinishesWhatIsInFlight(t *testing.T) {
	client := startEtcd(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := worker.New(worker.Config{Cluster: "blue", ID: "w1", Address: l.Addr().String(), Cores: 1})
	r := worker.NewRegistration(worker.RegistrationConfig{Client: client, Cluster: "blue", Member: s.Member()})
	watch := client.Watch(t.Context(), r.Key(), clientv3.WithRev(1))

	arrived, release := make(chan struct{}), make(chan struct{})
	hold := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		close(arrived)
		<-release
		return handler(ctx, req)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, worker.RunConfig{
			Listener: l, Registration: r, DrainTimeout: time.Hour,
			Options: []grpc.ServerOption{grpc.UnaryInterceptor(hold)},
		})
	}()
	nextEvent(t, watch)

	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answered := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := pb.NewWorkerServiceClient(conn).Evaluate(ctx, &pb.EvaluateRequest{Cluster: "blue", Rules: scan.Rules(), Term: 1})
		answered <- err
	}()
	<-arrived
	cancel()
	if e := nextEvent(t, watch); e.Type != clientv3.EventTypeDelete {
		t.Fatalf("got %v, want the worker deregistered while a request is in flight", e.Type)
	}
	select {
	case err := <-ended:
		t.Fatalf("run ended with %v before the request in flight", err)
	case err := <-answered:
		t.Fatalf("the request in flight ended with %v before it was let go", err)
	default:
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("request in flight: got %v, want an answer", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("run: got %v, want nil", err)
	}
}

// troubles is a log that passes the messages of errors on.
type troubles chan string

func (t troubles) Init(klog.RuntimeInfo)                   {}
func (t troubles) Enabled(int) bool                        { return false }
func (t troubles) Info(int, string, ...any)                {}
func (t troubles) Error(_ error, message string, _ ...any) { t <- message }
func (t troubles) WithValues(...any) klog.LogSink          { return t }
func (t troubles) WithName(string) klog.LogSink            { return t }

// TestRegistrationTellsNotYetFromGone holds the words of the log: what has never been there
// is not gone.
func TestRegistrationTellsNotYetFromGone(t *testing.T) {
	etcd := startEtcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	log := make(troubles)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.New(log)))
	r := worker.NewRegistration(worker.RegistrationConfig{Client: client, Cluster: "blue", Member: &pb.WorkerRegistration{Id: "w1"}, TTL: 5 * time.Second})
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	if got, want := <-log, "Cannot register yet, trying again"; got != want {
		t.Errorf("without etcd: logged %q, want %q", got, want)
	}

	client.SetEndpoints(etcd.Endpoints()...)
	for registered := false; !registered; {
		select {
		case <-r.Registered():
			registered = true
		case <-log: // an attempt that began before
		}
	}
	held, err := etcd.Get(t.Context(), r.Key())
	if err != nil || len(held.Kvs) != 1 {
		t.Fatalf("get %s: %v, %v; want one key", r.Key(), held, err)
	}
	if _, err := etcd.Revoke(t.Context(), clientv3.LeaseID(held.Kvs[0].Lease)); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	if got, want := <-log, "Registration is gone, registering again"; got != want {
		t.Errorf("after the lease was lost: logged %q, want %q", got, want)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: got %v, want nil", err)
	}
}
