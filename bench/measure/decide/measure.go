package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Options say what is measured.
type Options struct {
	// UpstreamPods is how many of the pods upstream decides at the most, Limit for how long any
	// side decides.
	UpstreamPods int           `json:"upstreamPods"`
	Limit        time.Duration `json:"limitNanoseconds"`
	// Repetitions of each side.
	Repetitions int `json:"repetitions"`
	// Sample is how many of our decisions are judged.
	Sample int `json:"sample"`
	// Batch is how many pods share a round of ours; 0: the default.
	Batch int `json:"batch"`
	// Workers of the side with workers, and Shards that the nodes are cut into.
	Workers int `json:"workers"`
	Shards  int `json:"shards"`
	// Sides are those that are measured.
	Sides []string `json:"sides"`
	// Profiles is a folder for profiles of our sides; empty: none are made.
	Profiles string `json:"-"`
}

// singlePods is how many pods come alone.
const singlePods = 1000

// Names of the sides.
const (
	Upstream = "upstream"
	Sampled  = "sampled"
	Tables   = "tables"
	Workers  = "workers"
	Single   = "single"
)

// Sides are the names of all of them.
func Sides() []string { return []string{Upstream, Sampled, Tables, Workers, Single} }

// Run is what one repetition of a side took, by the pod where nothing else is said.
type Run struct {
	// Pods were decided; Refused of them fit nowhere.
	Pods           int     `json:"pods"`
	Refused        int     `json:"refused"`
	PerSecond      float64 `json:"decidedPerSecond"`
	CPUMicros      float64 `json:"cpuMicros"`
	WallMicros     float64 `json:"wallMicros"`
	AllocatedBytes float64 `json:"allocatedBytes"`
	Allocations    float64 `json:"allocations"`
	// P50Micros and P99Micros are from when a pod comes to when it is decided, where it comes alone.
	P50Micros float64 `json:"p50Micros,omitempty"`
	P99Micros float64 `json:"p99Micros,omitempty"`
	// ToWorkers and FromWorkers are bytes on the wire.
	ToWorkers   float64 `json:"toWorkersBytes"`
	FromWorkers float64 `json:"fromWorkersBytes"`
	// Batches of pods, Rounds to tables or workers, and Requeries: classes asked again, for their
	// candidates ran out or reasons were wanted. All of the run.
	Batches   uint64 `json:"batches"`
	Rounds    uint64 `json:"rounds"`
	Requeries uint64 `json:"requeries"`
	// SideBytes is what the side keeps on the heap by the node, before the measured pods come,
	// WorkerBytes what workers say that they keep of that, and WorkerEndBytes once pods are decided, with
	// what they hold for classes.
	SideBytes      float64 `json:"sideBytesPerNode"`
	WorkerBytes    float64 `json:"workerBytesPerNode"`
	WorkerEndBytes float64 `json:"workerEndBytesPerNode"`
	// PodBytes is what it keeps by the pod once all are decided, more than the objects that waited took;
	// 0: not all were.
	PodBytes float64 `json:"podBytes"`
	// PeakBytes is how much memory the process has held at the most, the pods and nodes
	// themselves included.
	PeakBytes float64 `json:"peakBytes"`
	// Placement is how good all that it decided is, and Common how good it is of as many pods
	// as all sides have decided.
	Placement Quality `json:"placement"`
	Common    Quality `json:"placementOfCommon"`

	decisions []decision
}

// Outcome is what one workload took.
type Outcome struct {
	Kind  string `json:"kind"`
	About string `json:"about"`
	Size  Size   `json:"size"`
	// NodeBytes is what the objects of the nodes take, by the node, PodObjectBytes what those of the
	// pods that are decided take, by the pod.
	NodeBytes      float64 `json:"nodeObjectBytes"`
	PodObjectBytes float64 `json:"podObjectBytes"`
	// Sides' runs, by name.
	Sides map[string][]Run `json:"sides"`
	// Judged is how many of our decisions were held against upstream.
	Judged int `json:"judged"`
}

