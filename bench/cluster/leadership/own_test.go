package leadership

import (
	"flag"
	"fmt"
	"regexp"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

var (
	nodes = flag.Int("nodes", 100, "how many nodes the cluster of the own takeovers has")
	pods  = flag.Int("pods", 500, "how many pods are bound there before")
)

// leads waits until a coordinator leads and returns what it told of the parts of its takeover.
func leads(s *takeoverCluster, p *testbed.SchedulerProcess) string {
	s.T.Helper()
	line, err := p.LineWith(s.Context(), `"Loaded"`)
	if err != nil {
		s.T.Fatal(err)
	}
	return regexp.MustCompile(`nodes=.*`).FindString(line)
}

func TestTheLeadGoesFromOneOfOursToAnother(t *testing.T) {
	s := &takeoverCluster{Cluster: testbed.New(t, testbed.Config{})}
	var all []runtime.Object
	for i := range *nodes {
		all = append(all, build.Node(fmt.Sprintf("n%05d", i)).CPU("64").Memory("256Gi").Pods("250").Obj())
	}
	s.CreateAll(all...)
	all = nil
	for i := range *pods {
		all = append(all, build.Pod(fmt.Sprintf("q%05d", i)).CPU("100m").Memory("100Mi").Node(fmt.Sprintf("n%05d", i%*nodes)).Obj())
	}
	s.CreateAll(all...)
	s.pour()

	leader := s.Coordinator(testbed.Scheduler{Name: "first"})
	t.Logf("first: %s", leads(s, leader))
	for i, end := range []struct {
		what  string
		f     func(*testbed.SchedulerProcess)
		code  int
		limit bound
	}{
		{"told to end", func(p *testbed.SchedulerProcess) { p.Terminate() }, 0, bound{0, slack}},
		{"killed", s.kill, -1, bound{duration, slack}},
		{"stopped", func(p *testbed.SchedulerProcess) { p.Pause() }, 1, bound{duration, slack}},
	} {
		next := s.Coordinator(testbed.Scheduler{Name: fmt.Sprintf("own-%d", i)})
		s.bindsNow()
		began := time.Now()
		end.f(leader)
		parts := leads(s, next)
		took := span{began, time.Now()}
		s.bindsNow()
		t.Logf("%s: the next led after %v, and bound after %v; %s", end.what, took.to.Sub(began).Round(time.Millisecond), time.Since(began).Round(time.Millisecond), parts)
		s.wantWithin(end.what, took, end.limit)
		leader.Resume()
		if got := exitCode(s, leader); got != end.code {
			t.Errorf("%s: got exit code %d, want %d", end.what, got, end.code)
		}
		leader = next
	}
	s.waitBound()
	for _, e := range s.binds() {
		if e.ResponseStatus.Code != 201 && !s.cut(&e) {
			t.Errorf("bind: %s", testbed.AuditLine(e))
		}
	}
}
