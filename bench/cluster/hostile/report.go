package main

import (
	"context"
	"fmt"
	"io"
	"strings"
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
	Nodes   int             `json:"nodes"`
	Pods    int             `json:"pods"`
	Rate    int             `json:"rate"` // victims a second
	Seconds float64         `json:"seconds"`
	Scale   float64         `json:"scale"`
	Workers int             `json:"localWorkers"`
	Cases   []*figures      `json:"cases"`
	Rounds  []*round        `json:"rounds,omitempty"`
}

// figures are what came of an attack on one side. Latencies are in milliseconds.
type figures struct {
	Attack      string  `json:"attack"`
	Side        string  `json:"side"`
	Made        int     `json:"made"`    // pods of the attacker
	Victims     int     `json:"victims"` // under attack
	CalmP50     float64 `json:"calmP50"`
	CalmP99     float64 `json:"calmP99"`
	P50         float64 `json:"p50"`
	P99         float64 `json:"p99"`
	Unbound     int     `json:"unbound"`
	CalmMiB     float64 `json:"calmMiB"`
	PeakMiB     float64 `json:"peakMiB"`
	EndMiB      float64 `json:"endMiB"`
	Cores       float64 `json:"cores"` // that the scheduler uses under attack
	LeaderStays bool    `json:"leaderStays"`
	LogKiB      float64 `json:"logKiBPerSecond"`
	EtcdKiB     float64 `json:"etcdKiBPerSecond"`
	// Faults say what the side does not stand; empty: it stands the attack.
	Faults []string `json:"faults"`
}

// What a scheduler has to stand. Latencies have a floor: a turn of the loop may take 50 ms.
const (
	latencyRatio = 2
	latencyFloor = 50
	memoryRatio  = 1.2
)

// judge fills in the faults of a case, given what came of the same attack on the other sides: the API server's share shows in
// bystanders, and kube-scheduler's memory is what a cluster gives a scheduler now.
func (f *figures) judge(beside []*figures) {
	latency, memory := max(latencyFloor, latencyRatio*f.CalmP99), memoryRatio*f.CalmMiB
	for _, other := range beside {
		switch {
		case other.Attack != f.Attack:
		case other.Side == bystander:
			latency, memory = max(latency, latencyRatio*other.P99), max(memory, memoryRatio*other.PeakMiB)
		case other.Side == upstream:
			memory = max(memory, other.PeakMiB)
		}
	}
	f.Faults = []string{}
	for _, fault := range []struct {
		is   bool
		what string
	}{
		{f.P99 > latency, fmt.Sprintf("p99 above %.0f ms", latency)},
		{f.Unbound > 0, fmt.Sprintf("%d unbound", f.Unbound)},
		{f.PeakMiB > memory, fmt.Sprintf("memory above %.0f MiB", memory)},
		{!f.LeaderStays, "the leader ends"},
	} {
		if fault.is {
			f.Faults = append(f.Faults, fault.what)
		}
	}
}

func (f *figures) verdict() string {
	if len(f.Faults) == 0 {
		return "stands"
	}
	return strings.Join(f.Faults, ", ")
}

func (f *figures) String() string {
	return fmt.Sprintf("%s, %s: p50 %.0f ms (calm %.0f), p99 %.0f ms (calm %.0f), %d of %d unbound, %.0f MiB (calm %.0f, end %.0f), %.2f "+
		"cores, %d made: %s",
		f.Attack, f.Side, f.P50, f.CalmP50, f.P99, f.CalmP99, f.Unbound, f.Victims, f.PeakMiB, f.CalmMiB, f.EndMiB, f.Cores,
		f.Made, f.verdict())
}

func newReport(ctx context.Context, o *options, dir string) (*report, error) {
	m, err := machine.This(dir)
	if err != nil {
		return nil, err
	}
	commit, err := machine.Commit(ctx)
	if err != nil {
		return nil, err
	}
	return &report{
		Time: time.Now().UTC().Truncate(time.Second), Commit: commit, Machine: m, Seed: o.seed, Nodes: o.nodes, Pods: o.pods,
		Rate: o.rate, Seconds: o.attackFor.Seconds(), Scale: o.scale, Workers: o.localWorkers,
	}, nil
}

// table writes the report for people.
func (r *report) table(w io.Writer) error {
	fmt.Fprintf(w, "commit   %s, %s\n", r.Commit, r.Time.Format(time.RFC3339))
	fmt.Fprintf(w, "machine  %s\n", r.Machine)
	fmt.Fprintf(w, "cluster  %d nodes, %d pods on them, %d victims a second for %.0f s, attacks × %v, seed %d\n", r.Nodes, r.Pods, r.Rate,
		r.Seconds, r.Scale, r.Seed)
	fmt.Fprintf(w, "ours     a coordinator with %d workers inside\n", r.Workers)
	for _, at := range r.Rounds {
		fmt.Fprintln(w, at)
	}
	if len(r.Cases) == 0 {
		return nil
	}
	fmt.Fprintln(w, "made: pods of the attacker; ms: victims, from creation to bound; MiB, cores: the scheduler's process; KiB/s: what "+
		"it prints, and writes to its etcd")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "attack\tside\tmade\tcalm p50\tp99\tp50 ms\tp99 ms\tunbound\tof\tcalm MiB\tpeak\tend\tcores\tlog KiB/s\tetcd\t verdict")
	for _, f := range r.Cases {
		fmt.Fprintf(t, "%s\t%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.2f\t%.1f\t%.1f\t %s\n", f.Attack, f.Side, f.Made,
			f.CalmP50, f.CalmP99, f.P50, f.P99,
			f.Unbound, f.Victims, f.CalmMiB, f.PeakMiB, f.EndMiB, f.Cores, f.LogKiB, f.EtcdKiB, f.verdict())
	}
	return t.Flush()
}

// verdict is an error where ours does not stand an attack.
func (r *report) verdict() error {
	var failed []string
	for _, f := range r.Cases {
		if f.Side == ours && len(f.Faults) > 0 {
			failed = append(failed, f.Attack+" ("+f.verdict()+")")
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("ours does not stand: %s", strings.Join(failed, "; "))
}
