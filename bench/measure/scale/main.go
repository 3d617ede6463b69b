package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/internal/machine"
	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/coordinator/tune"
)

func main() {
	if asked, err := process.RunTurns(os.Args[1:]); asked {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "scale:", err)
		}
		os.Exit(1)
	}
}

// Options say what is measured.
type Options struct {
	Nodes  int `json:"nodes"`
	Pods   int `json:"pods"`
	Shards int `json:"shards"`
	// Workers are the numbers of workers with a core each, in ascending order.
	Workers []int `json:"workers"`
	// MillionNodes are those of the part million, SmallNodes the sizes of the part small, with each of SmallWorkers.
	MillionNodes int   `json:"millionNodes"`
	SmallNodes   []int `json:"smallNodes"`
	SmallWorkers []int `json:"smallWorkers"`
	// SlowLimit is Limit in these parts.
	SlowLimit time.Duration `json:"slowLimitNanoseconds"`
	// Ahead is how many batches the loop asks workers about ahead, and Classes how many classes a batch has: its own tables, which
	// would be cheaper than small workers, are never asked.
	Ahead   int `json:"ahead"`
	Classes int `json:"classes"`
	// Batch is how many classes a round of the workers alone asks for.
	Batch       int           `json:"batch"`
	Repetitions int           `json:"repetitions"`
	Limit       time.Duration `json:"limitNanoseconds"`
	Seed        uint64        `json:"seed"`
	// Stall is how long a worker stalls, StallEvery the mean time from one stall to the next.
	Stall      time.Duration `json:"stallNanoseconds"`
	StallEvery time.Duration `json:"stallEveryNanoseconds"`
}

// way is how the loop asks.
func (o *Options) way() tune.Way { return tune.Way{Ahead: o.Ahead, Classes: o.Classes} }

// Parts of a report.
const (
	partDecide  = "decide"
	partMillion = "million"
	partSmall   = "small"
	partHedge   = "hedge"
)

// plan is what the flags say.
type plan struct {
	Options
	parts []string
	out   string
}

// does says whether a part is wanted.
func (p *plan) does(part string) bool { return slices.Contains(p.parts, part) }

func parse(args []string, progress io.Writer) (*plan, error) {
	p := &plan{}
	fs := flag.NewFlagSet("scale", flag.ContinueOnError)
	fs.SetOutput(progress)
	fs.IntVar(&p.Nodes, "nodes", 50000, "nodes, with a pod on each")
	fs.IntVar(&p.Pods, "pods", 20000, "pods that wait, of which as many are decided as the limit lets")
	fs.IntVar(&p.Shards, "shards", 16, "shards")
	numbers(fs, &p.Workers, "workers", "1,2", "numbers of workers with a core each, with commas")
	fs.IntVar(&p.MillionNodes, "million-nodes", 1_000_000, "nodes of the part million, with a pod on each")
	numbers(fs, &p.SmallNodes, "small-nodes", "50000,200000", "nodes of the part small, with commas")
	numbers(fs, &p.SmallWorkers, "small-workers", "1,2,4,8", "numbers of workers of the part small, with commas")
	fs.DurationVar(&p.SlowLimit, "slow-limit", 10*time.Second, "how long each is measured in the parts million and small")
	fs.IntVar(&p.Ahead, "ahead", 1, "how many batches the loop asks workers about ahead")
	fs.IntVar(&p.Classes, "classes", 16, "classes without an answer that a batch of the loop has")
	fs.IntVar(&p.Batch, "batch", 32, "classes that a round of the workers alone asks for")
	fs.IntVar(&p.Repetitions, "repetitions", 3, "how often each number of workers is measured")
	fs.DurationVar(&p.Limit, "limit", 2*time.Second, "how long each is measured in a repetition")
	fs.Uint64Var(&p.Seed, "seed", 1, "seed of what is random")
	parts := fs.String("parts", "decide,million,small,hedge", "parts, with commas: decide (with each number of workers), million (the "+
		"same with many nodes), small (workers with an eighth of a core), hedge (workers that stall)")
	fs.DurationVar(&p.Stall, "stall", 50*time.Millisecond, "how long a worker stalls")
	fs.DurationVar(&p.StallEvery, "stall-every", 500*time.Millisecond, "mean time from one stall to the next")
	fs.StringVar(&p.out, "out", "results/scale", "`prefix` of the report's files, .json and .txt; empty: none are written")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("argument %q: there are only flags", fs.Arg(0))
	}
	p.parts = strings.Split(*parts, ",")
	for _, part := range p.parts {
		if !slices.Contains([]string{partDecide, partMillion, partSmall, partHedge}, part) {
			return nil, fmt.Errorf("-parts: %q, expected some of decide,million,small,hedge", part)
		}
	}
	return p, p.validate()
}

