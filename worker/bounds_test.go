package worker_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
	"github.com/shardsched/shardsched/worker"
)

// served is a worker that runs.
type served struct {
	address string
	open    atomic.Int64 // connections
	most    atomic.Int64
}

// Accept counts.
type counted struct {
	net.Listener
	*served
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n := l.open.Add(1)
	for most := l.most.Load(); n > most && !l.most.CompareAndSwap(most, n); most = l.most.Load() {
	}
	return &countedConn{Conn: c, of: l.served}, nil
}

type countedConn struct {
	net.Conn
	of   *served
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close()
}

func serve(t *testing.T, options ...grpc.ServerOption) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &served{address: l.Addr().String()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- worker.New(worker.Config{Cluster: "blue", Cores: 1}).Run(ctx, worker.RunConfig{
			Listener: counted{l, x}, Options: options, DrainTimeout: time.Nanosecond,
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return x
}

// connect opens a connection of its own.
func (x *served) connect(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(x.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestConnectionsAreBounded(t *testing.T) {
	const most, all = 32, 40
	x := serve(t)
	var answered, done sync.WaitGroup // the first 32; all
	answered.Add(most)
	var n atomic.Int64
	for range all {
		conn := x.connect(t)
		done.Go(func() {
			if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
				t.Error(err)
			}
			if n.Add(1) <= most {
				answered.Done()
			}
			answered.Wait() // until then nobody closes
			conn.Close()
		})
	}
	done.Wait()
	if got := x.most.Load(); got != most {
		t.Errorf("got %d connections at a time, want %d of %d", got, most, all)
	}
}

func TestCallsOfAConnectionAreBounded(t *testing.T) {
	const most, all = 32, 40
	var in, peak atomic.Int64
	full := make(chan struct{})
	fill := sync.OnceFunc(func() { close(full) })
	x := serve(t, grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		n := in.Add(1)
		defer in.Add(-1)
		for seen := peak.Load(); n > seen && !peak.CompareAndSwap(seen, n); seen = peak.Load() {
		}
		if n == most {
			fill()
		}
		<-full // nobody is answered before
		return next(ctx, req)
	}))
	health := healthpb.NewHealthClient(x.connect(t))
	var done sync.WaitGroup
	for range all {
		done.Go(func() {
			if _, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if got := peak.Load(); got != most {
		t.Errorf("got %d calls at a time, want %d of %d", got, most, all)
	}
}

func TestCallsNeedADeadline(t *testing.T) {
	x := serve(t)
	conn := x.connect(t)
	client := pb.NewWorkerServiceClient(conn)
	ask := func(ctx context.Context) error {
		_, err := client.Evaluate(ctx, &pb.EvaluateRequest{Cluster: "blue", Rules: scan.Rules(), Term: 1})
		return err
	}
	wantCode(t, ask(t.Context()), codes.InvalidArgument, "deadline: expected one within 10m")
	far, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	wantCode(t, ask(far), codes.InvalidArgument, "deadline: expected one within 10m")
	stream, err := client.LoadSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.CloseAndRecv()
	wantCode(t, err, codes.InvalidArgument, "deadline")
	near, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := ask(near); err != nil {
		t.Errorf("within five minutes: got %v", err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health: got %v", err)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	x := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := pb.NewWorkerServiceClient(x.connect(t)).Evaluate(ctx, &pb.EvaluateRequest{Cluster: string(make([]byte, worker.MaxMessageBytes))})
	wantCode(t, err, codes.ResourceExhausted, "larger than max")
}

// What a snapshot makes a worker hold is bounded by the budget for shards, as it comes.
func TestSnapshotsAreBounded(t *testing.T) {
	header := &pb.SnapshotHeader{Cluster: "blue", Rules: scan.Rules(), Term: 7, Shard: 3}
	rows := func(from, to int) (out []*pb.SnapshotRow) {
		for i := from; i < to; i++ {
			out = append(out, &pb.SnapshotRow{Row: uint32(i), Node: node(i)})
		}
		return out
	}
	many := []*pb.LoadSnapshotRequest{{Header: header}}
	for i := range 100 {
		many = append(many, &pb.LoadSnapshotRequest{Rows: rows(100*i, 100*i+100)})
	}
	usages := []*pb.LoadSnapshotRequest{{Header: header}}
	for range 100 {
		chunk := &pb.LoadSnapshotRequest{}
		for range 100 {
			chunk.Usages = append(chunk.Usages, &pb.PodUsage{})
		}
		usages = append(usages, chunk)
	}
	for name, chunks := range map[string][]*pb.LoadSnapshotRequest{
		"rows":       many,
		"a late row": {{Header: header, Rows: rows(pb.MaxRow-1, pb.MaxRow)}},
		"usages":     usages,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, worker.Config{CacheBytes: 1 << 20})
			for range 3 { // what was refused leaves nothing behind
				_, err := r.send(chunks...)
				wantCode(t, err, codes.ResourceExhausted, "shard 3 takes")
			}
			r.fill(0, 100)
			r.load(0)
			r.wantServed()
		})
	}
}

// Deltas make no table larger than the budget, nor do those of several shards make them so together.
func TestDeltasAreBounded(t *testing.T) {
	probe := newRig(t, worker.Config{})
	probe.fill(0, 100)
	one := probe.tables[0].MemoryBytes()
	r := newRig(t, worker.Config{CacheBytes: 5 * one / 2})
	r.fill(0, 100)
	r.fill(1, 100)
	r.load(0, 1)
	_, err := r.client.Evaluate(t.Context(), r.request([]*pb.ShardDeltas{after(0, r.tables[0].Generation(), setNode(pb.MaxRow-1, node(5000)))}, query(1, 500)))
	wantCode(t, err, codes.ResourceExhausted, "shard 0 takes")
	r.wantServed()

	q := query(1, 500)
	grown := func(shard uint32) *pb.ShardDeltas {
		base := r.tables[shard].Generation()
		var deltas []*pb.Delta
		for i := range 60 {
			deltas = append(deltas, setNode(uint32(100+i), node(6000+1000*int(shard)+i)))
		}
		return after(shard, base, r.apply(shard, deltas...)...)
	}
	r.wantNeeds(r.evaluate(r.request([]*pb.ShardDeltas{grown(0), grown(1)}, q)), []uint32{1}, nil)
	r.wantMetric(1, "shardsched_worker_shards")
	r.wantServed()
}
