package decide

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/build"
)

// Options say what is measured.
type Options struct {
	Size
	// UpstreamPods is how many of the pods upstream decides at the most, and Limit for how
	// long.
	UpstreamPods int           `json:"upstreamPods"`
	Limit        time.Duration `json:"limitNanoseconds"`
	// Repetitions of each side.
	Repetitions int `json:"repetitions"`
	// Sample is how many of our decisions are judged.
	Sample int `json:"sample"`
	// Batch is how many pods share a round of ours; 0: the default.
	Batch int `json:"batch"`
	// Workers of the third side.
	Workers int `json:"workers"`
	// Sides are those that are measured; nil: all.
	Sides []string `json:"sides,omitempty"`
	// Profiles is a folder for profiles of our sides; empty: none are made.
	Profiles string `json:"-"`
}

// Names of the sides.
const (
	Upstream = "upstream"
	Tables   = "tables"
	Workers  = "workers"
)

// Run is what one repetition of a side took, by the pod.
type Run struct {
	Pods       int     `json:"pods"`
	CPUMicros  float64 `json:"cpuMicros"`
	WallMicros float64 `json:"wallMicros"`
	Bytes      float64 `json:"bytes"`
}

// Outcome is what one shape took.
type Outcome struct {
	Shape string `json:"shape"`
	About string `json:"about"`
	// Sides' runs, by name.
	Sides map[string][]Run `json:"sides"`
	// Rounds is how often ours asked its tables or workers in a run, Again how many of those were
	// for an answer that was used up.
	Rounds uint64 `json:"rounds"`
	Again  uint64 `json:"again"`
	// Judged is how many of our decisions were held against upstream.
	Judged int `json:"judged"`
}

// Measure measures one shape on all sides. It errs where a decision is none that upstream could
// have made.
func Measure(ctx context.Context, shape Shape, o Options) (*Outcome, error) {
	m := &measurement{Options: o, workload: NewWorkload(shape, o.Size), outcome: &Outcome{Shape: shape.Name, About: shape.About, Sides: map[string][]Run{}}}
	sides := slices.Clone(o.Sides)
	if sides == nil {
		sides = []string{Upstream, Tables, Workers}
	}
	for i := range o.Repetitions {
		for _, name := range sides {
			if err := m.side(ctx, name, i); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", shape.Name, name, err)
			}
		}
		slices.Reverse(sides)
	}
	if m.decisions == nil {
		return m.outcome, nil
	}
	var err error
	if m.outcome.Judged, err = judge(ctx, m.workload, m.decisions, o.Sample); err != nil {
		return nil, fmt.Errorf("%s: %w", shape.Name, err)
	}
	return m.outcome, nil
}

// measurement is under way.
type measurement struct {
	Options
	workload *Workload
	outcome  *Outcome
	// decisions are those of our first run; all others must be the same.
	decisions []decision
}

// side sets a side up, measures it and drops it.
func (m *measurement) side(ctx context.Context, name string, repetition int) (err error) {
	s, pods, err := m.start(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	if _, err := s.decide(ctx, []*v1.Pod{first()}); err != nil {
		return err
	}
	own, _ := s.(*ours)
	if own != nil {
		if _, err := own.decisions(); err != nil {
			return err
		}
	}
	measured := func() (Run, error) { return run(ctx, s, pods) }
	if own != nil && m.Profiles != "" {
		measured = func() (Run, error) {
			return profiled(filepath.Join(m.Profiles, fmt.Sprintf("%s-%s-%d", m.outcome.Shape, name, repetition)), func() (Run, error) { return run(ctx, s, pods) })
		}
	}
	r, err := measured()
	if err != nil {
		return err
	}
	m.outcome.Sides[name] = append(m.outcome.Sides[name], r)
	if own == nil {
		return nil
	}
	return m.check(ctx, own)
}

// start sets a side up, and says which pods it is to decide.
func (m *measurement) start(ctx context.Context, name string) (side, []*v1.Pod, error) {
	switch name {
	case Upstream:
		s, err := newUpstream(ctx, m.workload, m.Limit)
		return s, m.workload.Pods[:min(m.UpstreamPods, len(m.workload.Pods))], err
	case Workers:
		s, err := newOurs(ctx, m.workload, m.Workers, m.Batch)
		return s, m.workload.Pods, err
	case Tables:
		s, err := newOurs(ctx, m.workload, 0, m.Batch)
		return s, m.workload.Pods, err
	}
	return nil, nil, errors.New("there is no such side")
}

// check holds our decisions against those of the first run.
func (m *measurement) check(ctx context.Context, own *ours) error {
	decisions, err := own.decisions()
	if err != nil {
		return err
	}
	if m.decisions == nil {
		m.decisions = decisions
	}
	if !slices.Equal(decisions, m.decisions) {
		return errors.New("the decisions are others than in the run before")
	}
	m.outcome.Rounds, m.outcome.Again, err = own.rounds(ctx)
	return err
}

// first is a pod that no other looks like.
func first() *v1.Pod { return build.Pod("first").Namespace("first").CPU("50m").Memory("50Mi").Obj() }

// run measures deciding pods.
func run(ctx context.Context, s side, pods []*v1.Pod) (Run, error) {
	runtime.GC()
	runtime.GC() // the first may leave sweeping to be done
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, cpu := time.Now(), cpuTime()
	n, err := s.decide(ctx, pods)
	if err != nil {
		return Run{}, err
	}
	cpu, wall := cpuTime()-cpu, time.Since(began)
	runtime.ReadMemStats(&after)
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(n) }
	return Run{Pods: n, CPUMicros: per(cpu), WallMicros: per(wall), Bytes: float64(after.TotalAlloc-before.TotalAlloc) / float64(n)}, nil
}

// cpuTime is what the process has used, in user mode and in the kernel.
func cpuTime() time.Duration {
	var u syscall.Rusage
	// It fails only for arguments that are none.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// profiled writes a CPU profile of a run, and what had been allocated before it and after.
func profiled(prefix string, run func() (Run, error)) (r Run, err error) {
	if err := os.MkdirAll(filepath.Dir(prefix), 0o755); err != nil {
		return r, err
	}
	if err := allocations(prefix + ".before"); err != nil {
		return r, err
	}
	cpu, err := os.Create(prefix + ".cpu")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return r, err
	}
	r, err = run()
	pprof.StopCPUProfile()
	return r, errors.Join(err, allocations(prefix+".allocs"))
}

// allocations writes what has been allocated so far; pprof -base takes one from another.
func allocations(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	runtime.GC() // the profile is as of the last one
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
