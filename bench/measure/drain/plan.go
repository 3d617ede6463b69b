package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// measurement is one case: pods that are drained, or that arrive.
type measurement struct {
	workload string
	kinds    []workload
	pods     int
	rate     int // a second; 0: they are drained
	side     string
	run      int
}

func (m *measurement) String() string {
	how := "drained"
	if m.rate > 0 {
		how = fmt.Sprintf("arriving, %d a second", m.rate)
	}
	return fmt.Sprintf("%s: %d pods %s, %s, run %d", m.workload, m.pods, how, m.side, m.run)
}

// name is for files.
func (m *measurement) name() string {
	return fmt.Sprintf("%s-%d-at-%d-%s-%d", m.workload, m.pods, m.rate, m.side, m.run)
}

// plan are all cases in their order: of each, the sides directly one after the other.
func (o *options) plan() (all []*measurement) {
	for run := 1; run <= o.runs; run++ {
		for _, name := range o.workloads {
			kinds, _ := workloadOf(name) // validated
			add := func(pods, rate int) {
				for i := range o.sides {
					side := o.sides[i]
					if run%2 == 0 {
						side = o.sides[len(o.sides)-1-i]
					}
					all = append(all, &measurement{workload: name, kinds: kinds, pods: pods, rate: rate, side: side, run: run})
				}
			}
			for _, n := range o.sizes {
				add(n, 0)
			}
			for _, rate := range o.rates {
				add(max(1, int(float64(rate)*o.duration.Seconds())), rate)
			}
		}
	}
	return all
}

// drainRun is a measurement of all cases under way.
type drainRun struct {
	options
	dir, programs string
	cluster       *cluster
	// snapshots are folders of etcd's data.
	snapshots map[string]string
}

// measure returns the report of as many cases as it could measure.
func (o options) measure(ctx context.Context, progress io.Writer) (*report, error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.dir, "drain-")
	if err != nil {
		return nil, err
	}
	b := &drainRun{options: o, dir: dir, programs: filepath.Join(dir, "programs"), cluster: newCluster(&o), snapshots: map[string]string{}}
	r, err := newReport(ctx, o, dir)
	if err == nil {
		err = b.run(ctx, r, progress)
	}
	if err != nil {
		return r, fmt.Errorf("%w (processes' output: %s)", err, dir)
	}
	return r, os.RemoveAll(dir)
}

func (b *drainRun) run(ctx context.Context, r *report, progress io.Writer) error {
	if err := os.MkdirAll(b.programs, 0o755); err != nil {
		return err
	}
	fmt.Fprintln(progress, "building; the first time takes some minutes")
	if err := testbed.BuildIn(ctx, b.programs); err != nil {
		return err
	}
	all := b.plan()
	for i, m := range all {
		fmt.Fprintf(progress, "%d of %d: %s\n", i+1, len(all), m)
		f, err := b.one(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
		fmt.Fprintf(progress, "\t%s\n", f)
		r.Cases = append(r.Cases, f)
	}
	return nil
}

// one measures a case on a control plane of its own.
func (b *drainRun) one(ctx context.Context, m *measurement) (f *figures, err error) {
	there := m.pods
	if m.rate > 0 {
		there = 0
	}
	data, err := b.snapshot(ctx, m.workload, m.kinds, there)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, m.name())
	bed, err := b.start(ctx, dir, data)
	if err != nil {
		return nil, err
	}
	defer func() {
		bed.Close()
		if err == nil {
			err = os.RemoveAll(dir)
		}
	}()
	c := newRun(b, m, bed)
	if m.rate > 0 {
		return c.figures, c.arrive(ctx)
	}
	return c.figures, c.drain(ctx)
}

// start starts a control plane with a copy of etcd's data; none where data is empty.
func (b *drainRun) start(ctx context.Context, dir, data string) (*testbed.Bed, error) {
	return testbed.Start(ctx, testbed.Config{Dir: dir, Data: data, Programs: b.programs, NoAudit: true})
}

// snapshot is a folder of etcd's data with all nodes, and so many pods of a workload.
func (b *drainRun) snapshot(ctx context.Context, workload string, kinds []workload, pods int) (string, error) {
	name, from := "nodes", ""
	objects := b.cluster.objects
	if pods > 0 {
		var err error
		if from, err = b.snapshot(ctx, workload, kinds, 0); err != nil {
			return "", err
		}
		name, objects = fmt.Sprintf("%s-%d", workload, pods), asObjects(b.pods(kinds, pods))
	}
	if dir := b.snapshots[name]; dir != "" {
		return dir, nil
	}
	dir := filepath.Join(b.dir, "snapshot-"+name)
	bed, err := b.start(ctx, dir, from)
	if err != nil {
		return "", err
	}
	err = bed.CreateAll(ctx, objects...)
	bed.Close()
	if err != nil {
		return "", err
	}
	b.snapshots[name] = testbed.Data(dir)
	return b.snapshots[name], nil
}

func asObjects(pods []*v1.Pod) (objects []runtime.Object) {
	for _, p := range pods {
		objects = append(objects, p)
	}
	return objects
}

// errSlow ends a case that takes longer than it may.
var errSlow = errors.New("it takes longer than it may")
