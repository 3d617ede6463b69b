package process

import (
	"context"
	"fmt"
	"os"
	"slices"
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
	const loops, periods = 2, 100
	turns := Turns{Slots: 8, Slot: 2 * time.Millisecond, Periods: periods}
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
	busy := loop(ctx, t, g, cores[len(cores)-1], loops)
	before := used(t, busy)
	master, err := g.TakeTurns(cores[len(cores)-1], self, turns, busy)
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

func TestAQuotaHoldsAProcessToItsShare(t *testing.T) {
	const periods = 200
	quota, period := time.Millisecond, 8*time.Millisecond
	q, err := NewQuota(fmt.Sprintf("shardsched-test-%d", os.Getpid()), quota, period)
	if err != nil {
		t.Logf("this process may make no group: %v", err)
		return
	}
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
	core := cores[len(cores)-1]
	busy := loop(ctx, t, g, core, 1)
	if err := q.Add(busy[0]); err != nil {
		t.Fatal(err)
	}
	before := used(t, busy)
	clock, err := g.TakeTurns(core, self, Turns{Slots: 8, Slot: time.Millisecond, Periods: periods}, nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-clock.Done():
	case <-ctx.Done():
		t.Fatal("the turns do not end")
	}
	// The clock itself may end late, and the quota is used once more then.
	if got, most := used(t, busy)[0]-before[0], 2*periods*quota; got <= 0 || got > most {
		t.Errorf("used %v in %v, want more than 0 and %v at the most", got, periods*period, most)
	}
	if _, err := q.Throttled(); err != nil {
		t.Error(err)
	}
	g.Close()
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(q.dir); !os.IsNotExist(err) {
		t.Errorf("the group is left: %v", err)
	}
}

func TestAQuotaIsMadeWhereTheKernelSaysThatThisProcessIs(t *testing.T) {
	const (
		mountV1     = "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
		mountCPUSet = "31 25 0:27 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
		mountV2     = "32 25 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	cases := []struct {
		what, cgroups, mounts string
		want                  []Quota
	}{
		{"v2", "0::/user.slice/app.slice/a.scope\n", mountV2, []Quota{{"/sys/fs/cgroup/user.slice/app.slice/x", true}}},
		{"v2, the root", "0::/\n", mountV2, []Quota{{"/sys/fs/cgroup/x", true}}},
		{"v1", "4:cpuset:/\n3:cpu,cpuacct:/a\n", mountCPUSet + mountV1, []Quota{{"/sys/fs/cgroup/cpu,cpuacct/a/x", false}}},
		{"both", "1:cpu:/\n0::/b/c\n", mountV1 + mountV2, []Quota{{"/sys/fs/cgroup/cpu,cpuacct/x", false}, {"/sys/fs/cgroup/b/x", true}}},
		{"v2 that is not mounted", "0::/\n", mountV1, nil},
		{"what is no such file", "cpu\n1:cpu\n", mountV1 + "- cgroup\n", nil},
	}
	for _, c := range cases {
		if got := quotas(c.cgroups, c.mounts, "x"); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.what, got, c.want)
		}
	}
}

func TestThrottledTimeHasItsUnit(t *testing.T) {
	for stat, want := range map[string]time.Duration{
		"nr_periods 3\nthrottled_time 1500\n": 1500, "usage_usec 7\nthrottled_usec 1500\nnr_bursts 0\n": 1500 * time.Microsecond,
	} {
		if got, err := throttled(stat); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", stat, got, err, want)
		}
	}
	for _, stat := range []string{"", "nr_periods 3\n", "throttled_usec many\n"} {
		if got, err := throttled(stat); err == nil {
			t.Errorf("%q: got %v, want an error", stat, got)
		}
	}
}

// loop starts processes that are busy on a core.
func loop(ctx context.Context, t *testing.T, g *Group, core, n int) (out []*Process) {
	t.Helper()
	for range n {
		p, err := g.StartOn(core, "busy", "/bin/sh", "-c", "echo runs; while :; do :; done")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Line(ctx, "runs"); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
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
