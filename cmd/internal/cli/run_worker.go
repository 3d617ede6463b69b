package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/cmd/internal/otlp"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/worker"
)

// runWorker is `shardsched worker`.
func runWorker(ctx context.Context, s Streams, o WorkerOptions) error {
	limitMemory(ctx, s.Env, os.DirFS("/"))
	id := o.ID
	if id == "" {
		id = processID()
	}
	guard, err := o.TLS.Open(o.Cluster)
	if err == nil {
		err = guard.RequireSelf(serving.Worker, id)
	}
	if err != nil {
		return err
	}
	etcd, err := o.Etcd.connect()
	if err != nil {
		return err
	}
	defer etcd.Close()
	registry := newRegistry()
	tellBuild(registry, componentWorker)
	guard.CountRefusals(registry, klog.FromContext(ctx))
	serving.TellEnds(registry, map[string]serving.End{"tls": guard.End, "etcd": o.Etcd.end()})
	l, err := guard.Listen("listen", o.Listen)
	if err != nil {
		return err
	}
	address := cmp.Or(o.Advertise, l.Addr().String())
	traces, err := o.Tracing.Load()
	if err != nil {
		return usageError{err}
	}
	tracer, stopTracer, err := traces.Worker(ctx, otlp.Service{Name: workerService, Instance: id, Version: Version()}, registry)
	if err != nil {
		return err
	}
	defer stopTracer()
	w := worker.New(worker.Config{
		Cluster: o.Cluster, Leading: worker.LeadingTerm(etcd, o.Cluster),
		TracerProvider: tracer,
		ID:             id, Address: address, Cores: o.Cores, Version: Version(), CacheBytes: o.CacheBytes, Registerer: registry,
	})
	registration := worker.NewRegistration(worker.RegistrationConfig{
		Client: etcd, Cluster: o.Cluster, Member: w.Member(), TTL: o.LeaseDuration,
	})
	health := newEtcdHealth(etcd, o.Etcd, o.Cluster, o.LeaseDuration)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return health.run(ctx) })
	g.Go(func() error {
		return w.Run(ctx, worker.RunConfig{
			Listener: l, Options: guard.ServerOptions(), Registrar: guard.Registrar,
			Registration: registration, DrainTimeout: o.DrainTimeout,
		})
	})
	ready := func() error { return cmp.Or(health.ready(), isRegistered(registration)) }
	err = o.Process.serve(ctx, g, guard, serving.Endpoint{Gatherer: registry, Ready: ready})
	if err != nil {
		return endGroup(g, err)
	}
	fmt.Fprintf(s.Err, "worker %s serves on %s\n", id, address)
	return g.Wait()
}

func isRegistered(r *worker.Registration) error {
	select {
	case <-r.Registered():
		return nil
	default:
		return errors.New("not registered in etcd yet")
	}
}

// processID names one life of this process: the host and a random part.
func processID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return host + "_" + uuid.NewString()[:8]
}

// serve answers HTTP until ctx ends, where an address is given.
func (p Process) serve(ctx context.Context, g *errgroup.Group, guard *serving.Guard, e serving.Endpoint) error {
	l, err := p.listen(guard)
	if err != nil {
		return err
	}
	return p.serveOn(ctx, g, guard, l, e)
}

// listen opens the listener of --http-listen; nil where no address is given.
func (p Process) listen(guard *serving.Guard) (net.Listener, error) {
	if p.HTTPListen == "" {
		return nil, nil
	}
	return guard.Listen("http-listen", p.HTTPListen)
}

// serveOn is serve with the listener that listen has opened.
func (p Process) serveOn(ctx context.Context, g *errgroup.Group, guard *serving.Guard, l net.Listener, e serving.Endpoint) error {
	e.Profiling = p.Profiling
	if p.HealthListen != "" {
		l, err := net.Listen("tcp", p.HealthListen)
		if err != nil {
			return fmt.Errorf("--health-listen: %w", err)
		}
		g.Go(func() error { return e.ServeProbes(ctx, l) })
	}
	if l != nil {
		g.Go(func() error { return e.Serve(ctx, l, guard) })
	}
	return nil
}
