package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/worker"
)

// workerCacheBytes is room for the shards of a million nodes.
const workerCacheBytes = 8 << 30

// decision is a line of our decision log, or one of upstream's.
type decision struct {
	UID      string `json:"uid"`
	Node     string `json:"node"` // empty: it fits nowhere
	Score    int64  `json:"score"`
	Feasible int    `json:"feasible"`
	Message  string `json:"message"`
	Claims   told   `json:"claims"`
}

// ours is our scheduler: the loop in memory, binding nothing.
type ours struct {
	scheduler *coordinator.Scheduler
	registry  *prometheus.Registry   // the coordinator's
	workers   []*prometheus.Registry // a worker's each
	traffic   traffic
	log       *observe.DecisionLog
	file      *os.File // the log's, which has no name any more
	group     *errgroup.Group
	stop      context.CancelFunc
	ended     bool
	// takes says that pods are the scheduler's alone once they are delivered, as an informer keeps
	// no object of which a newer one has come.
	takes bool
	// read is how many decisions of the log are not measured, decided how many are.
	read, decided int
	counted       counts
	unmeasured    []decision // before those of the last call
	// single says that each pod comes when the one before is decided; took is how long each was
	// decided after it came.
	single bool
	took   []time.Duration
	leave  int // the kind's
}

// counts are what our side says of a run.
type counts struct{ rounds, again, batches uint64 }

// newOurs starts a scheduler that knows all but the waiting pods, with workers on loopback; 0:
// it evaluates its own tables.
func newOurs(ctx context.Context, w *Workload, o *Options, workers int) (*ours, error) {
	file, err := os.CreateTemp("", "decisions")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	s := &ours{file: file, leave: w.Kind.leave, registry: prometheus.NewRegistry(), log: observe.NewDecisionLog(file)}
	s.scheduler, err = coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: clusterName, Term: 1, Shards: o.Shards, BatchSize: o.Batch, Decisions: s.log, Registerer: s.registry,
		Groups:   w.Kind.gates(),
		QueueNow: time.Now, // how long a pod takes does not change the order, so that runs can be compared
	})
	if err != nil {
		return nil, err
	}
	ctx, s.stop = context.WithCancel(ctx)
	s.group, ctx = errgroup.WithContext(ctx)
	if err := s.serve(ctx, workers); err != nil {
		return nil, errors.Join(err, s.end())
	}
	all := &objects.Snapshot{Nodes: w.Nodes, Pods: w.Placed}
	for _, obj := range w.Objects {
		all.Cluster = append(all.Cluster, obj.(objects.Object))
	}
	s.scheduler.Load(all, nil)
	s.group.Go(func() error { return s.scheduler.Run(ctx) })
	if err := s.await(ctx, slices.Clone(w.Waiting)); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

// clusterName is that of every run.
const clusterName = "bench"

// serve starts workers.
func (o *ours) serve(ctx context.Context, workers int) error {
	var members []fanout.Member
	for i := range workers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("worker %d: %w", i, err)
		}
		r := prometheus.NewRegistry()
		s := worker.New(worker.Config{
			Cluster: clusterName, ID: fmt.Sprint(i), Address: l.Addr().String(), Cores: max(1,
				runtime.GOMAXPROCS(0)/workers), Registerer: r,
			CacheBytes: workerCacheBytes,
		})
		o.workers = append(o.workers, r)
		o.group.Go(func() error { return s.Run(ctx, worker.RunConfig{Listener: counted{l, &o.traffic}}) })
		m := s.Member()
		members = append(members, fanout.Member{ID: m.Id, Address: m.Address, Cores: m.Cores, Version: m.Version})
	}
	o.scheduler.SetMembers(members)
	return nil
}

