package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/cmd/internal/console"
	"github.com/shardsched/shardsched/cmd/internal/kubeflags"
	"github.com/shardsched/shardsched/cmd/internal/kubeserving"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/leader"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// runKubernetes is `shardsched coordinator` in kube-scheduler's place. It ends with an error when
// a lease is lost, and without one when ctx ends and what was begun is done.
//
// Differs from upstream: also where there is no leader election.
func runKubernetes(ctx context.Context, s Streams, o CoordinatorOptions) error {
	defer klog.Flush()
	defer exitOnSecond()()
	log := klog.FromContext(ctx)
	log.Info("Starting shardsched", "version", Version())
	log.Info("Golang settings", "GOGC", os.Getenv("GOGC"), "GOMAXPROCS", os.Getenv("GOMAXPROCS"), "GOTRACEBACK", os.Getenv("GOTRACEBACK"))
	cliflag.PrintFlags(o.flags)
	c, err := o.Configuration.read()
	if err != nil {
		return err
	}
	if err := o.Configuration.tellOf(c, c.NoEffectInKubernetes()); err != nil {
		return err
	}
	tell(log, "Flags have no effect", "flags", o.Kube.Idle(o.Config != ""))
	etcd, stop, err := o.etcd(ctx, s)
	if err != nil {
		return err
	}
	defer stop()
	guard, err := o.guard()
	if err != nil {
		return err
	}
	k, err := newKubernetes(ctx, o, c, etcd)
	if err != nil {
		return err
	}
	k.guard = guard
	guard.CountRefusals(k.registry, klog.FromContext(ctx))
	err = k.run(ctx, s)
	if errors.Is(err, leader.ErrLeaseLost) {
		log.Error(err, "Leaderelection lost")
	}
	return err
}

// exitOnSecond ends the process at once, with an error, when it is told to end for the second
// time. The function that it returns takes that back.
func exitOnSecond() func() {
	asked, over := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	go func() {
		for range 2 {
			select {
			case <-asked:
			case <-over:
				return
			}
		}
		klog.FlushAndExit(klog.ExitFlushTimeout, exitFailed)
	}()
	return func() { signal.Stop(asked); close(over) }
}

// kubernetes is a coordinator in kube-scheduler's place and what stands around it.
type kubernetes struct {
	o        CoordinatorOptions
	config   *config.Config
	etcd     *clientv3.Client
	guard    *serving.Guard
	health   *etcdHealth
	registry *prometheus.Registry // the libraries' metrics are gathered beside it
	filter   *kubeserving.MetricsFilter
	fence    *leader.Fence
	// heartbeat is the scheduling loop's.
	heartbeat observe.Heartbeat
	access    *rest.Config // to the API server
	clients   *kube.Clients
	source    *kube.Source
	plugins   *kube.Plugins // nil: no profile has any
}

func newKubernetes(ctx context.Context, o CoordinatorOptions, c *config.Config, etcd *clientv3.Client) (*kubernetes, error) {
	election := c.LeaderElection
	k := &kubernetes{
		o: o, config: c, etcd: etcd, registry: prometheus.NewRegistry(),
		health: newEtcdHealth(etcd, o.Etcd, o.Cluster, election.LeaseDuration.Duration),
		fence:  leader.NewFence(election.ResourceNamespace+"/"+election.ResourceName, nil),
	}
	tellBuild(k.registry, componentCoordinator)
	tellLead(k.registry, k.fence, &k.heartbeat)
	if info, ok := debug.ReadBuildInfo(); ok {
		k.registry.MustRegister(kubeserving.NewBuildInfo(kubernetesVersion(info)))
	}
	var err error
	if k.filter, err = o.Kube.MetricsFilter(); err != nil {
		return nil, err
	}
	if k.access, err = o.Kube.REST(c.ClientConnection); err != nil {
		return nil, err
	}
	k.clients, err = kube.NewClients(ctx, kube.ClientConfig{
		REST: k.access, QPS: c.ClientConnection.QPS, Burst: int(c.ClientConnection.Burst),
		ContentType: c.ClientConnection.ContentType, AcceptContentTypes: c.ClientConnection.AcceptContentTypes,
		UserAgent: fmt.Sprintf("shardsched/%s (%s/%s)", Version(), runtime.GOOS, runtime.GOARCH),
		Fence:     k.fence.Check, Registerer: k.registry,
	})
	if err != nil {
		return nil, err
	}
	whole, err := readWhole(c)
	if err != nil {
		return nil, err
	}
	hosts := len(c.OutOfTree()) > 0
	whole.All = whole.All || hosts
	k.source, err = kube.NewSource(kube.SourceConfig{Client: k.clients.Reads, Metadata: k.clients.Metadata, Whole: whole,
		PodGroups: c.PodGroups().Workload})
	if err == nil && hosts {
		k.plugins, err = kube.NewPlugins(k.clients, k.source)
	}
	return k, err
}

