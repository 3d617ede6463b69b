package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/shardsched/shardsched/bench/internal/machine"
)

// report is all that was measured, and where.
type report struct {
	Time    time.Time       `json:"time"`
	Commit  string          `json:"commit"`
	Machine machine.Machine `json:"machine"`
	Seed    uint64          `json:"seed"`
	Source  string          `json:"source"`
	Nodes   int             `json:"nodes"`
	Pods    int             `json:"pods"`
	// Workers of each part.
	SimulateWorkers int          `json:"simulateWorkers"`
	UpWorkers       int          `json:"upWorkers"`
	Submitters      int          `json:"submitters"`
	Simulate        []simulation `json:"simulate"`
	Up              []upRun      `json:"up"`
}

func newReport(ctx context.Context, o options, dir string) (*report, error) {
	m, err := machine.This(dir)
	if err != nil {
		return nil, err
	}
	commit, err := machine.Commit(ctx)
	if err != nil {
		return nil, err
	}
	return &report{
		Time: time.Now().UTC().Truncate(time.Second), Commit: commit, Machine: m, Seed: o.seed,
		SimulateWorkers: o.simulateWorkers, UpWorkers: o.upWorkers, Submitters: o.submitters,
	}, nil
}

// write writes the report's two files.
func (r *report) write(prefix string) error {
	return machine.WriteReport(prefix, r, r.table)
}

// table writes the report for people.
func (r *report) table(w io.Writer) error {
	fmt.Fprintf(w, "commit   %s, %s\n", r.Commit, r.Time.Format(time.RFC3339))
	fmt.Fprintf(w, "machine  %s\n", r.Machine)
	fmt.Fprintf(w, "trace    %s: %d nodes, %d pods, seed %d\n\n", r.Source, r.Nodes, r.Pods, r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) {
		for _, c := range cells {
			fmt.Fprintf(t, "%v\t", c)
		}
		fmt.Fprintln(t)
	}
	row("simulate", "s", "CPU s", "peak MiB", "decided/s", "bound", "pending")
	for i, s := range append(slices.Clone(r.Simulate), medianSimulation(r.Simulate)) {
		row(label(i, len(r.Simulate)), fmt.Sprintf("%.2f", s.Seconds), fmt.Sprintf("%.2f", s.CPUSeconds), fmt.Sprintf("%.0f", s.PeakMiB),
			fmt.Sprintf("%.0f", s.DecidedPerSecond), s.Bound, s.Pending)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	row("up", "s", "bound/s", "p50 s", "p99 s", "submit s", "own decided/s", "own bound/s", "bound", "pending")
	for i, u := range append(slices.Clone(r.Up), medianUp(r.Up)) {
		row(label(i, len(r.Up)), fmt.Sprintf("%.2f", u.Seconds), fmt.Sprintf("%.0f", u.BoundPerSecond),
			fmt.Sprintf("%.2f", u.P50Seconds), fmt.Sprintf("%.2f", u.P99Seconds), fmt.Sprintf("%.2f", u.SubmitSeconds),
			fmt.Sprintf("%.0f", u.OwnDecidedPerSecond), fmt.Sprintf("%.0f", u.OwnBoundPerSecond), u.Bound, u.Pending)
	}
	return t.Flush()
}

func label(i, runs int) string {
	if i == runs {
		return "median"
	}
	return fmt.Sprint(i + 1)
}

// medianSimulation takes each figure's median by itself.
func medianSimulation(all []simulation) simulation {
	return simulation{
		Seconds:          median(all, func(s simulation) float64 { return s.Seconds }),
		CPUSeconds:       median(all, func(s simulation) float64 { return s.CPUSeconds }),
		PeakMiB:          median(all, func(s simulation) float64 { return s.PeakMiB }),
		DecidedPerSecond: median(all, func(s simulation) float64 { return s.DecidedPerSecond }),
		Bound:            int(median(all, func(s simulation) float64 { return float64(s.Bound) })),
		Pending:          int(median(all, func(s simulation) float64 { return float64(s.Pending) })),
	}
}

// medianUp takes each figure's median by itself.
func medianUp(all []upRun) upRun {
	return upRun{
		BoundPerSecond:      median(all, func(u upRun) float64 { return u.BoundPerSecond }),
		Seconds:             median(all, func(u upRun) float64 { return u.Seconds }),
		SubmitSeconds:       median(all, func(u upRun) float64 { return u.SubmitSeconds }),
		P50Seconds:          median(all, func(u upRun) float64 { return u.P50Seconds }),
		P99Seconds:          median(all, func(u upRun) float64 { return u.P99Seconds }),
		OwnDecidedPerSecond: median(all, func(u upRun) float64 { return u.OwnDecidedPerSecond }),
		OwnBoundPerSecond:   median(all, func(u upRun) float64 { return u.OwnBoundPerSecond }),
		Bound:               int(median(all, func(u upRun) float64 { return float64(u.Bound) })),
		Pending:             int(median(all, func(u upRun) float64 { return float64(u.Pending) })),
	}
}

// median is the lower one of an even number; 0 of none.
func median[T any](all []T, figure func(T) float64) float64 {
	if len(all) == 0 {
		return 0
	}
	figures := make([]float64, len(all))
	for i, x := range all {
		figures[i] = figure(x)
	}
	slices.Sort(figures)
	return figures[(len(figures)-1)/2]
}
