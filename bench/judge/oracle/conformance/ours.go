package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
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
	// Nominated is the node that preemption has chosen, and Victims are whom it evicts
	// there, the most important first.
	Nominated string   `json:"nominated"`
	Victims   []string `json:"victims"`
	// Claims are those that are given devices with the decision, in the pod's order; the one for extended
	// resources has no name.
	Claims []DecidedClaim `json:"claims"`
	// PodGroup is the pod group that the pod was decided with, Held the node that it would have got where its mates are too few, Domain
	// what they share, "key=value".
	PodGroup string `json:"podGroup"`
	Held     string `json:"held"`
	Domain   string `json:"domain"`
	aftermath
	// inFlight are claims that get devices with the decision, where that is told.
	inFlight []*resourcev1.ResourceClaim
}

// DecidedClaim is a claim, "namespace/name", and its devices as "request/driver/pool/device".
type DecidedClaim struct {
	Claim   string   `json:"claim"`
	Devices []string `json:"devices"`
}

// ours is our scheduler, without workers.
type ours struct {
	scheduler *coordinator.Scheduler
	log       *observe.DecisionLog
	out       bytes.Buffer // of the log, what is not parsed
	all       []byte       // of it, what was parsed
	clock     *clock
	metrics   *prometheus.Registry
	stop      context.CancelFunc
	ended     chan error
	kept      *keeper
	// patience is how long a round may take.
	patience time.Duration
}

func startOurs(ctx context.Context, file []byte, s *Scenario, split Split, kept *keeper) (*ours, error) {
	c, err := ourConfig(file, s.PodGroups)
	if err != nil {
		return nil, err
	}
	profiles, err := c.Profiles()
	if err != nil {
		return nil, err
	}
	o := &ours{clock: newClock(), metrics: prometheus.NewRegistry(), ended: make(chan error, 1), kept: kept, patience: patience}
	o.log = observe.NewDecisionLog(&o.out)
	o.scheduler, err = coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: "conformance", Term: 1, Shards: split.Shards, BatchSize: split.Batch,
		Profiles: profiles, Decisions: o.log, QueueNow: o.clock.now, Frozen: true, DisruptionController: true,
		Registerer: o.metrics, Log: klog.FromContext(ctx), Recorder: kept.recorder(), Groups: s.PodGroups.ours(),
		GangReservation: s.PodGroups != nil && s.PodGroups.Reservation,
	})
	if err != nil {
		return nil, err
	}
	ctx, o.stop = context.WithCancel(ctx)
	go func() { o.ended <- o.scheduler.Run(ctx) }()
	return o, nil
}

// ourConfig is a configuration file as our scheduler has it, under the gates of pod groups.
func ourConfig(text []byte, gates *PodGroups) (*config.Config, error) {
	reader := config.Reader{}.With(gates.ours())
	if text == nil {
		return reader.FromDefault()
	}
	return reader.Parse("config.json", text)
}

// pinned is how many classes were given pinned sums.
func (o *ours) pinned() (int, error) {
	families, err := o.metrics.Gather()
	if err != nil {
		return 0, err
	}
	for _, f := range families {
		if f.GetName() == "shardsched_pinned_classes_total" {
			return int(f.GetMetric()[0].GetCounter().GetValue()), nil
		}
	}
	return 0, errors.New("no metric shardsched_pinned_classes_total")
}

// end stops the scheduler.
func (o *ours) end() error {
	o.stop()
	if err := <-o.ended; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("our scheduler: %w", err)
	}
	return nil
}

// step lets a round happen, and returns what was decided in it.
func (o *ours) step(ctx context.Context, round Round) ([]Decision, error) {
	told := make(Round, len(round))
	for i, e := range round {
		told[i] = o.kept.told(e)
	}
	events, err := storeEvents(told)
	if err != nil {
		return nil, err
	}
	o.clock.advance()
	o.scheduler.Deliver(events)
	if err := o.idle(ctx); err != nil {
		return nil, err
	}
	if err := o.log.Flush(); err != nil {
		return nil, err
	}
	o.all = append(o.all, o.out.Bytes()...)
	decisions, err := parse(&o.out)
	if err != nil {
		return nil, err
	}
	return decisions, o.kept.take(decisions)
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

// A round's pods are decided in well under a second. A scenario that is made smaller is not
// worth much waiting: there are hundreds of others.
const (
	patience = 3 * time.Second
	haste    = 300 * time.Millisecond
)

// idle waits until a round is over.
func (o *ours) idle(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	err := o.scheduler.Idle(waiting)
	if err == nil || ctx.Err() != nil {
		return err
	}
	summary, serr := o.scheduler.Summary(ctx)
	return fmt.Errorf("our scheduler does not come to rest within %v: %v (%v)", o.patience, summary, serr)
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

// storeEvents words a round as our scheduler hears of it.
func storeEvents(round Round) ([]objects.Event, error) {
	out := make([]objects.Event, 0, len(round))
	for _, e := range round {
		x := objects.Event{Type: objects.Modified}
		if e.Type == Removed {
			x.Type = objects.Deleted
		}
		switch obj := e.Object.(type) {
		case *v1.Node:
			x.Kind, x.Node = objects.KindNode, obj
		case *v1.Pod:
			x.Kind, x.Pod = objects.KindPod, obj
		case objects.Object:
			x.Kind, x.Object = objects.KindOf(obj), obj
		default:
			return nil, fmt.Errorf("our scheduler knows no %T", obj)
		}
		out = append(out, x)
	}
	return out, nil
}

// name is how the decision log names a pod.
func name(p *v1.Pod) string { return p.Namespace + "/" + p.Name }