// host gives the plugins that are compiled in what there is of the API server.
func (k *kubernetes) host(g *outoftree.Config) {
	if g == nil || k.plugins == nil {
		return
	}
	env := &g.Environment
	env.ClientSet, env.KubeConfig, env.Informers, env.Recorder = k.plugins.Client, k.plugins.Config, k.plugins.Informers, k.plugins.Recorder
	g.Start, g.Watch = k.plugins.Start, k.plugins.Watch
}

// run serves until ctx ends or a lease is lost. What a leader needs in order to end well, its
// workers and its endpoints, outlives ctx.
func (k *kubernetes) run(ctx context.Context, s Streams) (err error) {
	https, err := k.o.Kube.HTTPS()
	if err != nil {
		return err
	}
	serving.TellEnds(k.registry, k.ends(https))
	l, callers, err := listenAPI(k.clientGuard(https), k.o.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	pages, err := k.o.Process.listen(k.guard)
	if err != nil {
		return err
	}
	record, err := k.record(advertised(k.o.Advertise, l), https, pages)
	if err != nil {
		return err
	}
	log, err := openDecisionLog(k.o.DecisionLog, os.Stdout)
	if err != nil {
		return err
	}
	defer log.Close()
	spans, err := startSpans(ctx, k.o.Tracing, record.Id, k.registry)
	if err != nil {
		return err
	}
	defer spans.stop()
	recorder, endRecord, err := k.o.Recording.start(ctx, k.registry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endRecord()) }()
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, base := errgroup.WithContext(base)
	server := api.New(api.Config{Self: record, Traces: spans.kept.List,
		Configuration: configurationOf(k.config, k.config.NoEffectInKubernetes())})
	if err := k.serve(base, g, https, pages, server, ctx.Done()); err != nil {
		return endGroup(g, err)
	}
	v := service{sharding: k.o.Sharding, guard: k.guard, config: k.config, plugins: k.o.plugins, flush: k.o.MaxInUnschedulable,
		etcd: k.etcd, honour: k.o.honour}
	g.Go(func() error { return v.serveAPI(base, l, server, callers) })
	workers := newLocalWorkers(k.o.Workers, k.o.Cluster, k.registry, spans.workers)
	workers.serve(base, g, k.guard.Plain())
	g.Go(func() error { return flushEvery(base, log) })
	g.Go(func() error { return k.health.run(base) })
	g.Go(func() error { return lookAfter(base, k.etcd, k.o.Cluster, k.o.compaction(), k.registry) })
	g.Go(func() error { return endIfHung(base, &k.heartbeat, os.Stderr, os.Exit) })
	debugger := &cacheDebugger{objects: k.source}
	g.Go(func() error { return debugger.watch(base) })
	template, err := v.scheduler(log, spans, workers)
	if err != nil {
		return endGroup(g, err)
	}
	template.Recorder = recorder
	cfg := k.coordinator(record, server, template)
	if err := cfg.Scheduler.OutOfTree.Check(base); err != nil {
		return endGroup(g, err)
	}
	cfg.Leading = debugger.leading.Store
	running, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(base, stop)
	g.Go(func() error {
		defer end()
		return leader.Run(running, cfg)
	})
	fmt.Fprintf(s.Err, "coordinator serves clients on %s\n", cmp.Or(record.Address, k.o.Listen))
	return g.Wait()
}

