package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/cmd/internal/readonly"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/cmd/internal/shadow"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// errNotReady says that something stands in the way of taking over, which the report has said.
var errNotReady = errors.New("not ready to take over")

// shadowing is a shadow and what stands around it.
type shadowing struct {
	o      ShadowOptions
	config *config.Config
	own    *shadow.OwnWorld
	mirror *shadow.Mirror
	source *kube.Source
	begun  atomic.Pointer[time.Time] // nil: the cluster is not read yet
	lacks  []shadow.Count
}

// runShadow is `shardsched shadow`. It runs for its time, or until ctx ends, and tells then.
func runShadow(ctx context.Context, s Streams, o ShadowOptions) (err error) {
	limitMemory(ctx, s.Env, os.DirFS("/"))
	c, err := o.Configuration.load()
	if err != nil {
		return err
	}
	guard, err := o.TLS.Open(o.Cluster)
	if err != nil {
		return err
	}
	if err := tryReports(o.Reports); err != nil {
		return err
	}
	access, err := o.kubernetes.rest()
	if err != nil {
		return err
	}
	if !o.AllowBinding {
		if err := readonly.MustNotBind(ctx, access); err != nil {
			return err
		}
	}
	clients, err := readonly.NewClients(access)
	if err != nil {
		return err
	}
	their, err := schedulerSeconds(access, o.SchedulerMetrics)
	if err != nil {
		return err
	}
	x := &shadowing{o: o, config: c}
	if x.source, err = kube.NewSource(kube.SourceConfig{Client: clients.Objects, Metadata: clients.Metadata,
		Whole: kube.Whole{Scheduled: true}}); err != nil {
		return err
	}
	registry := newRegistry()
	tellBuild(registry, componentShadow)
	guard.CountRefusals(registry, klog.FromContext(ctx))
	serving.TellEnds(registry, map[string]serving.End{"tls": guard.End})
	recorder, endRecord, err := o.Recording.start(ctx, registry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endRecord()) }()
	cfg := coordinator.SchedulerConfig{Cluster: o.Cluster, Term: 1}
	if err := configure(c, o.plugins, &cfg); err != nil {
		return err
	}
	if err := x.build(cfg, their, func(m *coordinator.SchedulerConfig) { m.Recorder, m.Registerer = recorder, registry }); err != nil {
		return err
	}
	live := shadow.NewLive(x.report)
	registry.MustRegister(live)
	tellLeftOut(s.Err, c)
	return x.run(ctx, s, guard, serving.Endpoint{Gatherer: registry, Ready: x.source.Ready, Pages: live.Pages()})
}

// build makes both worlds. Neither asks extenders or plugins that are compiled in. their tells what the other scheduler costs; nil: nobody
// does. forMirror are settings of the mirror alone.
func (x *shadowing) build(cfg coordinator.SchedulerConfig, their shadow.TheirSeconds,
	forMirror func(*coordinator.SchedulerConfig)) (err error) {
	extenders, err := extender.NewAll(cfg.Extenders, extender.Options{})
	if err != nil {
		return err
	}
	cfg.Extenders, cfg.OutOfTree = nil, nil
	asked := notAsked(x.config, extenders)
	if x.own, err = shadow.NewOwnWorld(shadow.OwnConfig{Scheduler: cfg, NotAsked: asked, Their: their}); err != nil {
		return err
	}
	forMirror(&cfg)
	x.mirror, err = shadow.NewMirror(shadow.MirrorConfig{
		Scheduler: cfg, ToFind: x.config.NodesToFind, NotAsked: asked, Words: wordsOf,
	})
	for _, name := range x.config.NotEvaluated() {
		x.lacks = append(x.lacks, shadow.Count{What: "the configuration uses " + name + ", which is not evaluated"})
	}
	return err
}

// notAsked tells who has a say in a pod's node and is not asked. PodGroups are not read: theirs decides members together, and each of
// their binds is held against what ours would have done with the pod alone.
func notAsked(c *config.Config, extenders []*extender.Extender) func(*v1.Pod) string {
	plugins := map[string]bool{}
	for _, p := range c.OutOfTree() {
		plugins[p.Name] = true
	}
	return func(p *v1.Pod) string {
		if plugins[p.Spec.SchedulerName] {
			return "plugins that are compiled in have a say in it"
		}
		if _, ok := groups.NameOf(p); ok {
			return "its PodGroup has a say in it"
		}
		for _, e := range extenders {
			if e.IsInterested(p) {
				return "extender " + e.Label() + " has a say in it"
			}
		}
		return ""
	}
}

// tellLeftOut says who is not asked.
func tellLeftOut(w io.Writer, c *config.Config) {
	for _, p := range c.OutOfTree() {
		fmt.Fprintf(w, "profile %s: plugins that are compiled in are not asked; its pods are not judged\n", p.Name)
	}
	for _, e := range c.Extenders() {
		fmt.Fprintf(w, "extender %s is not asked; pods that it has a say in are not judged\n", e.URLPrefix)
	}
}