// validate checks the numbers.
func (p *plan) validate() error {
	for _, f := range []struct {
		name         string
		value, least int
	}{
		{"nodes", p.Nodes, 1}, {"pods", p.Pods, 1}, {"shards", p.Shards, 1}, {"batch", p.Batch, 1},
		{"ahead", p.Ahead, 0}, {"classes", p.Classes, 1}, {"repetitions", p.Repetitions, 1},
		{"million-nodes", p.MillionNodes, 1},
	} {
		if f.value < f.least {
			return fmt.Errorf("-%s: %d, expected %d or more", f.name, f.value, f.least)
		}
	}
	if p.Limit <= 0 || p.SlowLimit <= 0 {
		return fmt.Errorf("-limit %v, -slow-limit %v: expected more than 0", p.Limit, p.SlowLimit)
	}
	if most := slices.Max(p.SmallWorkers); most > smallOnes {
		return fmt.Errorf("-small-workers: %d, expected %d or fewer on a core", most, smallOnes)
	}
	if p.Stall <= 0 || p.StallEvery <= 0 {
		return fmt.Errorf("-stall %v, -stall-every %v: expected more than 0", p.Stall, p.StallEvery)
	}
	return nil
}

// numbers declares a flag of numbers above 0, which are in ascending order and each once.
func numbers(fs *flag.FlagSet, to *[]int, name, value, usage string) {
	set := func(text string) error {
		*to = nil
		for _, word := range strings.Split(text, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return errors.New("expected numbers above 0, with commas")
			}
			*to = append(*to, n)
		}
		slices.Sort(*to)
		*to = slices.Compact(*to)
		return nil
	}
	_ = set(value) // a default is right
	fs.Func(name, fmt.Sprintf("%s (default %s)", usage, value), set)
}

func command(ctx context.Context, args []string, out, progress io.Writer) error {
	p, err := parse(args, progress)
	if err != nil {
		return err
	}
	report := &Report{Time: time.Now().UTC().Truncate(time.Second), Options: p.Options}
	if report.Machine, err = machine.This(os.TempDir()); err != nil {
		return err
	}
	if report.Commit, err = machine.Commit(ctx); err != nil {
		return err
	}
	if err := p.measure(ctx, report, progress); err != nil {
		return err
	}
	if p.out != "" {
		if err := machine.WriteReport(p.out, report, report.Table); err != nil {
			return err
		}
	}
	return report.Table(out)
}

// measure measures in a folder of its own, which stays where something goes wrong.
func (p *plan) measure(ctx context.Context, report *Report, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "scale-")
	if err != nil {
		return err
	}
	f, err := newFleet(ctx, dir)
	if err != nil {
		return err
	}
	err = p.withFleet(ctx, f, report, progress)
	f.close()
	if err != nil {
		return fmt.Errorf("%w (processes' output: %s)", err, dir)
	}
	return os.RemoveAll(dir)
}

// withFleet measures the parts, one size after the other: a cluster's objects are dropped before the next one's are made.
func (p *plan) withFleet(ctx context.Context, f *fleet, report *Report, progress io.Writer) error {
	m := &measurement{plan: p, fleet: f, report: report, progress: progress, decisions: decisions{}}
	if p.does(partDecide) || p.does(partHedge) {
		if err := m.ordinary(ctx); err != nil {
			return err
		}
	}
	if p.does(partMillion) {
		if err := m.million(ctx); err != nil {
			return err
		}
	}
	if p.does(partSmall) {
		if err := m.small(ctx); err != nil {
			return err
		}
	}
	report.Fit = newFit(append(points(report.Million, float64(len(f.cores))), points(report.Small, 0)...))
	return nil
}
