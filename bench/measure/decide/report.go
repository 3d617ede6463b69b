package main

import (
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
	Seed    uint64          `json:"seed"`
	Options Options         `json:"options"`
	// Workloads by cluster, in the order in which they were measured.
	Workloads []*Outcome `json:"workloads"`
}

// Write writes the report as prefix.json and prefix.txt, and its charts beside them.
func (r *Report) Write(prefix string) error {
	if err := machine.WriteReport(prefix, r, r.Table); err != nil {
		return err
	}
	return r.charts(prefix)
}

// clusters are the names of those that were measured.
func (r *Report) clusters() (out []string) {
	for _, o := range r.Workloads {
		if !slices.Contains(out, o.Size.Cluster) {
			out = append(out, o.Size.Cluster)
		}
	}
	return out
}

// on are the workloads of a cluster.
func (r *Report) on(cluster string) (out []*Outcome) {
	for _, o := range r.Workloads {
		if o.Size.Cluster == cluster {
			out = append(out, o)
		}
	}
	return out
}

// Table writes the report for people: medians of the repetitions.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "commit %s, %s, seed %d\n%v\n", r.Commit, r.Time.Format(time.RFC3339), r.Seed, r.Machine)
	fmt.Fprintf(w, "%d repetitions of at most %v a side; %d workers, %d shards; sides: %s\n",
		r.Options.Repetitions, r.Options.Limit, r.Options.Workers, r.Options.Shards, strings.Join(r.Options.Sides, ", "))
	for _, cluster := range r.clusters() {
		on := r.on(cluster)
		fmt.Fprintf(w, "\n%s: %d nodes. Decided a second and CPU-µs a pod; times: ours with workers to upstream on all nodes.\n\n",
			cluster, on[0].Size.Nodes)
		if err := grid(w, speedHead(), on, (*Outcome).speed); err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%s: what ours with workers takes beside; alone: a pod that comes when nothing else waits, from then to its "+
			"decision.\n\n", cluster)
		if err := grid(w, costHead(), on, (*Outcome).cost); err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%s: placement of as many pods as all sides have decided: nodes used, mean and standard deviation of CPU in "+
			"%%.\n\n", cluster)
		if err := grid(w, placementHead(), on, (*Outcome).placement); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	told := map[string]bool{}
	for _, o := range r.Workloads {
		if !told[o.Kind] {
			fmt.Fprintf(w, "%s: %s\n", o.Kind, o.About)
		}
		told[o.Kind] = true
	}
	return nil
}

// grid writes a row for each workload.
func grid(w io.Writer, head []string, on []*Outcome, cells func(*Outcome) []string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{head}, rows(on, cells)...) {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	return t.Flush()
}

func rows(on []*Outcome, cells func(*Outcome) []string) (out [][]string) {
	for _, o := range on {
		out = append(out, cells(o))
	}
	return out
}

func speedHead() []string {
	return []string{"workload", "pods", "refused", "upstream/s", "µs", "sampled/s", "µs", "tables/s", "µs", "workers/s", "µs", "times/s",
		"times µs", "judged"}
}

func (o *Outcome) speed() []string {
	own := o.Sides[Workers]
	cells := []string{o.Kind, figure(median(own, podsOf)), figure(median(own, refused))}
	for _, side := range []string{Upstream, Sampled, Tables, Workers} {
		cells = append(cells, figure(median(o.Sides[side], perSecond)), figure(median(o.Sides[side], cpuOf)))
	}
	return append(cells, figure(o.TimesFaster()), figure(o.TimesLess()), fmt.Sprint(o.Judged))
}

// TimesFaster is how many times as many pods a second ours with workers decides as upstream does on all
// nodes; 0: one of them was not measured.
func (o *Outcome) TimesFaster() float64 {
	return ratio(median(o.Sides[Workers], perSecond), median(o.Sides[Upstream], perSecond))
}

