package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"golang.org/x/sync/errgroup"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/store"
)

// Decision is a line of our decision log.
type Decision struct {
	Seq      uint64 `json:"seq"`
	Pod      string `json:"pod"`
	UID      string `json:"uid"`
	Profile  string `json:"profile"`
	Node     string `json:"node"`
	Score    int64  `json:"score"`
	Feasible int    `json:"feasible"`
	Nodes    int    `json:"nodes"`
	Message  string `json:"message"`
}

// Split is how our scheduler cuts the work up. It has no influence on decisions.
type Split struct {
	Shards, Batch int
}

// Ours runs our scheduler, without workers, and returns the decisions of each round.
func Ours(ctx context.Context, s *Scenario, split Split) ([][]Decision, error) {
	prof, err := s.Settings.profile()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	log := coordinator.NewDecisionLog(&out)
	clock := newClock()
	scheduler, err := coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: "conformance", Term: 1, Shards: split.Shards, BatchSize: split.Batch,
		Profiles:  map[string]*compile.Profile{prof.Name(): prof},
		Decisions: log,
		QueueNow:  clock.now,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return scheduler.Run(ctx) })
	var rounds [][]Decision
	g.Go(func() error {
		defer cancel()
		for i, round := range s.Rounds {
			clock.advance()
			scheduler.Deliver(events(round))
			if err := idle(ctx, scheduler); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
			if err := log.Flush(); err != nil {
				return err
			}
			decisions, err := parse(&out)
			if err != nil {
				return err
			}
			rounds = append(rounds, decisions)
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("our scheduler: %w", err)
	}
	return rounds, nil
}

// clock stands still within a round, so that how long one takes has no influence, and is
// past every backoff in the next.
type clock struct{ unix atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.unix.Store(1_800_000_000)
	return c
}

func (c *clock) now() time.Time { return time.Unix(c.unix.Load(), 0) }
func (c *clock) advance()       { c.unix.Add(60) }

// patience is how long a round may take. Its pods are decided in well under a second.
const patience = 3 * time.Second

// idle waits until a round is over.
func idle(ctx context.Context, scheduler *coordinator.Scheduler) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := scheduler.Idle(waiting)
	if err == nil || ctx.Err() != nil {
		return err
	}
	summary, serr := scheduler.Summary(ctx)
	return fmt.Errorf("the scheduler does not come to rest within %v: %v (%v)", patience, summary, serr)
}

// parse reads the lines that were written since the last call.
func parse(log *bytes.Buffer) ([]Decision, error) {
	var out []Decision
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var d Decision
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("decision log: %w", err)
		}
		out = append(out, d)
	}
	log.Reset()
	return out, lines.Err()
}

// events words a round as our scheduler hears of it. Pods that have run to their end
// are not among them.
func events(round Round) []store.Event {
	out := make([]store.Event, 0, len(round))
	for _, e := range round {
		x := store.Event{Type: store.Modified, Kind: objects.KindNode, Node: e.Node, Pod: e.Pod}
		if e.Pod != nil {
			x.Kind = objects.KindPod
		}
		if e.Type == Removed {
			x.Type = store.Deleted
		}
		out = append(out, x)
	}
	return out
}

// name is how the decision log names a pod.
func name(p *v1.Pod) string { return p.Namespace + "/" + p.Name }
