package main

import (
	"context"
	"fmt"
	"math"
	"os"

	"github.com/shardsched/shardsched/bench/judge/oracle/conformance"
)

// replayLog holds a decision log against upstream.
func (o *options) replayLog(ctx context.Context) (int, error) {
	if o.objects == "" || o.decisions == "" {
		return failed, fmt.Errorf("-objects and -decisions belong together")
	}
	l := conformance.Log{Every: o.every}
	var err error
	if l.Objects, err = conformance.ReadObjects(o.objects); err != nil {
		return failed, err
	}
	if l.Config, err = o.readConfig(); err != nil {
		return failed, err
	}
	f, err := os.Open(o.decisions)
	if err != nil {
		return failed, err
	}
	defer f.Close()
	if l.Decisions, err = conformance.ReadDecisions(f); err != nil {
		return failed, fmt.Errorf("%s: %w", o.decisions, err)
	}
	if o.keep {
		l.Most = len(l.Decisions)
	}
	r, err := l.Replay(ctx)
	if err != nil {
		return failed, err
	}
	return tell(r, r), nil
}

// replayRecord holds what a flight recorder wrote against upstream.
func (o *options) replayRecord(ctx context.Context) (int, error) {
	in, err := os.Open(o.record)
	if err != nil {
		return failed, err
	}
	defer in.Close()
	f := conformance.Flight{Record: in, Every: o.every}
	if f.Config, err = o.readConfig(); err != nil {
		return failed, err
	}
	if o.keep {
		f.Most = math.MaxInt
	}
	r, err := f.Replay(ctx)
	if err != nil {
		return failed, fmt.Errorf("%s: %w", o.record, err)
	}
	if r.Ended != "" {
		fmt.Printf("the record ends before its time: %s\n", r.Ended)
	}
	return tell(&r.Result, r), nil
}

// readConfig reads the configuration file; nil: there is none.
func (o *options) readConfig() ([]byte, error) {
	if o.config == "" {
		return nil, nil
	}
	return os.ReadFile(o.config)
}