func (o *ours) decide(ctx context.Context, pods []*v1.Pod, limit time.Duration) (int, error) {
	before, err := o.count(ctx)
	if err != nil {
		return 0, err
	}
	o.read = int(before.Decisions)
	batches, err := value(o.registry, "shardsched_batch_pods")
	if err != nil {
		return 0, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	o.took = o.took[:0]
	if o.leave > 0 {
		err = o.inTurns(limited, pods)
	} else {
		err = o.bring(limited, pods)
	}
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return 0, err
	}
	after, err := o.count(ctx)
	if err != nil {
		return 0, err
	}
	now, err := value(o.registry, "shardsched_batch_pods")
	o.decided = int(after.Decisions - before.Decisions)
	o.counted = counts{after.Rounds - before.Rounds, after.Requeries - before.Requeries, uint64(now - batches)}
	return o.decided, err
}

// bring has pods decided.
func (o *ours) bring(ctx context.Context, pods []*v1.Pod) error {
	if o.single {
		return o.oneByOne(ctx, pods)
	}
	return o.await(ctx, pods)
}

// inTurns brings some pods at a time. They leave with their claims before others come.
func (o *ours) inTurns(ctx context.Context, pods []*v1.Pod) error {
	for turn := range slices.Chunk(pods, o.leave) {
		var events []objects.Event
		for _, p := range turn {
			events = append(events, objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: p})
			for _, c := range claimsOf(p) {
				events = append(events, objects.Event{Type: objects.Deleted, Kind: objects.KindResourceClaim, Object: c})
			}
		}
		if err := o.bring(ctx, turn); err != nil {
			return err
		}
		if &turn[0] != &pods[(len(pods)-1)/o.leave*o.leave] {
			o.scheduler.Deliver(events)
		}
	}
	return nil
}

// await delivers pods and waits until they are decided.
func (o *ours) await(ctx context.Context, pods []*v1.Pod) error {
	events := make([]objects.Event, len(pods))
	for i, p := range pods {
		events[i] = objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p}
	}
	o.scheduler.Deliver(events)
	if o.takes {
		clear(pods)
	}
	return o.scheduler.Idle(ctx)
}

// oneByOne delivers each pod when the one before is decided, or each gang.
func (o *ours) oneByOne(ctx context.Context, pods []*v1.Pod) error {
	for n := 0; n < len(pods); {
		began, together := time.Now(), withMates(pods[n:], 1)
		if err := o.await(ctx, pods[n:n+together]); err != nil {
			return err
		}
		n += together
		o.took = append(o.took, time.Since(began))
	}
	return nil
}

func (o *ours) count(ctx context.Context) (*pb.Summary, error) { return o.scheduler.Summary(ctx) }

// decisions are those that were measured last. It ends the side.
func (o *ours) decisions() ([]decision, error) {
	if err := errors.Join(o.end(), o.log.Flush()); err != nil {
		return nil, err
	}
	if _, err := o.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	all := make([]decision, 0, o.read+o.decided)
	lines := bufio.NewScanner(o.file)
	lines.Buffer(nil, 1<<20)
	for len(all) < o.read+o.decided && lines.Scan() {
		var d decision
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("decision log: %w", err)
		}
		all = append(all, d)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("decision log: %w", err)
	}
	if len(all) != o.read+o.decided {
		return nil, fmt.Errorf("the decision log has %d of %d decisions", len(all), o.read+o.decided)
	}
	o.unmeasured = all[:o.read]
	return all[o.read:], nil
}

// workerBytes is what the shards take in the workers.
func (o *ours) workerBytes() (sum float64, err error) {
	for _, r := range o.workers {
		v, err := value(r, "shardsched_worker_cache_bytes")
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

// value is a metric's, summed over its labels; of a histogram, how many it has seen.
func value(r *prometheus.Registry, name string) (sum float64, err error) {
	families, err := r.Gather()
	if err != nil {
		return 0, err
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		return sum, nil
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

func (o *ours) end() error {
	if o.ended {
		return nil
	}
	o.ended = true
	o.stop()
	if err := o.group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("our scheduler: %w", err)
	}
	return nil
}
