package process

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

const patience = time.Minute

func start(t *testing.T, script string) (*Process, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	g := NewGroup(t.TempDir())
	t.Cleanup(g.Close)
	p, err := g.Start("shell", "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return p, ctx
}

func TestLineIsFoundBeforeAndAfterItIsPrinted(t *testing.T) {
	p, ctx := start(t, "echo serves on 1; echo more >&2; exec cat")
	for range 2 {
		got, err := p.Line(ctx, "serves on ")
		if err != nil || got != "1" {
			t.Fatalf("got %q, %v; want 1", got, err)
		}
	}
	if got, err := p.LineWith(ctx, "mo", "re"); err != nil || got != "more" {
		t.Errorf("got %q, %v; want more", got, err)
	}
}

func TestLineThatNeverComesEndsWithTheProcess(t *testing.T) {
	p, ctx := start(t, "printf unfinished; exit 3")
	if got, err := p.Line(ctx, "serves on "); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %q, %v; want an error with exit status 3", got, err)
	}
	if got := strings.Join(p.Tail(5), "|"); got != "unfinished" {
		t.Errorf("tail: got %q, want unfinished", got)
	}
	<-p.Done()
	if text, err := os.ReadFile(p.File); err != nil || !strings.Contains(string(text), "unfinished") {
		t.Errorf("file: got %q, %v; want what was printed", text, err)
	}
}

func TestKillEndsAPausedProcess(t *testing.T) {
	p, ctx := start(t, "echo up; while :; do sleep 1; done")
	if _, err := p.Line(ctx, "up"); err != nil {
		t.Fatal(err)
	}
	p.Pause()
	if !p.Running() {
		t.Error("a paused process counts as gone")
	}
	p.Kill()
	if p.Running() || p.Err() == nil {
		t.Errorf("running %v, err %v; want gone, killed", p.Running(), p.Err())
	}
}

func TestUsageIsTold(t *testing.T) {
	p, ctx := start(t, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo counted; exec sleep 60")
	if _, err := p.Line(ctx, "counted"); err != nil {
		t.Fatal(err)
	}
	if s, err := p.CPUSeconds(); err != nil || s <= 0 {
		t.Errorf("got %v CPU seconds, %v; want some, and no error", s, err)
	}
	now, peak, err := p.MemoryMiB()
	if err != nil || now <= 0 || peak < now {
		t.Errorf("got %v MiB, %v at the most, %v; want some, and no error", now, peak, err)
	}
	if _, err := mebibytes("VmHWM:\t 2048 kB\n", "VmRSS:"); err == nil {
		t.Error("a status without the field: got no error, want one")
	}
}