// ends are those of all certificates that the process shows. That of the HTTPS port may be made in memory.
func (k *kubernetes) ends(https kubeflags.HTTPS) map[string]serving.End {
	shown := k.access.TLSClientConfig
	ends := map[string]serving.End{
		"tls": k.guard.End, "etcd": k.o.Etcd.end(),
		"kubeconfig": serving.FilesEnd("client certificate of the kubeconfig", shown.CertFile, shown.KeyFile, ""),
	}
	if shown.CertFile == "" {
		ends["kubeconfig"] = serving.PEMEnd(func() []byte { return shown.CertData })
	}
	if https.Serving != nil {
		ends["https"] = serving.PEMEnd(func() []byte {
			certificates, _ := https.Serving.Cert.CurrentCertKeyContent()
			return certificates
		})
	}
	return ends
}

// podFrom is namespace/name of the pod that this process runs in, by the environment; empty: it does not say.
func podFrom(env func(string) string) string {
	if namespace, name := env("POD_NAMESPACE"), env("POD_NAME"); namespace != "" && name != "" {
		return namespace + "/" + name
	}
	return ""
}

// record tells others who this process is, by upstream's identity of a scheduler.
func (k *kubernetes) record(address string, https kubeflags.HTTPS, pages net.Listener) (*pb.LeaderRecord, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this host: %w", err)
	}
	r := &pb.LeaderRecord{Id: host + "_" + uuid.NewString(), Address: address}
	if k.o.Process.Console {
		served := []consolePort{{pages, k.guard.Enabled()}}
		if https.Serving != nil {
			served = append([]consolePort{{https.Serving.Listener, true}}, served...)
		}
		r.Console = consoleAddress(address, served...)
	}
	return r, nil
}

