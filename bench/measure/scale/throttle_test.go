package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/bench/internal/process"
)

func TestWhereNoGroupCanBeMadeWorkersTakeTurns(t *testing.T) {
	cores, err := process.Cores()
	if err != nil {
		t.Fatal(err)
	}
	g := process.NewGroup(t.TempDir())
	t.Cleanup(g.Close)
	var workers []*process.Process
	for range 2 {
		p, err := g.StartOn(cores[0], "shell", "/bin/sh", "-c", "exec cat")
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, p)
	}
	made := 0
	x, err := newThrottle(g, cores[0], workers, func(name string, quota, period time.Duration) (*process.Quota, error) {
		if made++; made == 1 {
			return &process.Quota{}, nil
		}
		return nil, errors.New("nobody may")
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(x.about, "SIGSTOP") || !strings.Contains(x.about, "nobody may") || x.share != 0.125 || !x.turns.Running() {
		t.Errorf("got %+v, want signals, and the reason", x)
	}
	if got, err := x.throttled(); err != nil || len(got) > 0 {
		t.Errorf("throttled: got %v, %v; want nothing, as no kernel counts", got, err)
	}
	x.loosen()
	if err := x.drop(); err != nil || x.turns.Running() {
		t.Errorf("afterwards: %v, turns %t; want neither", err, x.turns.Running())
	}
}
