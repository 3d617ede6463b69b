package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/cmd/internal/otlp"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/leader"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxRequestBytes bounds a message of the client API.
const maxRequestBytes = 4<<20 + 64<<10

// A listener of the client API has so many connections, each of so many calls.
const maxConnections, maxCalls = 64, 64

// service is a coordinator as `up` and `coordinator` run it.
type service struct {
	process   Process
	sharding  Sharding
	guard     *serving.Guard
	listen    string
	within    net.Listener // of clients in this process; nil: none
	advertise string
	config    *config.Config
	plugins   framework.Registry
	decisions string
	recording Recording
	tracing   otlp.Options
	leaseTTL  time.Duration
	flush     time.Duration
	etcd      *clientv3.Client
	etcdFlags Etcd
	// compaction is how much of etcd's history is kept; 0: others compact.
	compaction time.Duration
	leading    func(*coordinator.Scheduler)
	listening  func(address, console string)
	honour     func(*coordinator.SchedulerConfig) // puts feature gates into it; nil: they are at their defaults
}

// run serves until ctx ends.
func (v service) run(ctx context.Context) (err error) {
	registry := newTermRegistry()
	tellBuild(registry.process, componentCoordinator)
	v.guard.CountRefusals(registry.process, klog.FromContext(ctx))
	serving.TellEnds(registry.process, map[string]serving.End{"tls": v.guard.End, "etcd": v.etcdFlags.end()})
	l, callers, err := listenAPI(v.guard, v.listen)
	if err != nil {
		return err
	}
	defer l.Close()
	log, err := openDecisionLog(v.decisions, os.Stdout)
	if err != nil {
		return err
	}
	defer log.Close()
	pages, err := v.process.listen(v.guard)
	if err != nil {
		return err
	}
	record := &pb.LeaderRecord{Id: processID(), Address: advertised(v.advertise, l)}
	if v.process.Console {
		record.Console = consoleAddress(record.Address, consolePort{pages, v.guard.Enabled()})
	}
	spans, err := startSpans(ctx, v.tracing, record.Id, registry.process)
	if err != nil {
		return err
	}
	defer spans.stop()
	server := api.New(api.Config{Self: record, Traces: spans.kept.List,
		Configuration: configurationOf(v.config, v.config.NoEffect())})
	workers := newLocalWorkers(v.sharding.Workers, v.sharding.Cluster, registry.process, spans.workers)
	scheduler, err := v.scheduler(log, spans, workers)
	if err != nil {
		return err
	}
	if err := scheduler.OutOfTree.Check(ctx); err != nil {
		return err
	}
	recorder, endRecord, err := v.recording.start(ctx, registry.process)
	if err != nil {
		return err
	}
	scheduler.Recorder = recorder
	fence := leader.NewFence(v.sharding.Cluster, nil)
	tellLead(registry.process, fence, scheduler.Heartbeat)
	defer func() { err = errors.Join(err, endRecord()) }()
	g, ctx := errgroup.WithContext(ctx)
	workers.serve(ctx, g, v.guard.Plain())
	g.Go(func() error { return v.serveAPI(ctx, l, server, callers) })
	if v.within != nil {
		g.Go(func() error { return v.serveAPI(ctx, v.within, server, &serving.Guard{}) })
	}
	g.Go(func() error { return flushEvery(ctx, log) })
	health := newEtcdHealth(v.etcd, v.etcdFlags, v.sharding.Cluster, cmp.Or(v.leaseTTL, lease.DefaultTTL))
	g.Go(func() error { return health.run(ctx) })
	g.Go(func() error { return lookAfter(ctx, v.etcd, v.sharding.Cluster, v.compaction, registry.process) })
	g.Go(func() error { return endIfHung(ctx, scheduler.Heartbeat, os.Stderr, os.Exit) })
	e := serving.Endpoint{Gatherer: registry, Ready: health.ready, Healthy: scheduler.Heartbeat.Check}
	if e.Pages, err = v.process.consolePages(v.guard, server, v.config, ""); err != nil {
		return endGroup(g, err)
	}
	if err := v.process.serveOn(ctx, g, v.guard, pages, e); err != nil {
		return endGroup(g, err)
	}
	g.Go(func() error {
		return leader.Run(ctx, leader.Config{
			Etcd: v.etcd, Record: record, LeaseTTL: v.leaseTTL, Fence: fence, API: server, Mode: leader.Standalone{},
			Scheduler: scheduler, Registerer: registry.begin,
			Leading: v.leading,
		})
	})
	if v.listening != nil {
		v.listening(cmp.Or(record.Address, v.listen), record.Console)
	}
	return g.Wait()
}

// endGroup ends everything that g has started because of err, and waits for it.
func endGroup(g *errgroup.Group, err error) error {
	g.Go(func() error { return err })
	return g.Wait()
}

// scheduler is the template of each term's scheduler.
func (v service) scheduler(log *observe.DecisionLog, spans *spans, workers *localWorkers) (coordinator.SchedulerConfig, error) {
	cfg := coordinator.SchedulerConfig{
		Cluster:          v.sharding.Cluster,
		Shards:           v.sharding.Shards,
		Decisions:        log,
		MaxUnschedulable: v.flush,
		Heartbeat:        &observe.Heartbeat{},
		Fanout: fanout.Config{
			Replicas: v.sharding.Replicas,
			Compare:  v.sharding.CompareWorkers,
			Local:    workers.members,
			Dial:     workers.dial(v.dial(spans.dialOptions()), spans.dialOptions()),
		},
		Tracer: spans.tracer,
	}
	if v.honour != nil {
		v.honour(&cfg)
	}
	if err := configure(v.config, v.plugins, &cfg); err != nil {
		return coordinator.SchedulerConfig{}, err
	}
	return cfg, nil
}

