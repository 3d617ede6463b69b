package main

import (
	"context"
	"fmt"
	"os"

	"github.com/shardsched/shardsched/bench/oracle/conformance"
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
	if o.config != "" {
		if l.Config, err = os.ReadFile(o.config); err != nil {
			return failed, err
		}
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
	return tell(r), nil
}
