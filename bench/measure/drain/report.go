package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shardsched/shardsched/bench/internal/machine"
)

// report is all that was measured, and where.
type report struct {
	Time         time.Time       `json:"time"`
	Commit       string          `json:"commit"`
	Machine      machine.Machine `json:"machine"`
	Seed         uint64          `json:"seed"`
	Nodes        int             `json:"nodes"`
	Zones        int             `json:"zones"`
	Apps         int             `json:"apps"`
	Workers      int             `json:"workers"`
	LocalWorkers int             `json:"localWorkers"`
	Profiled     bool            `json:"profiled"`
	Cases        []*figures      `json:"cases"`
}

// figures are what came of a case.
type figures struct {
	Workload string `json:"workload"`
	Pods     int    `json:"pods"`
	Rate     int    `json:"rate,omitempty"` // a second; 0: drained
	Side     string `json:"side"`
	Run      int    `json:"run"`
	// Bound is less than Pods where the case has taken longer than it might.
	Bound int `json:"bound"`
	// StartSeconds and StartCPUSeconds are those until the first pod was bound.
	StartSeconds    float64 `json:"startSeconds,omitempty"`
	StartCPUSeconds float64 `json:"startCPUSeconds,omitempty"`
	// Seconds are from then to the last one; with pods that arrive, from the first
	// request on.
	Seconds       float64 `json:"seconds"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	// SettledSeconds is how long the scheduler was busy after that.
	SettledSeconds  float64 `json:"settledSeconds"`
	P50Milliseconds float64 `json:"p50Milliseconds,omitempty"`
	P99Milliseconds float64 `json:"p99Milliseconds,omitempty"`
	// WallSeconds is the time in which the CPU seconds were used.
	WallSeconds         float64  `json:"wallSeconds"`
	CPUSeconds          float64  `json:"cpuSeconds"`
	APIServerCPUSeconds float64  `json:"apiServerCPUSeconds"`
	EtcdCPUSeconds      float64  `json:"etcdCPUSeconds"`
	BenchCPUSeconds     float64  `json:"benchCPUSeconds"`
	OthersCPUSeconds    float64  `json:"othersCPUSeconds"`
	PeakMiB             float64  `json:"peakMiB"`
	Requests            requests `json:"requests"`
}

// perPod is a figure per pod bound.
func (f *figures) perPod(x float64) float64 { return x / max(float64(f.Bound), 1) }

func (f *figures) cpuPerPod() float64 { return 1e3 * f.perPod(f.CPUSeconds) }

func (f *figures) serversPerPod() float64 {
	return 1e3 * f.perPod(f.APIServerCPUSeconds+f.EtcdCPUSeconds)
}

// others is how many cores somebody else used.
func (f *figures) others() float64 { return f.OthersCPUSeconds / max(f.WallSeconds, 1e-3) }

// otherRequests are per pod, but for those that make pods and the known ones.
func (f *figures) otherRequests() float64 {
	sum := 0.0
	for what, n := range f.Requests {
		switch what {
		case "POST pods", "POST pods/binding", "PATCH pods/status", "POST events":
		default:
			sum += n
		}
	}
	return f.perPod(sum)
}

func (f *figures) String() string {
	s := fmt.Sprintf("%.0f pods/s (%d bound in %.1f s)", f.PodsPerSecond, f.Bound, f.Seconds)
	if f.Rate > 0 {
		s += fmt.Sprintf(", p50 %.0f ms, p99 %.0f ms", f.P50Milliseconds, f.P99Milliseconds)
	} else {
		s += fmt.Sprintf(", start %.1f s", f.StartSeconds)
	}
	return s + fmt.Sprintf(", settled after %.1f s, CPU %.2f ms a pod (start %.1f s), servers %.2f, others %.1f cores, %.0f MiB",
		f.SettledSeconds, f.cpuPerPod(), f.StartCPUSeconds, f.serversPerPod(), f.others(), f.PeakMiB)
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
		Nodes: o.nodes, Zones: o.zones, Apps: o.apps, Workers: o.workers, LocalWorkers: o.localWorkers, Profiled: o.profiles != "",
	}, nil
}

// write writes the report's two files.
func (r *report) write(prefix string) error {
	return machine.WriteReport(prefix, r, r.table)
}

// row is the medians of a case's runs on one side.
type row struct {
	*figures
	runs []*figures
}

func (r *row) median(figure func(*figures) float64) float64 {
	var all []float64
	for _, f := range r.runs {
		all = append(all, figure(f))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// rows groups the runs, in the order of the first.
func (r *report) rows(drained bool) (rows []*row) {
	for _, f := range r.Cases {
		if drained != (f.Rate == 0) {
			continue
		}
		i := slices.IndexFunc(rows, func(o *row) bool {
			return o.Workload == f.Workload && o.Pods == f.Pods && o.Rate == f.Rate && o.Side == f.Side
		})
		if i < 0 {
			i, rows = len(rows), append(rows, &row{figures: f})
		}
		rows[i].runs = append(rows[i].runs, f)
	}
	return rows
}

// other is the row of the other side; nil: there is none.
func other(rows []*row, of *row) *row {
	for _, o := range rows {
		if o.Workload == of.Workload && o.Pods == of.Pods && o.Rate == of.Rate && o.Side != of.Side {
			return o
		}
	}
	return nil
}

// column is one of a table.
type column struct {
	name   string
	figure func(*figures) float64
	format string
	// ratio has ours compared with upstream's: +1 the more the better, -1 the less.
	ratio int
}

func columns(drained bool) []column {
	rate := column{"pods/s", func(f *figures) float64 { return f.PodsPerSecond }, "%.0f", +1}
	cpu := column{"CPU s/1000", (*figures).cpuPerPod, "%.2f", -1}
	rest := []column{
		{"servers s/1000", (*figures).serversPerPod, "%.2f", 0},
		{"RSS MiB", func(f *figures) float64 { return f.PeakMiB }, "%.0f", 0},
		{"settled s", func(f *figures) float64 { return f.SettledSeconds }, "%.1f", 0},
		{"binds", func(f *figures) float64 { return f.perPod(f.Requests["POST pods/binding"]) }, "%.2f", 0},
		{"status", func(f *figures) float64 { return f.perPod(f.Requests["PATCH pods/status"]) }, "%.2f", 0},
		{"events", func(f *figures) float64 { return f.perPod(f.Requests["POST events"]) }, "%.2f", 0},
		{"else", (*figures).otherRequests, "%.2f", 0},
		{"others", (*figures).others, "%.1f", 0},
	}
	if drained {
		return append([]column{
			rate, cpu,
			{"of it start", func(f *figures) float64 { return 1e3 * f.perPod(f.StartCPUSeconds) }, "%.2f", 0},
			{"start s", func(f *figures) float64 { return f.StartSeconds }, "%.1f", 0},
		}, rest...)
	}
	return append([]column{
		rate,
		{"p50 ms", func(f *figures) float64 { return f.P50Milliseconds }, "%.0f", -1},
		{"p99 ms", func(f *figures) float64 { return f.P99Milliseconds }, "%.0f", -1},
		cpu,
	}, rest...)
}

// table writes the report for people.
func (r *report) table(w io.Writer) error {
	fmt.Fprintf(w, "commit   %s, %s\n", r.Commit, r.Time.Format(time.RFC3339))
	fmt.Fprintf(w, "machine  %s\n", r.Machine)
	fmt.Fprintf(w, "cluster  %d nodes in %d zones, pods of %d workloads, seed %d\n", r.Nodes, r.Zones, r.Apps, r.Seed)
	fmt.Fprintf(w, "ours     coordinator with etcd inside, %d workers inside, %d beside\n", r.LocalWorkers, r.Workers)
	if r.Profiled {
		fmt.Fprintln(w, "profiles were taken, which costs something")
	}
	fmt.Fprintln(w, "CPU s/1000: CPU seconds of all the scheduler's processes per 1,000 pods; servers: the API server's and etcd's;")
	fmt.Fprintln(w, "binds, status, events, else: requests per pod; others: cores used by what is no part of this")
	for _, drained := range []bool{true, false} {
		if err := r.section(w, drained); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) section(w io.Writer, drained bool) error {
	rows := r.rows(drained)
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	cells := []string{"drain", "pods", "side"}
	if !drained {
		cells = []string{"arrive", "a second", "side"}
	}
	columns := columns(drained)
	for _, c := range columns {
		cells = append(cells, c.name)
		if c.ratio != 0 {
			cells = append(cells, "times")
		}
	}
	fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row.cells(columns, other(rows, row)), "\t")+"\t")
	}
	return t.Flush()
}

// cells are a row's texts, with what it is of the other side's.
func (r *row) cells(columns []column, other *row) []string {
	n := r.Pods
	if r.Rate > 0 {
		n = r.Rate
	}
	side := r.Side
	for _, f := range r.runs {
		if f.Bound < f.Pods {
			side += " (not all)"
			break
		}
	}
	cells := []string{r.Workload, fmt.Sprint(n), side}
	for _, c := range columns {
		mine := r.median(c.figure)
		cells = append(cells, fmt.Sprintf(c.format, mine))
		if c.ratio == 0 {
			continue
		}
		text := ""
		if other != nil && r.Side == ours {
			theirs := other.median(c.figure)
			if c.ratio < 0 {
				mine, theirs = theirs, mine
			}
			text = fmt.Sprintf("%.1f", mine/max(theirs, 1e-9))
		}
		cells = append(cells, text)
	}
	return cells
}
