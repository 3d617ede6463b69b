// Conform runs random scenarios until one differs or there are no more.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/oracle/conformance"
)

// shown is how many differences of a decision are printed.
const shown = 12

func main() {
	first := flag.Uint64("first", 1, "first seed")
	seeds := flag.Uint64("seeds", 100, "number of seeds")
	maxNodes := flag.Int("nodes", 60, "most nodes of a cluster")
	keep := flag.Bool("keep-going", false, "go on after a difference")
	out := flag.String("out", "", "folder for the reproducers; empty: none are made")
	limit := flag.Duration("for", time.Hour, "stop after this long")
	which := flag.String("families", "evaluated", "families of rules to make cases for")
	flag.Parse()
	families, err := conformance.ParseFamilies(*which)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(run(families, *first, *seeds, *maxNodes, *keep, *out, *limit))
}

func run(families []conformance.Family, first, seeds uint64, maxNodes int, keep bool, out string, limit time.Duration) (code int) {
	ctx := klog.NewContext(context.Background(), klog.Logger{}) // no log
	var total conformance.Result
	start := time.Now()
	done := uint64(0)
	defer func() {
		fmt.Printf("%d seeds from %d: %d decisions (%d refusals, %d errors), %d verdicts on nodes, %d differing scenarios, %s\n",
			done, first, total.Decisions, total.Refusals, total.Errors, total.NodeVerdicts, len(total.Differences), time.Since(start).Round(time.Millisecond))
	}()
	for seed := first; seed < first+seeds && time.Since(start) < limit; seed++ {
		s := conformance.Random(seed, maxNodes, families)
		split := conformance.SplitOf(seed)
		r, err := conformance.Run(ctx, s, split)
		done++
		if err != nil {
			fmt.Printf("seed %d: %v\n", seed, err)
			return 2
		}
		total.Decisions += r.Decisions
		total.Refusals += r.Refusals
		total.Errors += r.Errors
		total.NodeVerdicts += r.NodeVerdicts
		if len(r.Differences) == 0 {
			continue
		}
		code = 1
		total.Differences = append(total.Differences, r.Differences[0])
		fmt.Printf("seed %d (%+v):\n", seed, split)
		for _, d := range r.Differences[:min(len(r.Differences), shown)] {
			fmt.Println(d)
		}
		if out != "" {
			if err := reproduce(ctx, s, split, r.Differences[0].What, fmt.Sprintf("%s/seed-%d.yaml", out, seed)); err != nil {
				fmt.Println(err)
			}
		}
		if !keep {
			return code
		}
	}
	return code
}

// reproduce makes the scenario small and writes it down.
func reproduce(ctx context.Context, s *conformance.Scenario, split conformance.Split, what, file string) error {
	small, d := conformance.Shrink(ctx, s, split, what)
	text, err := conformance.Format(small, d)
	if err != nil {
		return err
	}
	fmt.Printf("%s:\n%s\n", file, text)
	return os.WriteFile(file, text, 0o644)
}