// wordsOf is an explanation as `shardsched explain` has it.
func wordsOf(pod string, e *pb.ExplainResponse) string {
	var b strings.Builder
	if err := renderExplanation(&b, pod, e); err != nil {
		return ""
	}
	return b.String()
}

// reportEvery is how often the report is written to files.
const reportEvery = time.Minute

// run watches until the time is over or ctx ends, and reports.
func (x *shadowing) run(ctx context.Context, s Streams, guard *serving.Guard, e serving.Endpoint) error {
	g, alive := errgroup.WithContext(context.WithoutCancel(ctx))
	alive, end := context.WithCancel(alive)
	defer end()
	if err := x.o.Process.serve(alive, g, guard, e); err != nil {
		return endGroup(g, err)
	}
	g.Go(func() error { return x.source.Run(alive) })
	g.Go(func() error {
		defer end()
		stop, err := x.watch(ctx, alive, s)
		if err != nil {
			if ctx.Err() != nil {
				err = nil // told to end before it began
			}
			return err
		}
		// What was decided until now is judged, and then both worlds stop.
		running, halt := context.WithCancel(alive)
		defer halt()
		both, running := errgroup.WithContext(running)
		both.Go(func() error { return x.mirror.Run(running) })
		both.Go(func() error { return x.own.Run(running) })
		both.Go(func() error {
			defer halt()
			x.wait(ctx, running)
			stop()
			return nil
		})
		return both.Wait()
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return x.tell(s)
}

// watch subscribes both worlds to the cluster.
func (x *shadowing) watch(ctx, alive context.Context, s Streams) (stop func(), err error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(alive, cancel)()
	if err := x.source.WaitSynced(waiting); err != nil {
		return nil, err
	}
	loaded := make(chan struct{})
	all, stop, err := x.source.Subscribe(func(events []objects.Event) {
		<-loaded
		x.own.Deliver(events)
		x.mirror.Deliver(events)
	})
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	x.own.Load(all)
	x.mirror.Load(all)
	x.begun.Store(&begun)
	close(loaded)
	fmt.Fprintf(s.Err, "watching %d nodes and %d pods, and binding nothing\n", len(all.Nodes), len(all.Pods))
	return stop, nil
}

// wait writes reports until the time is over.
func (x *shadowing) wait(ctx, running context.Context) {
	var over <-chan time.Time
	if x.o.For > 0 {
		timer := time.NewTimer(x.o.For)
		defer timer.Stop()
		over = timer.C
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-running.Done():
			return
		case <-tick.C:
			if err := x.writeFiles(x.report()); err != nil {
				klog.FromContext(ctx).Error(err, "The report is not written")
			}
		}
	}
}

// report is the report as it stands.
func (x *shadowing) report() *shadow.Report {
	r := &shadow.Report{When: shadow.When{Until: time.Now().UTC()}, Agreement: x.mirror.Agreement()}
	if begun := x.begun.Load(); begun != nil {
		r.When.Begun = begun.UTC()
	} else {
		r.When.Begun = r.When.Until
	}
	x.own.Fill(r, x.mirror.Thread())
	r.Judge(x.lacks)
	return r
}

// tell writes the last report.
func (x *shadowing) tell(s Streams) error {
	if x.begun.Load() == nil {
		return errors.New("told to end before the cluster was read: there is nothing to report")
	}
	r := x.report()
	r.When.Over = true
	err := x.writeFiles(r)
	if len(x.o.Reports) == 0 || slices.Contains(x.o.Reports, "-") {
		err = errors.Join(err, r.WriteText(s.Out))
	}
	if err == nil && !r.Verdict.Ready {
		return errNotReady
	}
	return err
}

// writeFiles writes the report to its files, each of which is either the old one or whole.
func (x *shadowing) writeFiles(r *shadow.Report) (err error) {
	for _, name := range x.o.Reports {
		if name != "-" {
			err = errors.Join(err, writeReport(name, r))
		}
	}
	return err
}

// tryReports tells before a run what would keep its report in the end. It leaves files that are there as they are.
func tryReports(names []string) error {
	for _, name := range names {
		if name == "-" {
			continue
		}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return fmt.Errorf("report: %s is a folder", name)
		}
		f, err := createPrivate(name+partOfReport, os.O_WRONLY|os.O_TRUNC)
		if err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

// partOfReport ends the name of a report while it is written.
const partOfReport = ".part"

func writeReport(name string, r *shadow.Report) error {
	write := map[string]func(io.Writer) error{".html": r.WriteHTML, ".json": r.WriteJSON, ".txt": r.WriteText}[filepath.Ext(name)]
	part := name + partOfReport
	f, err := createPrivate(part, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("report %s: %w", name, errors.Join(err, os.Remove(part)))
	}
	if err := os.Rename(part, name); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
