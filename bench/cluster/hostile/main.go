package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The sides.
const (
	upstream = "upstream"
	ours     = "ours"
	// bystander is ours, with the attacker's pods for a scheduler that is not there: what it costs others that these
	// pods are made and watched, before anybody looks at them.
	bystander = "bystander"
)

// options are the flags.
type options struct {
	size
	attacks       []*attack
	sides         []string
	output        string
	dir, profiles string
	churn         time.Duration
}

// settleFor is for how long victims come before anything is measured.
const settleFor = time.Second

// size says how large a case is, and how long it takes.
type size struct {
	nodes, pods, rate int
	// settleFor and calmFor are for how long victims come before the attack: not measured, and measured.
	settleFor, calmFor time.Duration
	attackFor, wait    time.Duration
	scale              float64
	localWorkers       int
	seed               uint64
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
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	r, err := o.measure(ctx, progress)
	if r == nil || len(r.Cases)+len(r.Rounds) == 0 {
		return err
	}
	// What was measured before something went wrong is worth having.
	return errors.Join(err, r.write(out, o.output), r.verdict(), r.grown())
}

func parse(args []string, progress io.Writer) (o options, err error) {
	fs := flag.NewFlagSet("hostile", flag.ContinueOnError)
	fs.SetOutput(progress)
	fs.IntVar(&o.nodes, "nodes", 5000, "hollow nodes")
	fs.IntVar(&o.pods, "pods", 10000, "pods that run on them")
	fs.IntVar(&o.rate, "rate", 50, "victims arriving a second")
	fs.DurationVar(&o.attackFor, "for", 20*time.Second, "how long an attack takes; the calm before it takes half as long")
	fs.DurationVar(&o.wait, "wait", 30*time.Second, "how long victims may take to be bound after that")
	fs.Float64Var(&o.scale, "scale", 1, "how many of an attack's objects are made: the `share` of all")
	fs.IntVar(&o.localWorkers, "local-workers", 0, "workers inside our coordinator's process")
	fs.DurationVar(&o.churn, "churn", 0, "have one scheduler meet all of the attacks again and again for so long, and tell after each "+
		"round what memory it takes; 0: a scheduler of its own meets each attack, once")
	fs.Uint64Var(&o.seed, "seed", 1, "of what is random")
	fs.StringVar(&o.output, "o", "text", "`FORMAT` of the report: text or json")
	fs.StringVar(&o.dir, "dir", "../bin", "`folder` for etcd's data and the processes' output")
	fs.StringVar(&o.profiles, "profiles", "", "`folder` for CPU profiles of the schedulers under attack: they cost the measurement "+
		"something")
	sides := fs.String("sides", bystander+","+upstream+","+ours, "comma-separated, in the order of running: ours is judged beside those "+
		"before it: "+upstream+" (kube-scheduler), "+ours+", "+bystander+" (ours, with the attacker's pods for another scheduler)")
	names := fs.String("attacks", "", "names of attacks, comma-separated; empty: all of them, which are\n"+describe(catalogue()))
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	o.settleFor, o.calmFor = settleFor, o.attackFor/2
	o.sides = strings.Split(*sides, ",")
	if o.attacks, err = choose(*names); err != nil {
		return o, err
	}
	return o, o.validate()
}

func (o *options) validate() error {
	for name, n := range map[string]int{"nodes": o.nodes, "pods": o.pods, "rate": o.rate, "for, in seconds": int(o.attackFor.Seconds())} {
		if n < 1 {
			return fmt.Errorf("-%s: got %d, want 1 or more", name, n)
		}
	}
	for _, s := range o.sides {
		if s != upstream && s != ours && s != bystander {
			return fmt.Errorf("-sides: got %q, want %s, %s or %s", s, upstream, ours, bystander)
		}
	}
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o: got %q, want text or json", o.output)
	}
	if o.churn < 0 {
		return fmt.Errorf("-churn: got %v, want 0 or more", o.churn)
	}
	if o.scale <= 0 {
		return fmt.Errorf("-scale: got %v, want more than 0", o.scale)
	}
	return nil
}

// choose are the attacks of a comma-separated list.
func choose(names string) (chosen []*attack, err error) {
	all := catalogue()
	if names == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(a *attack) bool { return a.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-attacks: got %q, want some of\n%s", name, describe(all))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func describe(all []*attack) string {
	var s strings.Builder
	for _, a := range all {
		fmt.Fprintf(&s, "  %-22s%s\n", a.name, a.about)
	}
	return s.String()
}

// write writes the report in a format.
func (r *report) write(w io.Writer, format string) error {
	if format == "text" {
		return r.table(w)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
