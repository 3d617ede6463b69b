package observe

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestTheLinesOfTheDecisionLog(t *testing.T) {
	for name, x := range map[string]struct {
		decision *pb.Decision
		want     string
	}{
		"a pod with a node": {
			&pb.Decision{Seq: 1, Pod: "ns/name", Uid: "u-1", Profile: "default-scheduler", Node: "n1", Score: 623, Feasible: 4990, Nodes: 5000},
			`{"seq":1,"pod":"ns/name","uid":"u-1","profile":"default-scheduler","node":"n1","score":623,"feasible":4990,"nodes":5000}`,
		},
		"a pod without one": {
			&pb.Decision{Seq: 2, Pod: "ns/p", Uid: "u-2", Profile: "x", Nodes: 5000, Message: "0/5000 nodes are available: 3 Insufficient cpu."},
			`{"seq":2,"pod":"ns/p","uid":"u-2","profile":"x","node":"","score":0,"feasible":0,"nodes":5000,"message":"0/5000 nodes are available: 3 Insufficient cpu."}`,
		},
		"signs stay as they are": {
			&pb.Decision{Seq: 3, Pod: "ns/p", Uid: "u", Message: "a<b> & \"c\"\n\u2028"},
			`{"seq":3,"pod":"ns/p","uid":"u","profile":"","node":"","score":0,"feasible":0,"nodes":0,"message":"a<b> & \"c\"\n\u2028"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			l := NewDecisionLog(&out)
			l.Write(x.decision)
			if out.Len() != 0 {
				t.Errorf("before Flush: got %q, want nothing", out.String())
			}
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != x.want+"\n" {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
		})
	}
}

// file is a Writer that fails from the nth write on, and counts its closes.
type file struct {
	bytes.Buffer
	writes, good, closed int
	closeErr             error
}

var errFull = errors.New("disk full")

func (f *file) Write(p []byte) (int, error) {
	if f.writes++; f.writes > f.good {
		return 0, errFull
	}
	return f.Buffer.Write(p)
}

func (f *file) Close() error { f.closed++; return f.closeErr }

func TestAnErrorOfTheDecisionLogSticks(t *testing.T) {
	f := &file{good: 1}
	l := NewDecisionLog(f)
	l.Write(&pb.Decision{Seq: 1})
	if err := l.Flush(); err != nil {
		t.Fatalf("first flush: %v", err)
	}
	l.Write(&pb.Decision{Seq: 2})
	if err := l.Flush(); !errors.Is(err, errFull) {
		t.Fatalf("second flush: got %v, want %v", err, errFull)
	}
	f.good = 100 // there is room again, but a line is missing
	l.Write(&pb.Decision{Seq: 3})
	if err := l.Flush(); !errors.Is(err, errFull) {
		t.Errorf("third flush: got %v, want %v", err, errFull)
	}
	if err := l.Close(); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "decision log") {
		t.Errorf("close: got %v, want %v with its subject", err, errFull)
	}
	if f.closed != 1 {
		t.Errorf("closed: got %d times, want once", f.closed)
	}
	if got := strings.Count(f.String(), "\n"); got != 1 {
		t.Errorf("lines: got %d, want the first alone", got)
	}
}

func TestClosingTheDecisionLog(t *testing.T) {
	f := &file{good: 1, closeErr: errFull}
	if err := NewDecisionLog(f).Close(); !errors.Is(err, errFull) {
		t.Errorf("a file that does not close: got %v, want %v", err, errFull)
	}
	if err := NewDecisionLog(&bytes.Buffer{}).Close(); err != nil {
		t.Errorf("a writer that can not be closed: got %v, want nil", err)
	}
	var none *DecisionLog
	none.Write(&pb.Decision{})
	if err := errors.Join(none.Flush(), none.Close()); err != nil {
		t.Errorf("no log: got %v, want nil", err)
	}
}

func TestTheDecisionLogTakesLinesFromAnywhere(t *testing.T) {
	var out bytes.Buffer
	l := NewDecisionLog(&out)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 250 {
				l.Write(&pb.Decision{Message: strings.Repeat("x", 100)})
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 1000 {
		t.Errorf("got %d lines, want 1000", len(lines))
	}
	for _, line := range lines {
		if line != lines[0] {
			t.Fatalf("got line %q, want %q", line, lines[0])
		}
	}
}