// Measure measures one workload on all sides. It errs where a decision is none that upstream could
// have made.
func Measure(ctx context.Context, kind Kind, size Size, o Options) (*Outcome, error) {
	w, err := NewWorkload(kind, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind.Name, err)
	}
	size.Placed = len(w.Placed)
	m := &measurement{Options: o, workload: w, outcome: &Outcome{
		Kind: kind.Name, About: kind.About, Size: size, NodeBytes: w.NodeBytes, PodObjectBytes: w.PodBytes, Sides: map[string][]Run{},
	}}
	sides := slices.Clone(o.Sides)
	for i := range o.Repetitions {
		for _, name := range sides {
			if err := m.side(ctx, name, i); err != nil {
				return nil, fmt.Errorf("%s, %s nodes, %s: %w", kind.Name, size.Cluster, name, err)
			}
		}
		slices.Reverse(sides)
	}
	if err := w.refill(); err != nil {
		return nil, fmt.Errorf("%s: %w", kind.Name, err)
	}
	m.compare()
	if len(m.decisions) == 0 {
		return m.outcome, nil
	}
	if m.outcome.Judged, err = judge(ctx, w, m.warm, m.decisions, o.Sample); err != nil {
		return nil, fmt.Errorf("%s, %s nodes: %w", kind.Name, size.Cluster, err)
	}
	return m.outcome, nil
}

// measurement is under way.
type measurement struct {
	Options
	workload *Workload
	outcome  *Outcome
	// decisions are those of our longest run; all others must begin as it does.
	decisions []decision
	// warm is what was decided before the clock ran.
	warm []decision
}

