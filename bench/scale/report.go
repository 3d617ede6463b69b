package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shardsched/shardsched/bench/machine"
)

// Report is all that was measured, and where.
type Report struct {
	Time    time.Time       `json:"time"`
	Commit  string          `json:"commit"`
	Machine machine.Machine `json:"machine"`
	Options Options         `json:"options"`
	// Decide and Fan are repetitions, in the order in which they were made.
	Decide []Decide `json:"decide"`
	Fan    []Fan    `json:"workersAlone"`
}

// Write writes the report as prefix.json and prefix.txt.
func (r *Report) Write(prefix string) error {
	return machine.WriteReport(prefix, r, r.Table)
}

// Table writes the report for people: medians of the repetitions.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "commit %s, %s, seed %d\n%v\n", r.Commit, r.Time.Format(time.RFC3339), r.Options.Seed, r.Machine)
	fmt.Fprintf(w, "%d nodes, %d shards, distinct pods; %d repetitions of %v; workers are processes on a core each, the coordinator shares their cores\nothers: cores that were used by somebody else meanwhile; from some tenths on rates are too low\n",
		r.Options.Nodes, r.Options.Shards, r.Options.Repetitions, r.Options.Limit)
	for _, part := range []struct {
		about string
		rows  [][]string
	}{
		{"Deciding: by the pod, CPU-µs and bytes on the wire; times: to the first number of workers.", r.decided()},
		{fmt.Sprintf("Workers alone: rounds for %d classes, as many as are answered; by the round.", r.Options.Batch), r.asked()},
	} {
		fmt.Fprintf(w, "\n%s\n\n", part.about)
		if err := grid(w, part.rows); err != nil {
			return err
		}
	}
	return nil
}

func grid(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	return t.Flush()
}

func (r *Report) decided() [][]string {
	out := [][]string{{"workers", "largest's rows", "decided/s", "least", "most", "times", "coordinator µs", "workers µs", "largest's µs", "fan-out µs", "to workers B", "from B", "pods/batch", "rounds/batch", "others"}}
	for _, n := range r.Options.Workers {
		runs := of(r.Decide, func(d Decide) bool { return d.Workers == n })
		first := of(r.Decide, func(d Decide) bool { return d.Workers == r.Options.Workers[0] })
		m := func(f func(Decide) float64) string { return figure(median(runs, f)) }
		out = append(out, []string{
			fmt.Sprint(n), m(func(d Decide) float64 { return float64(d.Rows) }),
			m(decidedPerSecond), figure(least(runs, decidedPerSecond)), figure(most(runs, decidedPerSecond)),
			figure(ratio(median(runs, decidedPerSecond), median(first, decidedPerSecond))),
			m(func(d Decide) float64 { return d.CoordinatorMicros }), m(func(d Decide) float64 { return sum(d.WorkerMicros) }),
			m(func(d Decide) float64 { return slices.Max(d.WorkerMicros) }), m(func(d Decide) float64 { return d.FanMicros }),
			m(func(d Decide) float64 { return d.ToWorkers }), m(func(d Decide) float64 { return d.FromWorkers }),
			m(func(d Decide) float64 { return ratio(float64(d.Pods), d.Batches) }), m(func(d Decide) float64 { return ratio(d.Rounds, d.Batches) }),
			m(func(d Decide) float64 { return d.Others }),
		})
	}
	return out
}

func (r *Report) asked() [][]string {
	out := [][]string{{"workers", "largest's rows", "rounds/s", "classes/s", "least", "most", "times", "p50 µs", "p99 µs", "coordinator µs", "workers µs", "largest's µs", "to workers B", "from B", "others"}}
	for _, n := range r.Options.Workers {
		runs := of(r.Fan, func(f Fan) bool { return f.Workers == n })
		first := of(r.Fan, func(f Fan) bool { return f.Workers == r.Options.Workers[0] })
		m := func(f func(Fan) float64) string { return figure(median(runs, f)) }
		out = append(out, []string{
			fmt.Sprint(n), m(func(f Fan) float64 { return float64(f.Rows) }), m(func(f Fan) float64 { return f.RoundsPerSecond }),
			m(classesPerSecond), figure(least(runs, classesPerSecond)), figure(most(runs, classesPerSecond)),
			figure(ratio(median(runs, classesPerSecond), median(first, classesPerSecond))),
			m(func(f Fan) float64 { return f.P50Micros }), m(func(f Fan) float64 { return f.P99Micros }),
			m(func(f Fan) float64 { return f.CoordinatorMicros }), m(func(f Fan) float64 { return sum(f.WorkerMicros) }),
			m(func(f Fan) float64 { return slices.Max(f.WorkerMicros) }),
			m(func(f Fan) float64 { return f.ToWorkers }), m(func(f Fan) float64 { return f.FromWorkers }), m(func(f Fan) float64 { return f.Others }),
		})
	}
	return out
}

func decidedPerSecond(d Decide) float64 { return d.PerSecond }
func classesPerSecond(f Fan) float64    { return f.ClassesPerSecond }

// of are those that a rule takes.
func of[T any](all []T, takes func(T) bool) (out []T) {
	for _, x := range all {
		if takes(x) {
			out = append(out, x)
		}
	}
	return out
}

func figures[T any](runs []T, f func(T) float64) []float64 {
	out := make([]float64, len(runs))
	for i, r := range runs {
		out[i] = f(r)
	}
	slices.Sort(out)
	return out
}

// median of no runs is 0, of an even number the lower one.
func median[T any](runs []T, f func(T) float64) float64 {
	if len(runs) == 0 {
		return 0
	}
	return figures(runs, f)[(len(runs)-1)/2]
}

// least and most of no runs are 0.
func least[T any](runs []T, f func(T) float64) float64 {
	if len(runs) == 0 {
		return 0
	}
	return figures(runs, f)[0]
}

func most[T any](runs []T, f func(T) float64) float64 {
	if len(runs) == 0 {
		return 0
	}
	return figures(runs, f)[len(runs)-1]
}

func sum(all []float64) (out float64) {
	for _, x := range all {
		out += x
	}
	return out
}

// ratio is 0 where there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// figure has three digits, or all before the point; what is 0 or was not measured is a dash.
func figure(x float64) string {
	switch {
	case x == 0:
		return "-"
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
