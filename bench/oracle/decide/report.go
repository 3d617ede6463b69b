package decide

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shardsched/shardsched/bench/machine"
)

// Report is all that was measured, and where.
type Report struct {
	Time    time.Time  `json:"time"`
	Commit  string     `json:"commit"`
	Go      string     `json:"go"`
	CPUs    int        `json:"cpus"`
	Load    string     `json:"load"`
	Options Options    `json:"options"`
	Shapes  []*Outcome `json:"shapes"`
}

// NewReport is one without shapes.
func NewReport(ctx context.Context, o Options) *Report {
	r := &Report{Time: time.Now().UTC().Truncate(time.Second), Commit: "unknown", Go: runtime.Version(), CPUs: runtime.GOMAXPROCS(0), Options: o}
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output(); err == nil {
		r.Commit = strings.TrimSpace(string(out))
	}
	// Others' work of the last minute.
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.Load, _, _ = strings.Cut(string(load), " ")
	}
	return r
}

// Write writes the report as prefix.json and prefix.txt.
func (r *Report) Write(prefix string) error {
	return machine.WriteReport(prefix, r, r.Table)
}

// Table writes the report for people: medians, with the smallest and the largest run.
func (r *Report) Table(w io.Writer) error {
	o := &r.Options
	fmt.Fprintf(w, "commit %s, %s, %s, %d CPUs, load %s\n", r.Commit, r.Time.Format(time.RFC3339), r.Go, r.CPUs, r.Load)
	fmt.Fprintf(w, "%d nodes, %d pods on them, %d pods of %d workloads to decide; %d repetitions, %d workers\n\n",
		o.Nodes, o.Placed, o.Pods, o.Apps, o.Repetitions, o.Workers)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) {
		for _, c := range cells {
			fmt.Fprintf(t, "%v\t", c)
		}
		fmt.Fprintln(t)
	}
	row("µs per pod", "side", "pods", "CPU", "from", "to", "times less", "wall", "times less", "bytes", "rounds", "again", "judged")
	for _, s := range r.Shapes {
		for _, side := range []string{Upstream, Tables, Workers} {
			if len(s.Sides[side]) == 0 {
				continue
			}
			row(s.cells(side)...)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, s := range r.Shapes {
		fmt.Fprintf(w, "%s: %s\n", s.Shape, s.About)
	}
	return nil
}

// times is how many times less a median is than another; 0 where it was not measured.
func times(than, of summary) float64 {
	if of.median == 0 {
		return 0
	}
	return than.median / of.median
}

// cells are a side's row.
func (s *Outcome) cells(side string) []any {
	cpu, wall := spread(s.Sides[side], cpuOf), spread(s.Sides[side], wallOf)
	bytes := spread(s.Sides[side], func(r Run) float64 { return r.Bytes })
	pods := spread(s.Sides[side], func(r Run) float64 { return float64(r.Pods) })
	cells := []any{s.Shape, side, pods.median, figure(cpu.median), figure(cpu.least), figure(cpu.most)}
	if side == Upstream {
		return append(cells, "", figure(wall.median), "", figure(bytes.median), "", "", "")
	}
	return append(cells,
		figure(times(spread(s.Sides[Upstream], cpuOf), cpu)), figure(wall.median),
		figure(times(spread(s.Sides[Upstream], wallOf), wall)), figure(bytes.median), s.Rounds, s.Again, s.Judged)
}

func cpuOf(r Run) float64  { return r.CPUMicros }
func wallOf(r Run) float64 { return r.WallMicros }

// summary is what the repetitions came to.
type summary struct{ least, median, most float64 }

// spread of no runs is zeros; the median of an even number is the lower one.
func spread(runs []Run, figure func(Run) float64) summary {
	if len(runs) == 0 {
		return summary{}
	}
	figures := make([]float64, len(runs))
	for i, r := range runs {
		figures[i] = figure(r)
	}
	slices.Sort(figures)
	return summary{figures[0], figures[(len(figures)-1)/2], figures[len(figures)-1]}
}

// figure has three digits, or all before the point.
func figure(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