// dial connects to a worker, which must be what its registration says.
func (v service) dial(options []grpc.DialOption) fanout.Dial {
	return func(ctx context.Context, m fanout.Member) (pb.WorkerServiceClient, io.Closer, error) {
		credentials := grpc.WithTransportCredentials(v.guard.ClientCredentials(serving.Worker, m.ID))
		return fanout.Dialer(append(slices.Clip(options), credentials)...)(ctx, m)
	}
}

// listenAPI opens the listener of the client API, and tells who guards it. Who may open a socket may make every call.
func listenAPI(guard *serving.Guard, address string) (net.Listener, *serving.Guard, error) {
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		l, err := serving.ListenUnix("listen", path)
		return l, guard.Plain(), err
	}
	l, err := guard.Listen("listen", address)
	return l, guard, err
}

// advertised is where clients are sent to; empty: they can't be, for it is a socket.
func advertised(flag string, l net.Listener) string {
	if flag != "" || l.Addr().Network() == "unix" {
		return flag
	}
	return l.Addr().String()
}

func (v service) serveAPI(ctx context.Context, l net.Listener, server *api.Server, guard *serving.Guard) error {
	s := grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestBytes), grpc.MaxSendMsgSize(maxRequestBytes),
		// Clients ask whether this process still lives, as long as they wait for it; and a watcher
		// that is gone without a word is noticed.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.MaxConcurrentStreams(maxCalls), grpc.ConnectionTimeout(10 * time.Second),
	}, guard.ServerOptions()...)...)
	server.Register(guard.Registrar(s))
	done := make(chan error, 1)
	go func() { done <- s.Serve(netutil.LimitListener(l, maxConnections)) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve the client API on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stopped := make(chan struct{})
	go func() { s.GracefulStop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(2 * time.Second):
		// Watches have no end of their own.
		s.Stop()
	}
	<-done
	return nil
}

// flushEvery keeps the decision log no more than a second behind. A log that can't be written ends,
// with a line that says so, and not the scheduler: a full disk must not stop a cluster. Close tells of it again.
func flushEvery(ctx context.Context, log interface{ Flush() error }) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := log.Flush(); err != nil {
				klog.FromContext(ctx).Error(err, "The decision log has ended, scheduling goes on")
				return nil
			}
		}
	}
}

// openDecisionLog opens the file that decisions are added to; "-" is out, and an empty name
// no log at all.
func openDecisionLog(name string, out io.Writer) (*observe.DecisionLog, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return observe.NewDecisionLog(struct{ io.Writer }{out}), nil
	}
	f, err := createPrivate(name, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return nil, fmt.Errorf("decision log: %w", err)
	}
	return observe.NewDecisionLog(f), nil
}

// runCoordinator is `shardsched coordinator`.
func runCoordinator(ctx context.Context, s Streams, o CoordinatorOptions) error {
	if err := o.Kube.Apply(); err != nil {
		return usageError{err}
	}
	limitMemory(ctx, s.Env, os.DirFS("/"))
	if !o.Standalone {
		return runKubernetes(ctx, s, o)
	}
	configuration, err := o.Configuration.load()
	if err != nil {
		return err
	}
	guard, err := o.guard()
	if err != nil {
		return err
	}
	etcd, stop, err := o.etcd(ctx, s)
	if err != nil {
		return err
	}
	defer stop()
	return service{
		process: o.Process, sharding: o.Sharding, guard: guard, listen: o.Listen, advertise: o.Advertise,
		config: configuration, plugins: o.plugins, decisions: o.DecisionLog, recording: o.Recording,
		tracing: o.Tracing, leaseTTL: o.lease(configuration), flush: o.MaxInUnschedulable, etcd: etcd, etcdFlags: o.Etcd,
		compaction: o.compaction(), honour: o.honour,
		listening: func(address, _ string) { fmt.Fprintf(s.Err, "coordinator serves clients on %s\n", address) },
	}.run(ctx)
}

// guard is mutual TLS, with a certificate that clients and workers take for a coordinator's.
func (o CoordinatorOptions) guard() (*serving.Guard, error) {
	guard, err := o.TLS.Open(o.Cluster)
	if err != nil {
		return nil, err
	}
	return guard, guard.RequireSelf(serving.Coordinator, "")
}

// forgets tells whether what etcd holds is of no use once this process ends: the next one begins with an empty folder, and
// a process in kube-scheduler's place has one term.
func (o CoordinatorOptions) forgets() bool {
	return !o.Standalone && o.EmbeddedEtcd.Enabled && o.EmbeddedEtcd.DataDir == ""
}

// compaction is how much of etcd's history this process is to keep; 0: an embedded etcd, or others, see to it.
func (o CoordinatorOptions) compaction() time.Duration {
	if o.EmbeddedEtcd.Enabled {
		return 0
	}
	return o.CompactionInterval
}

// etcd starts or connects to the etcd that the flags name.
func (o CoordinatorOptions) etcd(ctx context.Context, s Streams) (*clientv3.Client, func(), error) {
	if !o.EmbeddedEtcd.Enabled {
		c, err := o.Etcd.connect()
		return c, func() { c.Close() }, err
	}
	c, endpoint, stop, err := o.EmbeddedEtcd.start(ctx, o.forgets(), o.CompactionInterval)
	if err != nil {
		return nil, nil, err
	}
	if endpoint != "" {
		fmt.Fprintf(s.Err, "etcd serves on %s\n", endpoint)
	}
	return c, stop, nil
}