// TimesLess is how many times less CPU a pod takes with ours; 0: one of them was not measured.
func (o *Outcome) TimesLess() float64 {
	return ratio(median(o.Sides[Upstream], cpuOf), median(o.Sides[Workers], cpuOf))
}

func costHead() []string {
	return []string{
		"workload", "to workers B/pod", "from B/pod", "allocs/pod", "B/pod", "pods/batch", "rounds/batch", "requeries",
		"node object B", "coordinator B/node", "worker B/node", "at the end",
		"pod object B", "kept B/pod", "peak MiB", "alone p50 µs", "p99 µs",
	}
}

func (o *Outcome) cost() []string {
	own := o.Sides[Workers]
	of := func(f func(Run) float64) string { return figure(median(own, f)) }
	return []string{
		o.Kind, of(func(r Run) float64 { return r.ToWorkers }), of(func(r Run) float64 { return r.FromWorkers }),
		of(func(r Run) float64 { return r.Allocations }), of(func(r Run) float64 { return r.AllocatedBytes }),
		of(func(r Run) float64 { return ratio(float64(r.Pods), float64(r.Batches)) }),
		of(func(r Run) float64 { return ratio(float64(r.Rounds), float64(r.Batches)) }),
		of(func(r Run) float64 { return float64(r.Requeries) }), figure(o.NodeBytes),
		of(func(r Run) float64 { return r.SideBytes - r.WorkerBytes }), of(func(r Run) float64 { return r.WorkerBytes }),
		of(func(r Run) float64 { return r.WorkerEndBytes }),
		figure(o.PodObjectBytes), of(func(r Run) float64 { return r.PodBytes }),
		of(func(r Run) float64 { return r.PeakBytes / (1 << 20) }),
		figure(median(o.Sides[Single], func(r Run) float64 { return r.P50Micros })), figure(median(o.Sides[Single],
			func(r Run) float64 { return r.P99Micros })),
	}
}

func placementHead() []string {
	head := []string{"workload", "pods"}
	for _, side := range []string{Upstream, Sampled, Workers} {
		head = append(head, side+" nodes", "mean", "dev")
	}
	return append(head, "all of ours", "nodes", "mean", "dev", "max")
}

func (o *Outcome) placement() []string {
	own := o.Sides[Workers]
	cells := []string{o.Kind, figure(median(own, func(r Run) float64 { return float64(r.Common.Pods) }))}
	for _, side := range []string{Upstream, Sampled, Workers} {
		runs := o.Sides[side]
		cells = append(cells,
			figure(median(runs, func(r Run) float64 { return float64(r.Common.NodesUsed) })),
			figure(median(runs, func(r Run) float64 { return 100 * r.Common.CPU.Mean })),
			figure(median(runs, func(r Run) float64 { return 100 * r.Common.CPU.Deviation })))
	}
	return append(cells,
		figure(median(own, func(r Run) float64 { return float64(r.Placement.Pods) })),
		figure(median(own, func(r Run) float64 { return float64(r.Placement.NodesUsed) })),
		figure(median(own, func(r Run) float64 { return 100 * r.Placement.CPU.Mean })),
		figure(median(own, func(r Run) float64 { return 100 * r.Placement.CPU.Deviation })),
		figure(median(own, func(r Run) float64 { return 100 * r.Placement.CPU.Max })))
}

func cpuOf(r Run) float64     { return r.CPUMicros }
func perSecond(r Run) float64 { return r.PerSecond }
func podsOf(r Run) float64    { return float64(r.Pods) }
func refused(r Run) float64   { return float64(r.Refused) }

// ratio is 0 where there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// median of no runs is 0, of an even number the lower one.
func median(runs []Run, figure func(Run) float64) float64 {
	if len(runs) == 0 {
		return 0
	}
	figures := make([]float64, len(runs))
	for i, r := range runs {
		figures[i] = figure(r)
	}
	slices.Sort(figures)
	return figures[(len(figures)-1)/2]
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
