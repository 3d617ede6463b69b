// Conform holds decisions of ours against upstream's plugins.
//
//	conform [-families LIST] [-first N] [-seeds N]     random scenarios, until one differs
//	conform -survey …                                  what upstream finds in them
//	conform -replay FILE                               a scenario that was written down
//	conform -objects PATH -decisions LOG [-config FILE]  a decision log, beside the cluster
//	                                                   that it was made for
//	conform -record FILE [-config FILE]                what a flight recorder wrote
//
// It exits with 1 where something differs, and with 2 on an error.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/judge/oracle/conformance"
)

// Exit codes.
const (
	same = iota
	different
	failed
)

type options struct {
	scenarios
	survey                             bool
	replay, objects, decisions, config string
	record                             string
	families                           string
	every                              int
}

func main() {
	var o options
	flag.StringVar(&o.families, "families", "evaluated", "families of rules to make cases for, with commas: all, evaluated, none, or "+
		"their names")
	flag.Uint64Var(&o.first, "first", 1, "first seed; 0: one that the time gives")
	flag.Uint64Var(&o.seeds, "seeds", 100, "number of seeds")
	flag.DurationVar(&o.limit, "for", time.Hour, "stop after this long")
	flag.IntVar(&o.maxNodes, "nodes", 40, "most nodes of a cluster")
	flag.BoolVar(&o.keep, "keep-going", false, "go on after a difference")
	flag.StringVar(&o.out, "out", "", "folder for the reproducers; empty: none are made")
	flag.StringVar(&o.log, "log", "", "file for our decision logs of the scenarios, to hold two versions of ours against each other; "+
		"empty: none is written")
	flag.BoolVar(&o.survey, "survey", false, "tell what upstream finds in the scenarios, and do not run our scheduler")
	flag.StringVar(&o.replay, "replay", "", "scenario to run")
	flag.StringVar(&o.objects, "objects", "", "file or folder with the objects of a cluster")
	flag.StringVar(&o.decisions, "decisions", "", "decision log")
	flag.StringVar(&o.record, "record", "", "what a flight recorder wrote (shardsched --record)")
	flag.StringVar(&o.config, "config", "", "KubeSchedulerConfiguration file")
	flag.IntVar(&o.every, "every", 1, "compare every N-th decision of a log node by node")
	flag.Parse()
	klog.LogToStderr(false) // upstream's log
	klog.SetOutput(io.Discard)
	code, err := o.run(klog.NewContext(context.Background(), klog.Logger{}))
	if err != nil {
		fmt.Fprintln(os.Stderr, "conform:", err)
		code = failed
	}
	os.Exit(code)
}

func (o *options) run(ctx context.Context) (int, error) {
	switch {
	case o.replay != "":
		return replayScenario(ctx, o.replay)
	case o.record != "":
		return o.replayRecord(ctx)
	case o.objects != "" || o.decisions != "":
		return o.replayLog(ctx)
	}
	families, err := conformance.ParseFamilies(o.families)
	if err != nil {
		return failed, err
	}
	o.scenarios.families = families
	if o.first == 0 {
		o.first = uint64(time.Now().UnixNano())
	}
	if o.survey {
		return same, o.scenarios.survey(ctx)
	}
	return o.scenarios.run(ctx)
}
