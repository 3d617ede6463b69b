package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shardsched/shardsched/bench/internal/machine"
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
	// Million and Small are repetitions as well: with many nodes, and with small workers.
	Million []Decide `json:"million"`
	Small   []Decide `json:"small"`
	Fit     *Fit     `json:"fit,omitempty"`
	Hedge   []Hedge  `json:"hedge"`
}

// Table writes the report for people: medians of the half of the repetitions in which others did the least.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "commit %s, %s, seed %d\n%v\n", r.Commit, r.Time.Format(time.RFC3339), r.Options.Seed, r.Machine)
	fmt.Fprintf(w, "distinct pods, %d shards; %d repetitions; workers are processes on a core each, the coordinator "+
		"shares their cores\nmedians of the half of the repetitions in which others (cores that somebody else used meanwhile) were "+
		"the least; from some tenths on rates are too low\nruns with equal nodes have made the same decisions, pod for pod\n",
		r.Options.Shards, r.Options.Repetitions)
	const columns = "by the pod, CPU-µs and bytes on the wire; times: to the first number of workers; waited: wall time without CPU " +
		"time of the coordinator; used: of the workers' shares of cores; throttled: part of the time in which the kernel stopped them."
	for _, part := range []struct {
		there bool
		about string
		rows  func() [][]string
	}{
		{len(r.Decide) > 0, "Deciding: " + columns, func() [][]string { return decided(r.Decide) }},
		{len(r.Fan) > 0, fmt.Sprintf("Workers alone: rounds for %d classes, as many as are answered; by the round.", r.Options.Batch),
			r.asked},
		{len(r.Million) > 0, "Deciding with many nodes: " + columns, func() [][]string { return decided(r.Million) }},
		{len(r.Small) > 0, r.held() + columns, func() [][]string { return decided(r.Small) }},
		{r.Fit != nil, r.Fit.about(), r.Fit.rows},
		{len(r.Hedge) > 0, fmt.Sprintf("Batches of %d pods with %d workers and %d nodes, of which one worker stalls for %v, about every %v; "+
			"ms, times: to p99 without stalls, hit: batches in which a stall began.",
			r.Options.Batch, stallers, r.Options.Nodes, r.Options.Stall, r.Options.StallEvery), r.hedged},
	} {
		if !part.there {
			continue
		}
		fmt.Fprintf(w, "\n%s\n\n", part.about)
		if err := grid(w, part.rows()); err != nil {
			return err
		}
	}
	return nil
}

// held tells how small workers are held to their share.
func (r *Report) held() string {
	if len(r.Small) == 0 {
		return ""
	}
	return fmt.Sprintf("Small workers, all on the last core with an eighth of it each (%s; turns: what that took of the core); the "+
		"coordinator has the first core: ", r.Small[0].Throttle)
}

func grid(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	return t.Flush()
}

func decided(runs []Decide) [][]string {
	out := [][]string{{"nodes", "workers", "largest's rows", "decided/s", "least", "most", "times", "coordinator µs", "workers µs",
		"largest's µs", "waited µs", "fan-out µs", "used", "throttled", "to workers B", "from B", "pods/batch", "rounds/batch",
		"local shards", "turns", "others"}}
	var first []Decide
	for _, runs := range situations(runs) {
		if len(first) == 0 || first[0].Nodes != runs[0].Nodes {
			first = runs
		}
		m := func(f func(Decide) float64) string { return figure(median(runs, f)) }
		out = append(out, []string{
			fmt.Sprint(runs[0].Nodes), fmt.Sprint(runs[0].Workers), m(func(d Decide) float64 { return float64(d.Rows) }),
			m(decidedPerSecond), figure(least(runs, decidedPerSecond)), figure(most(runs, decidedPerSecond)),
			figure(ratio(median(runs, decidedPerSecond), median(first, decidedPerSecond))),
			m(func(d Decide) float64 { return d.CoordinatorMicros }), m(func(d Decide) float64 { return sum(d.WorkerMicros) }),
			m(largestMicros), m(func(d Decide) float64 { return d.WaitMicros }), m(func(d Decide) float64 { return d.FanMicros }),
			m(func(d Decide) float64 { return sum(d.UsedShares) / float64(d.Workers) }),
			m(func(d Decide) float64 { return sum(d.ThrottledShares) / float64(d.Workers) }),
			m(func(d Decide) float64 { return d.ToWorkers }), m(func(d Decide) float64 { return d.FromWorkers }),
			m(podsPerBatch), m(func(d Decide) float64 { return ratio(d.Rounds, d.Batches) }),
			m(func(d Decide) float64 { return d.LocalShards }), m(func(d Decide) float64 { return d.Turns }),
			m(func(d Decide) float64 { return d.Others }),
		})
	}
	return out
}

