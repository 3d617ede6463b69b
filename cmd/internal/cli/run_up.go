package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	etcd, endpoint, stop, err := o.EmbeddedEtcd.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	address := make(chan string, 1)
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
		listening: func(a string) { address <- a },
	}
	g.Go(func() error { return v.run(gctx) })
	g.Go(func() error {
		defer end()
		feeding, stop := context.WithCancel(ctx)
		defer stop()
		context.AfterFunc(gctx, stop)
		select {
		case <-feeding.Done():
			return nil
		case a := <-address:
			fmt.Fprintf(s.Err, "shardsched is up: clients on %s, etcd on %s, %d workers\n", a, endpoint, o.Sharding.Workers)
			return o.feed(feeding, s, in, within, leading)
		}
	})
	return g.Wait()
}

// feed submits the input and, where that is asked for, waits for the end and shows
// the summary.
func (o UpOptions) feed(ctx context.Context, s Streams, in *Input, l *bufconn.Listener, leading <-chan *coordinator.Scheduler) error {
	var scheduler *coordinator.Scheduler
	select {
	case <-ctx.Done():
		return nil
	case scheduler = <-leading:
	}
	report := newProgress(s, waiting(in.Pods))
	applied := make(chan error, 1)
	go func() { applied <- o.submit(ctx, in, l) }()
	err := watchUntil(ctx, scheduler, applied, report.update)
	if err == nil && o.ExitWhenIdle {
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
	if err == nil && !o.ExitWhenIdle {
		<-ctx.Done()
		return nil
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	return errors.Join(showSummary(ctx, s, s.Out, o.Output, scheduler), err)
}

// showSummary ends a run with its summary, also where it was interrupted.
func showSummary(ctx context.Context, s Streams, w io.Writer, form string, scheduler *coordinator.Scheduler) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), summaryPatience)
	defer cancel()
	sum, err := scheduler.Summary(ctx)
	if err != nil {
		return err
	}
	return printSummary(s, w, form, sum)
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
