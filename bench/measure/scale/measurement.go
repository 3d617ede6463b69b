package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// measurement is under way.
type measurement struct {
	*plan
	fleet     *fleet
	report    *Report
	progress  io.Writer
	decisions decisions
}

// ordinary measures the parts decide and hedge, of one cluster.
func (m *measurement) ordinary(ctx context.Context) error {
	o, err := newObjects(m.Nodes, m.Pods, m.Seed)
	if err != nil {
		return err
	}
	if m.does(partDecide) {
		if err := m.decide(ctx, o); err != nil {
			return err
		}
	}
	if !m.does(partHedge) {
		return nil
	}
	return m.hedge(ctx, o)
}

// decide measures each number of workers, deciding and alone.
func (m *measurement) decide(ctx context.Context, o objects) error {
	w, err := newShardTables(o, m.Shards)
	if err != nil {
		return err
	}
	return m.each(ctx, partDecide, len(o.nodes), m.Workers, m.fleet.core, func(c *crew) error {
		if err := m.run(ctx, c, o, conditions{m.Shards, m.Limit, false, m.way()}, &m.report.Decide); err != nil {
			return err
		}
		fan, err := c.ask(ctx, w, m.Batch, m.Batch+1, m.Limit)
		m.report.Fan = append(m.report.Fan, fan)
		return err
	})
}

// million measures deciding with each number of workers where a pass over rows is most of what is done.
func (m *measurement) million(ctx context.Context) error {
	o, err := newObjects(m.MillionNodes, m.Pods, m.Seed)
	if err != nil {
		return err
	}
	return m.each(ctx, partMillion, len(o.nodes), m.Workers, m.fleet.core, func(c *crew) error {
		return m.run(ctx, c, o, conditions{m.Shards, m.SlowLimit, false, m.way()}, &m.report.Million)
	})
}

// small measures workers with an eighth of a core each, all on one, beside a coordinator with a core of its own.
func (m *measurement) small(ctx context.Context) (err error) {
	back, err := process.Stay(m.fleet.cores[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, back()) }()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	last := func(int) int { return m.fleet.core(0) }
	for _, nodes := range m.SmallNodes {
		o, err := newObjects(nodes, m.Pods, m.Seed)
		if err != nil {
			return err
		}
		err = m.each(ctx, partSmall, nodes, m.SmallWorkers, last, func(c *crew) error {
			return m.run(ctx, c, o, conditions{m.Shards, m.SlowLimit, true, m.way()}, &m.report.Small)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each starts each number of workers, in turn and back again for each repetition.
func (m *measurement) each(ctx context.Context, part string, nodes int, workers []int, cores func(int) int, do func(*crew) error) error {
	order := slices.Clone(workers)
	for i := range m.Repetitions {
		for _, n := range order {
			c, err := m.fleet.start(ctx, n, cores)
			if err != nil {
				return err
			}
			err = errors.Join(do(c), c.stop())
			debug.FreeOSMemory() // the next run is not to collect this one's garbage
			if err != nil {
				return fmt.Errorf("%s: %d nodes, %d workers: %w", part, nodes, n, err)
			}
			fmt.Fprintf(m.progress, "%s: %d of %d, %d nodes, %d workers\n", part, i+1, m.Repetitions, nodes, n)
		}
		slices.Reverse(order)
	}
	return nil
}

// run measures deciding once, and holds the decisions against those of the runs before.
func (m *measurement) run(ctx context.Context, c *crew, o objects, x conditions, to *[]Decide) error {
	d, lines, err := c.decide(ctx, o, x)
	if err != nil {
		return err
	}
	*to = append(*to, d)
	return m.decisions.hold(len(o.nodes), lines)
}

// hedge measures batches while workers stall.
func (m *measurement) hedge(ctx context.Context, o objects) (err error) {
	c, err := m.fleet.start(ctx, stallers, m.fleet.core)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	for i := range m.Repetitions {
		stall := &stalls{m.StallEvery, m.Stall, m.Seed + uint64(i)}
		for _, replicas := range []int{1, 2} {
			for _, x := range []*stalls{nil, stall} {
				h, err := c.hedge(ctx, o, m.Shards, m.way(), replicas, m.Batch, x, m.Limit)
				if err != nil {
					return fmt.Errorf("%d replicas, stalls %t: %w", replicas, x != nil, err)
				}
				m.report.Hedge = append(m.report.Hedge, h)
			}
		}
		fmt.Fprintf(m.progress, "%s: %d of %d\n", partHedge, i+1, m.Repetitions)
	}
	return nil
}

// stallers are the workers of which one stalls.
const stallers = 2
