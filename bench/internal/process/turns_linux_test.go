package process

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets a test start this program as one that has others take turns.
func TestMain(m *testing.M) {
	if asked, err := RunTurns(os.Args[1:]); asked {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProcessesThatTakeTurnsHaveTheirSharesOfACore(t *testing.T) {
	const loops, periods = 2, 400
	turns := Turns{Slots: 8, Slot: 500 * time.Microsecond, Periods: periods}
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	g := NewGroup(t.TempDir())
	t.Cleanup(g.Close)
	var busy []*Process
	for range loops {
		p, err := g.StartOn(cores[len(cores)-1], "busy", "/bin/sh", "-c", "echo runs; while :; do :; done")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Line(ctx, "runs"); err != nil {
			t.Fatal(err)
		}
		busy = append(busy, p)
	}
	before := used(t, busy)
	master, err := g.TakeTurns(cores[0], self, turns, busy)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-master.Done():
	case <-ctx.Done():
		t.Fatal("the turns do not end")
	}
	if master.Err() != nil {
		t.Fatalf("turns: %v: %s", master.Err(), strings.Join(master.Tail(5), "; "))
	}
	// Others may want the core too, so that there is no least share worth holding; twice an eighth is for a late signal.
	for i, after := range used(t, busy) {
		if got, most := after-before[i], 2*periods*turns.Slot; got <= 0 || got > most {
			t.Errorf("loop %d: used %v in %v, want more than 0 and %v at the most", i, got, periods*8*turns.Slot, most)
		}
	}
	for i, p := range busy { // the turns are over
		for now := used(t, busy)[i]; ; {
			if ctx.Err() != nil {
				t.Fatalf("%s has not gone on after the last turn", p.Name)
			}
			if used(t, busy)[i] > now {
				break
			}
		}
	}
}

func used(t *testing.T, list []*Process) (out []time.Duration) {
	t.Helper()
	for _, p := range list {
		d, err := p.CPU()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

func TestTurnsThatMakeNoSenseAreRefused(t *testing.T) {
	cases := []struct{ args, want string }{
		{"8 1ms", "2 arguments"}, {"0 1ms 0 2", "slots"}, {"8 1 0 2", "slot of"}, {"8 -1ms 0 2", "slot of"}, {"8 1ms -1 2", "periods"},
		{"8 1ms 0 1", "process"}, {"8 1ms 0 -5", "process"}, {"1 1ms 0 2 3", "2 processes"},
	}
	for _, c := range cases {
		if asked, err := RunTurns(append([]string{turnsCommand}, strings.Fields(c.args)...)); !asked || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %t, %v; want an error with %q", c.args, asked, err, c.want)
		}
	}
	if asked, err := RunTurns([]string{"-nodes", "5"}); asked || err != nil {
		t.Errorf("another program's arguments: got %t, %v; want none of it", asked, err)
	}
	if _, err := NewGroup(t.TempDir()).TakeTurns(0, "", Turns{Slots: 1}, make([]*Process, 2)); err == nil {
		t.Error("two processes and one slot: got no error")
	}
}

func TestAllThreadsStayOnACore(t *testing.T) {
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Stay(cores[0])
	if err != nil {
		t.Fatal(err)
	}
	for range 10 { // whatever thread asks
		if got, err := Cores(); err != nil || len(got) != 1 || got[0] != cores[0] {
			t.Errorf("got cores %v, %v; want %d", got, err, cores[0])
		}
	}
	if err := back(); err != nil {
		t.Fatal(err)
	}
	if got, err := Cores(); err != nil || fmt.Sprint(got) != fmt.Sprint(cores) {
		t.Errorf("afterwards: got cores %v, %v; want %v", got, err, cores)
	}
}
