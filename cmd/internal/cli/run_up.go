package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/test/bufconn"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// summaryPatience is how long a scheduler in the middle of a batch may take to answer.
const summaryPatience = 5 * time.Second

// runUp is `shardsched up`: an etcd, a coordinator and workers, each a server, and the objects
// that the flags name, sent as any client would.
func runUp(ctx context.Context, s Streams, o UpOptions) error {
	configuration, err := o.Configuration.load()
	if err != nil {
		return err
	}
	in, err := readInput(s, o.input())
	if err != nil {
		return err
	}
	guard, err := o.TLS.Open(o.Cluster)
	if err == nil {
		err = guard.RequireSelf(serving.Coordinator, "")
	}
	if err != nil {
		return err
	}
	etcd, endpoint, stop, err := o.EmbeddedEtcd.start(ctx, false, 0)
	if err != nil {
		return err
	}
	defer stop()
	ctx = withPlainLog(ctx, s.Err)
	address, pages := make(chan string, 1), make(chan string, 1)
	leading := make(chan *coordinator.Scheduler, 1)
	// An interrupt ends the feeding first: the scheduler still has to tell how far it is.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, gctx := errgroup.WithContext(alive)
	within := bufconn.Listen(pipeBytes)
	v := service{
		process: o.Process, sharding: o.Sharding, guard: guard, listen: o.Listen, within: within,
		config: configuration, plugins: o.plugins, leaseTTL: configuration.LeaseDuration,
		decisions: o.DecisionLog, recording: o.Recording, tracing: o.Tracing, etcd: etcd,
		leading: func(s *coordinator.Scheduler) {
			if s == nil {
				return
			}
			select {
			case <-leading: // of a term that is over
			default:
			}
			leading <- s
		},
		listening: func(a, console string) { pages <- console; address <- a },
	}
	var ended outcome
	g.Go(func() error { return v.run(gctx) })
	g.Go(func() (err error) {
		defer end()
		feeding, stop := context.WithCancel(ctx)
		defer stop()
		context.AfterFunc(gctx, stop)
		select {
		case <-feeding.Done():
			return nil
		case a := <-address:
			fmt.Fprintf(s.Err, "shardsched is up: clients on %s, etcd on %s, %d workers. Ctrl-C ends it.\n", a,
				cmp.Or(endpoint, "no port"), o.Sharding.Workers)
			if console := <-pages; console != "" {
				fmt.Fprintf(s.Err, "See it in a browser: %s\n", console)
			}
			ended, err = o.feed(feeding, s, in, within, leading, o.next(s, a))
			return err
		}
	})
	err = g.Wait()
	return errors.Join(o.farewell(s, ended, ctx.Err() != nil), err)
}

// outcome is what a run came to.
type outcome struct {
	summary *pb.Summary // nil: it did not come so far
	next    nextSteps
}

// farewell is the last that a run says.
func (o UpOptions) farewell(s Streams, x outcome, interrupted bool) error {
	if x.summary != nil {
		if err := printSummary(s, s.Out, o.Output, x.summary); err != nil {
			return err
		}
		if o.ExitWhenIdle && !interrupted && o.Output == "text" {
			x.next.afterwards(s.Err)
		}
	}
	switch {
	case o.DataDir != "":
		fmt.Fprintf(s.Err, "Stopped. Nodes, pods and all else are kept in %s; --data-dir %s goes on with them.\n", o.DataDir, o.DataDir)
	case interrupted:
		fmt.Fprintln(s.Err, "Stopped. Nothing is kept; --data-dir DIR would keep nodes, pods and all else.")
	}
	return nil
}

// feed submits the input, waits until it is scheduled and, unless the run ends then, goes on until it is interrupted.
func (o UpOptions) feed(ctx context.Context, s Streams, in *Input, l *bufconn.Listener, leading <-chan *coordinator.Scheduler,
	next nextSteps) (x outcome, err error) {
	var scheduler *coordinator.Scheduler
	select {
	case <-ctx.Done():
		return x, nil
	case scheduler = <-leading:
	}
	began := time.Now()
	report := newProgress(s, waiting(in.come()))
	applied := make(chan error, 1)
	var revision int64
	go func() {
		var err error
		revision, err = o.submit(ctx, in, l)
		applied <- err
	}()
	err = watchUntil(ctx, scheduler, applied, report.update)
	if err == nil { // what is applied is idle until it is seen
		err = scheduler.Seen(ctx, revision)
	}
	if waits := o.ExitWhenIdle || len(in.come()) > 0; err == nil && waits {
		err = watchUntilIdle(ctx, scheduler, report.update)
	}
	for errors.Is(err, coordinator.ErrStopped) && ctx.Err() == nil {
		// The lease was lost, on a machine that stood still: the next term goes on.
		select {
		case <-ctx.Done():
		case scheduler = <-leading:
			err = watchUntilIdle(ctx, scheduler, report.update)
		}
	}
	report.done()
	if err != nil && ctx.Err() == nil {
		return x, err
	}
	if x.next = next; err == nil {
		if x.summary, err = lastSummary(ctx, scheduler); err != nil {
			return x, err
		}
		x.next.placed(x.summary, time.Since(began))
		if o.ExitWhenIdle {
			return x, nil
		}
		if len(in.come()) > 0 {
			x.next.meanwhile(s.Err)
		}
		<-ctx.Done()
	}
	// Another term's scheduler may be there by now.
	select {
	case scheduler = <-leading:
	default:
	}
	x.summary, err = lastSummary(ctx, scheduler)
	if o.ExitWhenIdle {
		err = errors.Join(err, ctx.Err())
	}
	return x, err
}

// lastSummary is how far a run has come, also where it was interrupted.
func lastSummary(ctx context.Context, scheduler *coordinator.Scheduler) (*pb.Summary, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), summaryPatience)
	defer cancel()
	return scheduler.Summary(ctx)
}

// watchUntil shows progress until done gives an outcome.
func watchUntil(ctx context.Context, s *coordinator.Scheduler, done <-chan error, progress func(*pb.Summary)) error {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if sum, err := s.Progress(ctx); err == nil {
				progress(sum)
			}
		}
	}
}
