package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	nodes, zones, apps    int
	sizes, rates          ints
	sides, workloads      words
	duration              time.Duration
	runs                  int
	seed                  uint64
	workers, localWorkers int
	out, dir, profiles    string
	patience              time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out, progress io.Writer) error {
	o := options{sizes: ints{5000, 10000}, rates: ints{50, 300}, sides: words{upstream, ours}, workloads: workloadNames()}
	fs := flag.NewFlagSet("drain", flag.ContinueOnError)
	fs.SetOutput(progress)
	fs.IntVar(&o.nodes, "nodes", 5000, "hollow nodes")
	fs.IntVar(&o.zones, "zones", 3, "zones that they are in")
	fs.IntVar(&o.apps, "apps", 10, "workloads that the pods of a case belong to")
	fs.Var(&o.sizes, "pods", "how many pods to drain, comma-separated; empty: no drain")
	fs.Var(&o.rates, "rates", "pods arriving a second, comma-separated; empty: none arrive")
	fs.DurationVar(&o.duration, "arrive-for", 20*time.Second, "how long pods arrive")
	fs.Var(&o.workloads, "workloads", "kinds of pods, comma-separated")
	fs.Var(&o.sides, "sides", "schedulers, comma-separated")
	fs.IntVar(&o.runs, "runs", 1, "how often each case is measured; the report gives medians")
	fs.Uint64Var(&o.seed, "seed", 1, "of the order of the pods and the sizes of the nodes")
	fs.IntVar(&o.workers, "workers", 0, "worker processes of ours")
	fs.IntVar(&o.localWorkers, "local-workers", 0, "workers inside our coordinator's process")
	fs.StringVar(&o.out, "out", "results/drain", "`prefix` of the report's files, .json and .txt")
	fs.StringVar(&o.dir, "dir", "../bin", "`folder` for etcd's data and the processes' output")
	fs.StringVar(&o.profiles, "profiles", "", "`folder` for CPU profiles of the schedulers: they cost the measurement something")
	fs.DurationVar(&o.patience, "patience", 5*time.Minute, "how long a case may take; one that takes longer is reported as far as it came")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if err := o.validate(fs.Args()); err != nil {
		return err
	}
	r, err := o.measure(ctx, progress)
	if r == nil || len(r.Cases) == 0 {
		return err
	}
	// What was measured before something went wrong is worth having.
	return errors.Join(err, r.write(o.out), r.table(out))
}

func (o *options) validate(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	for name, n := range map[string]int{"nodes": o.nodes, "zones": o.zones, "apps": o.apps, "runs": o.runs} {
		if n < 1 {
			return fmt.Errorf("-%s: got %d, want 1 or more", name, n)
		}
	}
	for _, s := range o.sides {
		if s != upstream && s != ours {
			return fmt.Errorf("-sides: got %q, want %s or %s", s, upstream, ours)
		}
	}
	for _, w := range o.workloads {
		if _, err := workloadOf(w); err != nil {
			return fmt.Errorf("-workloads: %w", err)
		}
	}
	return nil
}

// ints is a flag of numbers above 0.
type ints []int

func (l *ints) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*l), " ", ","), "[]")
}

func (l *ints) Set(text string) error {
	*l = nil
	for _, word := range split(text) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		if n < 1 {
			return fmt.Errorf("got %d, want 1 or more", n)
		}
		*l = append(*l, n)
	}
	return nil
}

// words is a flag of words.
type words []string

func (l *words) String() string { return strings.Join(*l, ",") }

func (l *words) Set(text string) error {
	*l = split(text)
	return nil
}

// split takes a comma-separated list apart; the empty one has nothing.
func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