func (r *Report) asked() [][]string {
	out := [][]string{{"workers", "largest's rows", "rounds/s", "classes/s", "least", "most", "times", "p50 µs", "p99 µs",
		"coordinator µs", "workers µs", "largest's µs", "to workers B", "from B", "others"}}
	for _, n := range r.Options.Workers {
		runs, first := r.fans(n), r.fans(r.Options.Workers[0])
		m := func(f func(Fan) float64) string { return figure(median(runs, f)) }
		out = append(out, []string{
			fmt.Sprint(n), m(func(f Fan) float64 { return float64(f.Rows) }), m(func(f Fan) float64 { return f.RoundsPerSecond }),
			m(classesPerSecond), figure(least(runs, classesPerSecond)), figure(most(runs, classesPerSecond)),
			figure(ratio(median(runs, classesPerSecond), median(first, classesPerSecond))),
			m(func(f Fan) float64 { return f.P50Micros }), m(func(f Fan) float64 { return f.P99Micros }),
			m(func(f Fan) float64 { return f.CoordinatorMicros }), m(func(f Fan) float64 { return sum(f.WorkerMicros) }),
			m(func(f Fan) float64 { return slices.Max(f.WorkerMicros) }),
			m(func(f Fan) float64 { return f.ToWorkers }), m(func(f Fan) float64 { return f.FromWorkers }),
			m(func(f Fan) float64 { return f.Others }),
		})
	}
	return out
}

// name tells a situation from the others.
func (h *Hedge) name() string {
	if h.Stalled {
		return fmt.Sprintf("%d replicas, stalls", h.Replicas)
	}
	return fmt.Sprintf("%d replicas, calm", h.Replicas)
}

func (r *Report) hedged() [][]string {
	out := [][]string{{"", "batches", "stalls", "p50", "p90", "p99", "max", "times", "hit p50", "hedges", "local shards", "others"}}
	calm := map[int]float64{}
	for _, runs := range r.hedges() {
		m := func(f func(Hedge) float64) float64 { return median(runs, f) }
		h, p99 := &runs[0], m(batchP99)
		if !h.Stalled {
			calm[h.Replicas] = p99
		}
		out = append(out, []string{
			h.name(), figure(m(func(h Hedge) float64 { return float64(h.Batches) })),
			figure(m(func(h Hedge) float64 { return float64(h.Stalls) })),
			figure(m(func(h Hedge) float64 { return h.P50Micros / 1e3 })),
			figure(m(func(h Hedge) float64 { return h.P90Micros / 1e3 })), figure(p99 / 1e3),
			figure(m(func(h Hedge) float64 { return h.MaxMicros / 1e3 })), figure(ratio(p99, calm[h.Replicas])),
			figure(m(func(h Hedge) float64 { return h.HitP50Micros / 1e3 })),
			figure(m(func(h Hedge) float64 { return h.Hedges })), figure(m(func(h Hedge) float64 { return h.LocalShards })),
			figure(m(func(h Hedge) float64 { return h.Others })),
		})
	}
	return out
}

func batchP99(h Hedge) float64 { return h.P99Micros }

func podsPerBatch(d Decide) float64     { return ratio(float64(d.Pods), d.Batches) }
func decidedPerSecond(d Decide) float64 { return d.PerSecond }
func classesPerSecond(f Fan) float64    { return f.ClassesPerSecond }

func largestMicros(d Decide) float64 { return slices.Max(d.WorkerMicros) }

// situations are the repetitions that count, the half in which others did the least, of each number of nodes and workers.
func situations(runs []Decide) (out [][]Decide) {
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Decide) int { return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Workers, b.Workers)) })
	for len(runs) > 0 {
		n := 1
		for n < len(runs) && runs[n].Nodes == runs[0].Nodes && runs[n].Workers == runs[0].Workers {
			n++
		}
		out = append(out, quiet(runs[:n], func(d Decide) float64 { return d.Others }))
		runs = runs[n:]
	}
	return out
}

// fans and hedges are the repetitions that count.
func (r *Report) fans(workers int) []Fan {
	return quiet(of(r.Fan, func(f Fan) bool { return f.Workers == workers }), func(f Fan) float64 { return f.Others })
}

// hedges are those of each situation, calm before stalled, one replica before two.
func (r *Report) hedges() (out [][]Hedge) {
	for _, replicas := range []int{1, 2} {
		for _, stalled := range []bool{false, true} {
			all := of(r.Hedge, func(h Hedge) bool { return h.Replicas == replicas && h.Stalled == stalled })
			if len(all) > 0 {
				out = append(out, quiet(all, func(h Hedge) float64 { return h.Others }))
			}
		}
	}
	return out
}

// quiet is the half of runs, or one more, with the least of what others did.
func quiet[T any](runs []T, others func(T) float64) []T {
	out := slices.Clone(runs)
	slices.SortStableFunc(out, func(a, b T) int { return cmp.Compare(others(a), others(b)) })
	return out[:(len(out)+1)/2]
}

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
