package leadership

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
)

// TestCoordinatorsThatShareNothingElectByTheLease runs coordinators in kube-scheduler's place, each with an etcd of its own that no
// other process can reach: the Lease alone decides between them, and between them and a kube-scheduler. Two stand by at a time.
func TestCoordinatorsThatShareNothingElectByTheLease(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := newTakeoverCluster(t)
	started := 0
	swap := func() *testbed.SchedulerProcess {
		started++
		return s.Coordinator(testbed.Scheduler{Name: fmt.Sprintf("swap-%d", started), Swap: true})
	}
	leader := swap()
	s.bindsNow()
	if got := ports(t, leader.PID()); len(got) != 2 { // HTTPS, and the client API that the bed has asked for
		t.Errorf("ports: got %v, want HTTPS on %s and the client API on %s", got, leader.HTTPS, leader.Listen)
	}
	standbys := []*testbed.SchedulerProcess{swap(), swap()}
	for _, end := range []struct {
		what  string
		f     func(*testbed.SchedulerProcess)
		code  int
		limit bound
	}{
		{"told to end", func(p *testbed.SchedulerProcess) { p.Terminate() }, 0, bound{0, 2 * slack}},
		{"killed", s.kill, -1, bound{duration, 2 * slack}},
		{"stopped", func(p *testbed.SchedulerProcess) { p.Pause() }, 1, bound{duration, 2 * slack}},
	} {
		s.bindsNow()
		began := time.Now()
		end.f(leader)
		s.bindsNow()
		took := span{began, time.Now()}
		t.Logf("%s: the next pod was bound after %v", end.what, took.to.Sub(began).Round(time.Millisecond))
		s.wantWithin(end.what, took, end.limit)
		leader.Resume()
		if got := exitCode(s, leader); got != end.code {
			t.Errorf("%s: got exit code %d, want %d", end.what, got, end.code)
		}
		before := leader
		leader = firstToLead(s, standbys)
		standbys = append(slices.DeleteFunc(standbys, func(p *testbed.SchedulerProcess) bool { return p == leader }), swap())
		if before == leader {
			t.Fatalf("%s: %s leads still", end.what, leader.Name)
		}
	}
	for _, p := range standbys {
		p.Terminate()
		if got := exitCode(s, p); got != 0 {
			t.Errorf("%s, which stood by and is told to end: got exit code %d, want 0", p.Name, got)
		}
	}

	upstream := s.Upstream(testbed.Scheduler{Name: "upstream"})
	s.kill(leader)
	s.bindsNow()
	back := swap()
	s.bindsNow()
	upstream.Terminate()
	s.bindsNow()
	s.waitBound()
	s.wantPeriods("ours", "upstream", "ours")
	back.Terminate()
	if got := exitCode(s, back); got != 0 {
		t.Errorf("%s is told to end: got exit code %d, want 0", back.Name, got)
	}
}

// firstToLead waits until one of those that stand by says that it leads.
func firstToLead(s *takeoverCluster, standbys []*testbed.SchedulerProcess) *testbed.SchedulerProcess {
	s.T.Helper()
	var all []*process.Process
	for _, p := range standbys {
		all = append(all, p.Process)
	}
	i, err := process.FirstWith(s.Context(), all, `"Became leader"`)
	if err != nil {
		s.T.Fatal(err)
	}
	return standbys[i]
}

// ports are the local addresses of the TCP sockets of a process that listen, as the kernel writes them.
func ports(t *testing.T, pid int) (addresses []string) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	fds, err := filepath.Glob(proc + "fd/*")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil {
			own[to] = true
		}
	}
	for _, file := range []string{"net/tcp", "net/tcp6"} {
		text, err := os.ReadFile(proc + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const local, state, listen, inode = 1, 3, "0A", 9
			if f := strings.Fields(line); len(f) > inode && f[state] == listen && own["socket:["+f[inode]+"]"] {
				addresses = append(addresses, f[local])
			}
		}
	}
	return addresses
}