// coordinator is what leads: the scheduler with all that reads from the API server and writes to it.
func (k *kubernetes) coordinator(record *pb.LeaderRecord, server *api.Server, template coordinator.SchedulerConfig) leader.Config {
	election := k.config.LeaderElection
	host := record.Id[:strings.LastIndex(record.Id, "_")]
	binder := kube.NewBinder(kube.BinderConfig{Clients: k.clients})
	reporter := kube.NewReporter(kube.ReporterConfig{Clients: k.clients, Pod: k.source.Pod, IsLarge: k.source.IsLarge, Hostname: host,
		Busy: binder.Busy})
	evictor := kube.NewEvictor(kube.EvictorConfig{Clients: k.clients, Reporter: reporter, Pod: k.source.Pod})
	template.Binder, template.Reporter, template.Evictor = binder, reporter, evictor
	template.VolumeWriter = kube.NewVolumeWriter(kube.VolumeWriterConfig{Clients: k.clients})
	claims := kube.NewClaimWriter(kube.ClaimWriterConfig{Clients: k.clients})
	template.ClaimWriter, template.ClaimStatus = claims, claims
	k.host(template.OutOfTree)
	template.Registerer, template.PodNamed, template.Heartbeat = k.registry, k.source.PodNamed, &k.heartbeat
	template.ReadPod = func(ctx context.Context, namespace, name string) (*v1.Pod, error) {
		return k.clients.Reads.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	cfg := leader.Config{
		Etcd: k.etcd, Record: record, LeaseTTL: lease.TTLWithin(election.LeaseDuration.Duration), Fence: k.fence, API: server,
		Mode: leader.Kubernetes{Source: k.source, DelayCacheUntilActive: k.config.DelayCacheUntilActive,
			NoJournal: k.o.forgets()},
		Scheduler: template, Sinks: []func(context.Context) error{reporter.Run, evictor.Run},
	}
	if *election.LeaderElect {
		events := kube.NewLeaseEvents(k.clients, *k.config.Completed().Profiles[0].SchedulerName, nil)
		cfg.Sinks = append(cfg.Sinks, events.Run)
		cfg.Lease = &kube.LeaseConfig{
			Recorder: events,
			Client:   k.clients.Leases.CoordinationV1(), Namespace: election.ResourceNamespace, Name: election.ResourceName,
			Duration: election.LeaseDuration.Duration, RenewDeadline: election.RenewDeadline.Duration,
			RetryPeriod: election.RetryPeriod.Duration,
			Clients:     kube.ClientAccess{Address: record.Address, Pod: podFrom(os.Getenv)},
		}
	}
	return cfg
}

// clientGuard lets holders of tokens of the API server in, too, where it can be asked.
func (k *kubernetes) clientGuard(https kubeflags.HTTPS) *serving.Guard {
	if https.Serving == nil {
		return k.guard
	}
	return k.guard.WithTokens(kubeserving.NewTokens(https.Authentication.Authenticator, https.Authorization.Authorizer))
}

// noWholeWorkloads is why the console of a coordinator in kube-scheduler's place tries no changes: workloads are trimmed.
const noWholeWorkloads = "Of workloads this coordinator knows what scheduling needs, and not what pods they would make: " +
	"kubectl shardsched console tries changes on a whole copy, with your own rights."

// serve opens the HTTPS endpoint, and serves on the listener of --http-listen (nil: there is none).
func (k *kubernetes) serve(ctx context.Context, g *errgroup.Group, https kubeflags.HTTPS, pages net.Listener, server *api.Server,
	ending <-chan struct{},
) error {
	shown, err := k.o.Process.consolePages(k.guard, server, k.config, noWholeWorkloads)
	if err != nil {
		return err
	}
	if https.Serving != nil {
		c := k.endpoints(ending)
		c.Console = shown[console.Path]
		h := kubeserving.Guard(c.Handler(), https.Authentication.Authenticator, https.Authorization.Authorizer)
		g.Go(func() error { return kubeserving.Serve(ctx, https.Serving, h) })
	}
	return k.o.Process.serveOn(ctx, g, k.guard, pages, serving.Endpoint{Gatherer: kubeserving.Gatherer(k.registry, k.filter),
		Ready: k.health.ready, Healthy: k.heartbeat.Check, Pages: shown})
}

// endpoints are upstream's, with a check of etcd beside.
func (k *kubernetes) endpoints(ending <-chan struct{}) kubeserving.Config {
	c := kubeserving.Config{
		Healthy: []healthz.HealthChecker{
			healthz.NamedCheck("scheduling-loop", func(*http.Request) error { return k.heartbeat.Check() }),
		},
		Ready: []healthz.HealthChecker{
			healthz.NewShutdownHealthz(ending),
			healthz.NamedCheck("sched-handler-sync", func(*http.Request) error { return k.source.Ready() }),
			healthz.NamedCheck("etcd", func(*http.Request) error { return k.health.ready() }),
		},
		Gatherer: k.registry, Filter: k.filter,
		Pods: k.source.Pods, Leading: k.fence.Leading,
		Configuration: k.config.Public(),
		Profiling:     k.config.Profiling,
	}
	if *k.config.LeaderElection.LeaderElect {
		watchdog := k.fence.Watchdog()
		c.Healthy = append(c.Healthy, watchdog)
		c.Ready = append([]healthz.HealthChecker{watchdog}, c.Ready...)
	}
	if c.Profiling && k.config.ContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	if k.o.Kube.Enabled("ComponentFlagz") {
		c.Flags = &k.o.sets
	}
	if k.o.Kube.Enabled("ComponentStatusz") {
		c.Version = k.o.Kube.Version()
	}
	return c
}
