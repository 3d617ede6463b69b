package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// options are the flags.
type options struct {
	data, trace     string
	out, dir        string
	runs            int
	simulateWorkers int
	upWorkers       int
	submitters      int
	seed            uint64
	limit           time.Duration
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
	var o options
	fs := flag.NewFlagSet("trace", flag.ContinueOnError)
	fs.SetOutput(progress)
	fs.StringVar(&o.data, "data", "../../shared/data/openb-gpu-2023", "`folder` with the trace's CSV files")
	fs.StringVar(&o.trace, "trace", "default", "which pod list: default, gpuspec33, multigpu50")
	fs.StringVar(&o.out, "out", "../bin/trace", "`prefix` of the report's files, .json and .txt")
	fs.StringVar(&o.dir, "dir", "../bin", "`folder` for etcd's data and the processes' output: its disk is measured too")
	fs.IntVar(&o.runs, "runs", 3, "how often each part is measured; the report gives each, and the median")
	fs.IntVar(&o.simulateWorkers, "simulate-workers", 2, "workers of simulate")
	fs.IntVar(&o.upWorkers, "up-workers", 4, "workers of up")
	fs.IntVar(&o.submitters, "submitters", 2, "requests that the client of up has under way at once")
	fs.Uint64Var(&o.seed, "seed", 0, "shuffles the pods; 0: the trace's own order")
	fs.DurationVar(&o.limit, "limit", 10*time.Minute, "when to give up")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.runs < 1 || o.submitters < 1 {
		return errors.New("--runs and --submitters are 1 or more")
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	r, err := o.measure(ctx, progress)
	if err != nil {
		return err
	}
	if err := r.write(o.out); err != nil {
		return err
	}
	return r.table(out)
}

// traceRun is a measurement under way.
type traceRun struct {
	options
	dir    string // of this run
	binary string
	group  *process.Group
}

func (o options) measure(ctx context.Context, progress io.Writer) (*report, error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.dir, "trace-")
	if err != nil {
		return nil, err
	}
	b := &traceRun{options: o, dir: dir, binary: filepath.Join(dir, "shardsched"), group: process.NewGroup(dir)}
	r, err := b.run(ctx, progress)
	b.group.Close()
	if err != nil {
		return nil, fmt.Errorf("%w (processes' output: %s)", err, dir)
	}
	return r, os.RemoveAll(dir)
}

func (b *traceRun) run(ctx context.Context, progress io.Writer) (*report, error) {
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	r, err := newReport(ctx, b.options, b.dir)
	if err != nil {
		return nil, err
	}
	input, err := b.convert(ctx, r)
	if err != nil {
		return nil, err
	}
	for i := range b.runs {
		fmt.Fprintf(progress, "simulate, %d of %d\n", i+1, b.runs)
		s, err := b.simulate(ctx, input)
		if err != nil {
			return nil, err
		}
		r.Simulate = append(r.Simulate, s)
	}
	for i := range b.runs {
		fmt.Fprintf(progress, "up, %d of %d\n", i+1, b.runs)
		u, err := b.up(ctx, input, i)
		if err != nil {
			return nil, err
		}
		r.Up = append(r.Up, u)
	}
	return r, nil
}

// build builds the binary as its own module does: the product's versions, not the bench's.
func (b *traceRun) build(ctx context.Context) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/shardsched/shardsched").Output()
	if err != nil {
		return fmt.Errorf("find the product's module (run this in bench/): %w", err)
	}
	binary, err := filepath.Abs(b.binary)
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/shardsched")
	build.Dir = strings.TrimSpace(string(dir))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build shardsched: %w\n%s", err, out)
	}
	return nil
}
