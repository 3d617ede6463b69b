package decide

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/store"
	"github.com/shardsched/shardsched/worker"
)

// shards is how many parts the nodes are cut into.
const shards = 2

// decision is a line of our decision log.
type decision struct {
	UID      string `json:"uid"`
	Node     string `json:"node"`
	Score    int64  `json:"score"`
	Feasible int    `json:"feasible"`
	Message  string `json:"message"`
}

// ours is our scheduler: the loop in memory, binding nothing.
type ours struct {
	scheduler *coordinator.Scheduler
	log       *coordinator.DecisionLog
	out       bytes.Buffer
	group     *errgroup.Group
	stop      context.CancelFunc
}

// newOurs starts a scheduler that knows all but the waiting pods, with workers on loopback; 0:
// it evaluates its own tables.
func newOurs(ctx context.Context, w *Workload, workers, batch int) (*ours, error) {
	o := &ours{}
	o.log = coordinator.NewDecisionLog(&o.out)
	var err error
	o.scheduler, err = coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: "bench", Term: 1, Shards: shards, BatchSize: batch, Decisions: o.log,
	})
	if err != nil {
		return nil, err
	}
	ctx, o.stop = context.WithCancel(ctx)
	o.group, ctx = errgroup.WithContext(ctx)
	if err := o.serve(ctx, workers); err != nil {
		return nil, errors.Join(err, o.end())
	}
	all := &store.Objects{Nodes: w.Nodes, Pods: w.Placed}
	for _, obj := range w.Objects {
		all.Cluster = append(all.Cluster, obj.(objects.Object))
	}
	o.scheduler.Load(all, nil)
	o.group.Go(func() error { return o.scheduler.Run(ctx) })
	return o, nil
}

// serve starts workers.
func (o *ours) serve(ctx context.Context, workers int) error {
	var members []fanout.Member
	for i := range workers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("worker %d: %w", i, err)
		}
		s := worker.New(worker.Config{
			ID: fmt.Sprint(i), Address: l.Addr().String(), Cores: max(1, runtime.GOMAXPROCS(0)/workers),
		})
		o.group.Go(func() error { return s.Run(ctx, worker.RunConfig{Listener: l}) })
		m := s.Member()
		members = append(members, fanout.Member{ID: m.Id, Address: m.Address, Cores: m.Cores, Version: m.Version})
	}
	o.scheduler.SetMembers(members)
	return nil
}

func (o *ours) decide(ctx context.Context, pods []*v1.Pod) (int, error) {
	events := make([]store.Event, len(pods))
	for i, p := range pods {
		events[i] = store.Event{Type: store.Added, Kind: objects.KindPod, Pod: p}
	}
	o.scheduler.Deliver(events)
	return len(pods), o.scheduler.Idle(ctx)
}

// decisions are those since the last call.
func (o *ours) decisions() ([]decision, error) {
	if err := o.log.Flush(); err != nil {
		return nil, err
	}
	var out []decision
	for lines := bufio.NewScanner(&o.out); lines.Scan(); {
		var d decision
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("decision log: %w", err)
		}
		if d.Node == "" {
			return nil, fmt.Errorf("pod %s fits nowhere for us: %s", d.UID, d.Message)
		}
		out = append(out, d)
	}
	o.out.Reset()
	return out, nil
}

// rounds tells how often workers were asked, and how many of those because an answer was
// used up.
func (o *ours) rounds(ctx context.Context) (rounds, again uint64, err error) {
	s, err := o.scheduler.Summary(ctx)
	return s.GetRounds(), s.GetRequeries(), err
}

func (o *ours) end() error {
	o.stop()
	if err := o.group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("our scheduler: %w", err)
	}
	return nil
}
