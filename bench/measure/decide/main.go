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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	klog.LogToStderr(false) // upstream's log
	klog.SetOutput(io.Discard)
	if err := command(klog.NewContext(ctx, klog.Logger{}), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "decide:", err)
		}
		os.Exit(1)
	}
}

// plan is what the flags say.
type plan struct {
	Options
	kinds        []Kind
	clusters     []Size
	placed, pods int
	apps         int
	seed         uint64
	data, out    string
}

const (
	// defaultPods are decided where neither a flag nor the kind says how many.
	defaultPods = 10000
	// From where on a judged decision takes upstream seconds.
	manyNodes = 20000
)

func parse(args []string, progress io.Writer) (*plan, error) {
	p := &plan{}
	fs := flag.NewFlagSet("decide", flag.ContinueOnError)
	fs.SetOutput(progress)
	kinds := fs.String("workloads", "all", "workloads, with commas: their names, or all but those that are only measured where they are "+
		"named: "+named())
	clusters := fs.String("nodes", "1000,5000,50000", "numbers of nodes, with commas; borg: the 96,591 machines of eight Borg cells")
	sides := fs.String("sides", "all", "sides, with commas: all, or of upstream (all nodes), sampled (its default), tables (ours, no "+
		"worker), workers (ours, over gRPC), single (the same, each pod alone)")
	fs.StringVar(&p.out, "out", "results/decide", "`prefix` of the report's files, .json, .txt and .svg; empty: none are written")
	fs.StringVar(&p.data, "data", "../../shared/data", "`folder` of the traces: openb-gpu-2023, borg-2019")
	fs.IntVar(&p.placed, "placed", -1, "pods that are on nodes already; -1: as many as nodes")
	fs.IntVar(&p.pods, "pods", 0, "pods that are decided; 0: 10,000, or as many as the workload needs")
	fs.IntVar(&p.apps, "apps", 0, "workloads that the pods are of, in turn, where they are of more than one; 0: as many as each kind has")
	fs.Uint64Var(&p.seed, "seed", 1, "seed of what is random in a workload")
	fs.IntVar(&p.UpstreamPods, "upstream-pods", 1000, "how many of the pods upstream decides at the most: the first")
	fs.DurationVar(&p.Limit, "limit", 2*time.Second, "how long a side decides in a repetition at the most")
	fs.IntVar(&p.Repetitions, "repetitions", 1, "how often each side is measured")
	fs.IntVar(&p.Sample, "sample", 16, "how many of our decisions are held against upstream; a quarter of that with more than 20,000 nodes")
	fs.IntVar(&p.Batch, "batch", 0, "pods that share a round; 0: the default")
	fs.IntVar(&p.Workers, "workers", 2, "workers")
	fs.IntVar(&p.Shards, "shards", 2, "shards")
	fs.StringVar(&p.Profiles, "profiles", "", "`folder` for CPU and heap profiles of our sides; empty: none are made")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("argument %q: there are only flags", fs.Arg(0))
	}
	var err error
	if p.Sides, err = sidesOf(*sides); err != nil {
		return nil, err
	}
	if p.kinds, err = kindsOf(*kinds); err != nil {
		return nil, err
	}
	if p.clusters, err = clustersOf(*clusters); err != nil {
		return nil, err
	}
	return p, p.validate()
}

// validate checks the numbers.
func (p *plan) validate() error {
	for _, f := range []struct {
		name         string
		value, least int
	}{
		{"placed", p.placed, -1}, {"pods", p.pods, 0}, {"apps", p.apps, 0}, {"upstream-pods", p.UpstreamPods, 1}, {"repetitions",
			p.Repetitions, 1},
		{"sample", p.Sample, 0}, {"batch", p.Batch, 0}, {"workers", p.Workers, 1}, {"shards", p.Shards, 1},
	} {
		if f.value < f.least {
			return fmt.Errorf("-%s: %d, expected %d or more", f.name, f.value, f.least)
		}
	}
	if p.Limit <= 0 {
		return fmt.Errorf("-limit: %v, expected more than 0", p.Limit)
	}
	return nil
}

// named are the workloads that all leaves out.
func named() string {
	var out []string
	for _, k := range Kinds() {
		if k.Named {
			out = append(out, k.Name)
		}
	}
	return strings.Join(out, ", ")
}

func sidesOf(text string) ([]string, error) {
	if text == "all" {
		return Sides(), nil
	}
	out := strings.Split(text, ",")
	for _, name := range out {
		if !slices.Contains(Sides(), name) {
			return nil, fmt.Errorf("-sides: %q, expected all or some of %s", name, strings.Join(Sides(), ","))
		}
	}
	return out, nil
}

func kindsOf(text string) (out []Kind, err error) {
	all, names := Kinds(), strings.Split(text, ",")
	for _, k := range all {
		if text == "all" && !k.Named || slices.Contains(names, k.Name) {
			out = append(out, k)
		}
	}
	for _, name := range names {
		if text != "all" && !slices.ContainsFunc(all, func(k Kind) bool { return k.Name == name }) {
			return nil, fmt.Errorf("-workloads: there is no %q", name)
		}
	}
	return out, nil
}

func clustersOf(text string) (out []Size, err error) {
	for _, name := range strings.Split(text, ",") {
		size := Size{Cluster: name, Nodes: borgMachines}
		if name != borg {
			if size.Nodes, err = strconv.Atoi(name); err != nil || size.Nodes < 1 {
				return nil, fmt.Errorf("-nodes: %q, expected numbers above 0 or %s", name, borg)
			}
		}
		out = append(out, size)
	}
	return out, nil
}

// size is how large a workload of a cluster is.
func (p *plan) size(cluster Size, k Kind) Size {
	cluster.Seed, cluster.Data, cluster.Placed, cluster.Pods, cluster.Apps = p.seed, p.data, p.placed, p.pods, p.apps
	if p.placed < 0 {
		cluster.Placed = cluster.Nodes
	}
	if k.fill != nil {
		cluster.Placed = k.fill(cluster.Nodes)
	}
	if cluster.Pods == 0 {
		cluster.Pods = max(k.pods, defaultPods)
	}
	if k.perNode > 0 {
		cluster.Pods = min(cluster.Pods, k.perNode*cluster.Nodes)
	}
	return cluster
}

func command(ctx context.Context, args []string, out, progress io.Writer) error {
	p, err := parse(args, progress)
	if err != nil {
		return err
	}
	report := &Report{Time: time.Now().UTC().Truncate(time.Second), Seed: p.seed, Options: p.Options}
	if report.Machine, err = machine.This(os.TempDir()); err != nil {
		return err
	}
	if report.Commit, err = machine.Commit(ctx); err != nil {
		return err
	}
	for _, cluster := range p.clusters {
		for _, kind := range p.kinds {
			o := p.Options
			if cluster.Nodes > manyNodes {
				o.Sample = (o.Sample + 3) / 4
			}
			began := time.Now()
			outcome, err := Measure(ctx, kind, p.size(cluster, kind), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(progress, "%s nodes, %s: %.1f s\n", cluster.Cluster, kind.Name, time.Since(began).Seconds())
			report.Workloads = append(report.Workloads, outcome)
		}
	}
	if p.out != "" {
		if err := report.Write(p.out); err != nil {
			return err
		}
	}
	return report.Table(out)
}
