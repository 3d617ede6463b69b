// Decide measures what a decision costs, ours and that of kube-scheduler's plugins on all nodes, for
// shape after shape of pods:
//
//	decide [-shapes LIST] [-pods N] [-upstream-pods N] [-repetitions N] [-out PREFIX] …
//
// It prints a table, writes PREFIX.json and PREFIX.txt, and exits with 1 where a decision of ours
// is none that the plugins could have made.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/oracle/decide"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	klog.LogToStderr(false) // upstream's log
	klog.SetOutput(io.Discard)
	if err := command(klog.NewContext(ctx, klog.Logger{}), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "decide:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out, progress io.Writer) error {
	var o decide.Options
	fs := flag.NewFlagSet("decide", flag.ContinueOnError)
	fs.SetOutput(progress)
	names := fs.String("shapes", "all", "kinds of pods, with commas: their names, or all but local-volumes, for which upstream needs a minute a pod (try -nodes 500)")
	sides := fs.String("sides", "all", "sides that are measured, with commas: all, or of upstream, tables, workers")
	prefix := fs.String("out", "", "`prefix` of the report's files, .json and .txt; empty: none are written")
	fs.IntVar(&o.Nodes, "nodes", 5000, "nodes of the cluster")
	fs.IntVar(&o.Placed, "placed", 5000, "pods that are on nodes already")
	fs.IntVar(&o.Pods, "pods", 2048, "pods that are decided")
	fs.IntVar(&o.Apps, "apps", 16, "workloads that the pods are of, in turn")
	fs.IntVar(&o.UpstreamPods, "upstream-pods", 64, "how many of the pods upstream decides at the most: the first")
	fs.DurationVar(&o.Limit, "limit", 2*time.Second, "how long upstream decides in a repetition at the most")
	fs.IntVar(&o.Repetitions, "repetitions", 3, "how often each side is measured")
	fs.IntVar(&o.Sample, "sample", 16, "how many of our decisions are held against upstream")
	fs.IntVar(&o.Batch, "batch", 0, "pods that share a round; 0: the default")
	fs.IntVar(&o.Workers, "workers", 2, "workers")
	fs.StringVar(&o.Profiles, "profiles", "", "`folder` for CPU and allocation profiles of our sides; empty: none are made")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *sides != "all" {
		o.Sides = strings.Split(*sides, ",")
	}
	report := decide.NewReport(ctx, o)
	for _, shape := range decide.Shapes() {
		if !wanted(*names, shape) {
			continue
		}
		fmt.Fprintln(progress, shape.Name, "...")
		outcome, err := decide.Measure(ctx, shape, o)
		if err != nil {
			return err
		}
		report.Shapes = append(report.Shapes, outcome)
	}
	if *prefix != "" {
		if err := report.Write(*prefix); err != nil {
			return err
		}
	}
	return report.Table(out)
}

// wanted tells whether a shape is named, or part of all.
func wanted(names string, shape decide.Shape) bool {
	if names == "all" {
		return !shape.Costly
	}
	return slices.Contains(strings.Split(names, ","), shape.Name)
}
