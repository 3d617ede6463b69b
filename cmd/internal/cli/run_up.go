package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardsched/shardsched/coordinator"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// errDone ends `up` once it has nothing left to do.
var errDone = errors.New("done")

// runUp is `shardsched up`: an etcd, a coordinator and workers, each a server on
// loopback, and the objects that the flags name, sent as any client would.
func runUp(ctx context.Context, s Streams, o UpOptions) error {
	in, err := readInput(s, o.input())
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
	g, gctx := errgroup.WithContext(ctx)
	v := service{
		process: o.Process, sharding: o.Sharding, tls: o.TLS, listen: o.Listen, config: o.Config,
		decisions: o.DecisionLog, etcd: etcd,
		leading: func(s *coordinator.Scheduler) {
			if s != nil {
				select {
				case leading <- s:
				default:
				}
			}
		},
		listening: func(a string) { address <- a },
	}
	g.Go(func() error { return v.run(gctx) })
	g.Go(func() error {
		select {
		case <-gctx.Done():
			return nil
		case a := <-address:
			fmt.Fprintf(s.Err, "shardsched is up: clients on %s, etcd on %s, %d workers\n", a, endpoint, o.Sharding.Workers)
			return o.feed(gctx, s, in, a, leading)
		}
	})
	if err := g.Wait(); err != nil && !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// feed submits the input and, where that is asked for, waits for the end and shows
// the summary.
func (o UpOptions) feed(ctx context.Context, s Streams, in *Input, address string, leading <-chan *coordinator.Scheduler) error {
	var scheduler *coordinator.Scheduler
	select {
	case <-ctx.Done():
		return nil
	case scheduler = <-leading:
	}
	report := newProgress(s, len(in.Pods))
	applied := make(chan error, 1)
	go func() { applied <- o.submit(ctx, s, in, address) }()
	if err := watchUntil(ctx, scheduler, applied, report.update); err != nil {
		report.done()
		return err
	}
	if !o.ExitWhenIdle {
		report.done()
		return nil
	}
	err := watchUntilIdle(ctx, scheduler, report.update)
	report.done()
	if err != nil {
		return err
	}
	sum, err := scheduler.Summary(ctx)
	if err != nil {
		return err
	}
	if err := printSummary(s, s.Out, o.Output, sum); err != nil {
		return err
	}
	return errDone
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
