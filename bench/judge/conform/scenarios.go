package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/shardsched/shardsched/bench/judge/oracle/conformance"
)

// shown is how many differences of a decision are printed.
const shown = 12

// scenarios are those of a range of seeds.
type scenarios struct {
	families     []conformance.Family
	first, seeds uint64
	limit        time.Duration
	maxNodes     int
	keep         bool
	out          string
	log          string
}

// each calls f with each seed until the time is over or f has had enough.
func (s *scenarios) each(f func(seed uint64) (more bool, err error)) (done uint64, err error) {
	start := time.Now()
	for seed := s.first; seed-s.first < s.seeds && time.Since(start) < s.limit; seed++ {
		done++
		more, err := f(seed)
		if err != nil {
			return done, fmt.Errorf("seed %d: %w", seed, err)
		}
		if !more {
			break
		}
	}
	return done, nil
}

// run holds our scheduler against upstream.
func (s *scenarios) run(ctx context.Context) (code int, err error) {
	var total conformance.Result
	var log io.Writer = io.Discard
	if s.log != "" {
		f, err := os.Create(s.log)
		if err != nil {
			return failed, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		log = f
	}
	start := time.Now()
	done, err := s.each(func(seed uint64) (bool, error) {
		scenario, split := conformance.Random(seed, s.maxNodes, s.families), conformance.SplitOf(seed)
		r, err := conformance.Run(ctx, scenario, split)
		if err != nil {
			return false, err
		}
		total.Add(r)
		if _, err := fmt.Fprintf(log, "seed %d\n%s", seed, r.Log); err != nil {
			return false, err
		}
		if len(r.Differences) == 0 {
			return true, nil
		}
		code = different
		fmt.Printf("seed %d (%+v, %v):\n", seed, split, s.families)
		show(r)
		return s.keep, s.reproduce(ctx, seed, scenario, r.Differences[0].What)
	})
	fmt.Printf("%d seeds from %d: %s, %s\n", done, s.first, &total, time.Since(start).Round(time.Millisecond))
	return code, err
}

func show(r *conformance.Result) {
	for _, d := range r.Differences[:min(len(r.Differences), shown)] {
		fmt.Println(d)
	}
}

// reproduce makes a scenario small and writes it down.
func (s *scenarios) reproduce(ctx context.Context, seed uint64, scenario *conformance.Scenario, what string) error {
	if s.out == "" {
		return nil
	}
	small, d := conformance.Shrink(ctx, scenario, conformance.SplitOf(seed), what)
	small.Split = conformance.SplitOf(seed)
	text, err := conformance.Format(small, d)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	file, err := filepath.Abs(filepath.Join(s.out, fmt.Sprintf("seed-%d.yaml", seed)))
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\nTo see it again: cd bench && go run ./judge/conform -replay %s\n", text, file)
	return os.WriteFile(file, text, 0o644)
}

// survey tells what upstream finds.
func (s *scenarios) survey(ctx context.Context) error {
	r := conformance.NewReach()
	if _, err := s.each(func(seed uint64) (bool, error) {
		return true, r.Add(ctx, conformance.Random(seed, s.maxNodes, s.families))
	}); err != nil {
		return err
	}
	fmt.Printf("%d decisions, %d of %d pods placed\n", r.Decisions, r.Placed, r.Pods)
	list("nodes refused", r.Refusals)
	list("feasible nodes that a plugin scores unlike another", r.Scores)
	list("pods refused as such", withoutNumbers(r.Errors))
	list("claims given devices", r.Devices)
	list("pods that preempt nobody", withoutNumbers(r.Kept))
	return nil
}

// withoutNumbers takes texts together that differ in numbers.
func withoutNumbers(counts map[string]int) map[string]int {
	out := map[string]int{}
	number := regexp.MustCompile(`[0-9]+`)
	for text, n := range counts {
		out[number.ReplaceAllString(text, "#")] += n
	}
	return out
}

func list(title string, counts map[string]int) {
	fmt.Printf("\n%s\n", title)
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("%8d %s\n", counts[what], what)
	}
}

// replayScenario runs a scenario that was written down.
func replayScenario(ctx context.Context, file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return failed, err
	}
	s, err := conformance.Read(text)
	if err != nil {
		return failed, err
	}
	r, err := conformance.Run(ctx, s, s.Split)
	if err != nil {
		return failed, err
	}
	return tell(r, r), nil
}

// tell prints a result.
func tell(r *conformance.Result, all fmt.Stringer) int {
	show(r)
	fmt.Println(all)
	if len(r.Differences) > 0 {
		return different
	}
	return same
}