// side sets a side up, measures it and drops it.
func (m *measurement) side(ctx context.Context, name string, repetition int) (err error) {
	if err := m.workload.refill(); err != nil {
		return err
	}
	before := heapBytes()
	debug.FreeOSMemory() // what was let go of is not this side's
	resetPeak()
	s, pods, err := m.start(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	if _, err := s.decide(ctx, []*v1.Pod{first()}, time.Hour); err != nil {
		return err
	}
	switch s := s.(type) {
	case *upstream:
		s.made = nil
	case *cycles:
		s.made = nil
	}
	nodes := float64(max(len(m.workload.Nodes), 1))
	ready := heapBytes()
	own, _ := s.(*ours)
	if own != nil {
		own.takes = true
	}
	var r Run
	var workers float64
	if own != nil {
		if workers, err = own.workerBytes(); err != nil {
			return err
		}
	}
	measured := func() (err error) { r, err = run(ctx, s, pods, m.Limit); return err }
	if own != nil && m.Profiles != "" {
		prefix := filepath.Join(m.Profiles, fmt.Sprintf("%s-%s-%s-%d", m.outcome.Kind, m.outcome.Size.Cluster, name, repetition))
		err = profiled(prefix, measured)
	} else {
		err = measured()
	}
	if err != nil {
		return err
	}
	r.SideBytes, r.PeakBytes = float64(ready-before)/nodes, peakBytes()
	if r.Pods >= len(pods) {
		r.PodBytes = float64(heapBytes()-ready) / float64(r.Pods)
	}
	if own != nil {
		if r.WorkerEndBytes, err = own.workerBytes(); err != nil {
			return err
		}
		r.WorkerBytes, r.WorkerEndBytes = workers/nodes, r.WorkerEndBytes/nodes
	}
	if r.decisions, err = s.decisions(); err != nil {
		return err
	}
	r.Refused = refusedOf(r.decisions)
	m.outcome.Sides[name] = append(m.outcome.Sides[name], r)
	if own == nil {
		return nil
	}
	m.warm = own.unmeasured
	return m.check(r.decisions)
}

// start sets a side up, and says which pods it is to decide.
func (m *measurement) start(ctx context.Context, name string) (side, []*v1.Pod, error) {
	pods := m.workload.Pods
	switch name {
	case Upstream, Sampled:
		if m.workload.Kind.gang > 0 {
			s, err := newCycles(ctx, m.workload, map[string]int32{Upstream: 100}[name])
			return s, pods[:withMates(pods, m.UpstreamPods)], err
		}
		s, err := newUpstream(ctx, m.workload)
		if err != nil {
			return nil, nil, err
		}
		if name == Sampled {
			s.oracle.Sample()
		}
		return s, pods[:min(m.UpstreamPods, len(pods))], nil
	case Workers:
		s, err := newOurs(ctx, m.workload, &m.Options, m.Workers)
		return s, pods, err
	case Single:
		s, err := newOurs(ctx, m.workload, &m.Options, m.Workers)
		if err == nil {
			s.single = true
		}
		return s, pods[:withMates(pods, singlePods)], err
	case Tables:
		s, err := newOurs(ctx, m.workload, &m.Options, 0)
		return s, pods, err
	}
	return nil, nil, fmt.Errorf("there is no such side, expected one of %v", Sides())
}

// check holds our decisions against those of the runs before.
func (m *measurement) check(decisions []decision) error {
	n := min(len(decisions), len(m.decisions))
	if !slices.Equal(decisions[:n], m.decisions[:n]) {
		return errors.New("the decisions are others than in a run before")
	}
	if len(decisions) > n {
		m.decisions = decisions
	}
	return nil
}

// compare tells how good placements are, and drops the decisions.
func (m *measurement) compare() {
	common := len(m.workload.Pods)
	for _, runs := range m.outcome.Sides {
		for i := range runs {
			common = min(common, len(runs[i].decisions))
		}
	}
	q := newQuality(m.workload)
	for _, runs := range m.outcome.Sides {
		for i := range runs {
			r := &runs[i]
			r.Placement, r.Common = q.of(m.staying(r.decisions)), q.of(m.staying(r.decisions[:common]))
			r.decisions = nil
		}
	}
}

// staying are those of decisions after which no others come whose pods have not left.
func (m *measurement) staying(decisions []decision) []decision {
	if leave := m.workload.Kind.leave; leave > 0 && len(decisions) > 0 {
		return decisions[(len(decisions)-1)/leave*leave:]
	}
	return decisions
}

// first is a pod that no other looks like.
func first() *v1.Pod { return build.Pod("first").Namespace("first").CPU("50m").Memory("50Mi").Obj() }

// run measures deciding pods.
func run(ctx context.Context, s side, pods []*v1.Pod, limit time.Duration) (Run, error) {
	own, _ := s.(*ours)
	var in, out int64
	if own != nil {
		in, out = own.traffic.in.Load(), own.traffic.out.Load()
	}
	before := readUsage()
	n, err := s.decide(ctx, pods, limit)
	if err != nil {
		return Run{}, err
	}
	r := readUsage().perPod(before, n)
	if n == 0 {
		return Run{}, fmt.Errorf("no pod was decided within %v", limit)
	}
	if own != nil {
		r.ToWorkers, r.FromWorkers = float64(own.traffic.in.Load()-in)/float64(n), float64(own.traffic.out.Load()-out)/float64(n)
		r.Batches, r.Rounds, r.Requeries = own.counted.batches, own.counted.rounds, own.counted.again
		r.P50Micros, r.P99Micros = quantile(own.took, 0.5), quantile(own.took, 0.99)
	}
	return r, nil
}

// quantile is in microseconds; 0 of no durations.
func quantile(took []time.Duration, q float64) float64 {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return float64(sorted[int(q*float64(len(sorted)-1)+0.5)].Nanoseconds()) / 1e3
}

func refusedOf(decisions []decision) (n int) {
	for i := range decisions {
		if decisions[i].Node == "" {
			n++
		}
	}
	return n
}
