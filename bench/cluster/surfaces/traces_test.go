package surfaces

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/collector"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// traced is a control plane whose schedulers send their traces to a collector.
type traced struct {
	*testbed.Cluster
	collector *collector.Collector
}

// lead has a coordinator with these flags lead, do something, and end, and returns the traces
// of that time by the pods' names, in the order of their times.
func (r *traced) lead(t *testing.T, flags string, do func(*testbed.SchedulerProcess)) map[string][]*collector.Trace {
	t.Helper()
	r.collector.Forget()
	args := append(strings.Fields(flags), "--tracing-endpoint="+r.collector.Address())
	p := r.Coordinator(testbed.Scheduler{Args: args, Config: "leaderElection: {leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s}"})
	if _, err := p.LineWith(r.Context(), `"Loaded"`); err != nil {
		t.Fatal(err)
	}
	do(p)
	testbed.Stop(p.Process) // it sends what it has
	out := map[string][]*collector.Trace{}
	for _, x := range collector.Traces(r.collector.Spans()) {
		if x.Root == nil {
			continue // what a worker has not sent
		}
		pod, _ := x.Root.Attributes["k8s.pod.name"].(string)
		out[pod] = append(out[pod], x)
	}
	return out
}

// TestTraces follows attempts through coordinator and workers, and to the API server.
func TestTraces(t *testing.T) {
	c, err := collector.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r := &traced{testbed.New(t, testbed.Config{}), c}
	r.Controllers("persistentvolume", "provisioner")
	r.Create(build.WaitingClass("lazy", testbed.Provisioner), build.Node("a").CPU("4").Obj(), build.Node("b").CPU("4").Obj(), build.Node("c").CPU("4").Taint("k=v:NoSchedule").Obj())

	workers := []string{"worker-0", "worker-1"}
	var everything map[string][]*collector.Trace
	t.Run("all", func(t *testing.T) { everything = r.all(t, workers) })
	if t.Failed() {
		return
	}
	t.Run("never sampled", func(t *testing.T) {
		got := r.lead(t, "--tracing-sampling-rate-per-million=0 --tracing-slow-threshold=1h --local-workers=2", func(*testbed.SchedulerProcess) {
			r.Create(build.Pod("quick").CPU("100m").Obj(), build.Pod("misfit").CPU("100").Obj())
			r.Bound("default/quick")
			r.Unschedulable("default/misfit")
		})
		if len(got["quick"]) != 0 || len(got["misfit"]) == 0 {
			t.Fatalf("got %d traces of the pod that was bound and %d of the one that fits nowhere, want 0 and some", len(got["quick"]), len(got["misfit"]))
		}
		misfit := got["misfit"][0]
		check(t, misfit, "queue", "compile", "fan-out")
		if a := misfit.Root.Attributes; a["shardsched.kept"] != "failed" || a["shardsched.result"] != "unschedulable" || !strings.Contains(a["shardsched.message"].(string), "Insufficient cpu") {
			t.Errorf("misfit: got %v, want it kept because it failed, with the reason", a)
		}
	})
	t.Run("slow", func(t *testing.T) {
		got := r.lead(t, "--tracing-sampling-rate-per-million=0 --tracing-slow-threshold=1us --local-workers=2", func(*testbed.SchedulerProcess) {
			r.Create(build.Pod("slow").CPU("100m").Obj())
			r.Bound("default/slow")
		})
		if len(got["slow"]) != 1 || got["slow"][0].Root.Attributes["shardsched.kept"] != "slow" {
			t.Fatalf("got %d traces, want one, kept because it was slow", len(got["slow"]))
		}
		check(t, got["slow"][0], "queue", "compile", "fan-out", "merge", "assume", "bind")
	})
	if testing.Verbose() && len(everything["claims"]) > 0 {
		var tree strings.Builder
		if err := last(everything["claims"]).Render(&tree); err != nil {
			t.Fatal(err)
		}
		t.Log(tree.String())
	}
}

// all traces every attempt. The workers end within, so that they send what they have.
func (r *traced) all(t *testing.T, names []string) map[string][]*collector.Trace {
	got := r.lead(t, "--tracing-sampling-rate-per-million=1000000 -v=1", func(p *testbed.SchedulerProcess) {
		for _, name := range names {
			w := r.Worker(name, "--tracing-endpoint="+r.collector.Address())
			defer testbed.Stop(w)
			if _, err := p.LineWith(r.Context(), "Worker joined", name); err != nil {
				t.Fatal(err)
			}
		}
		r.Create(build.Claim("data", "lazy").Obj(), build.Pod("claims").CPU("1").Claim("data").Obj(), build.Pod("plain").CPU("1").Obj(), build.Pod("too-big").CPU("64").Obj())
		r.Bound("default/claims")
		r.Bound("default/plain")
		r.Unschedulable("default/too-big")
	})
	for pod, stages := range map[string][]string{
		"plain":   {"queue", "compile", "fan-out", "merge", "assume", "bind"},
		"claims":  {"queue", "compile", "fan-out", "merge", "assume", "prebind", "bind"},
		"too-big": {"queue", "compile", "fan-out"},
	} {
		if len(got[pod]) == 0 {
			t.Errorf("%s: no trace", pod)
			continue
		}
		seen := map[any]bool{}
		for _, x := range got[pod] {
			attempt := x.Root.Attributes["shardsched.attempt"]
			if seen[attempt] {
				t.Errorf("%s: two traces of attempt %v", pod, attempt)
			}
			seen[attempt] = true
		}
		check(t, last(got[pod]), stages...) // the watch may tell of a pod before its claim, which an attempt more costs
	}
	checkWorkers(t, got)
	return got
}

// last is the trace of a pod's last attempt.
func last(traces []*collector.Trace) *collector.Trace { return traces[len(traces)-1] }

// checkWorkers holds that the workers' own spans hang below the requests that they answered.
func checkWorkers(t *testing.T, traces map[string][]*collector.Trace) {
	t.Helper()
	answered := map[string]int{}
	for _, list := range traces {
		for _, x := range list {
			x.Each(func(parent, s *collector.Span) {
				if s.Service != "shardsched-worker" || s.Kind != "SPAN_KIND_SERVER" {
					return
				}
				answered[s.Instance]++
				if parent.Attributes["shardsched.worker"] != s.Instance {
					t.Errorf("a request to %v was answered by %s", parent.Attributes["shardsched.worker"], s.Instance)
				}
			})
		}
	}
	if len(answered) == 0 {
		t.Error("no request has reached a worker, want some")
	}
}

// check holds that a trace is whole, nests and has its stages.
func check(t *testing.T, x *collector.Trace, stages ...string) {
	t.Helper()
	for _, fault := range x.Check() {
		t.Error(fault)
	}
	for _, stage := range stages {
		if len(x.Find(stage)) == 0 {
			t.Errorf("trace of %v: no span %s", x.Root.Attributes["k8s.pod.name"], stage)
		}
	}
	if x.Root.Name != "schedule" || x.Root.Attributes["k8s.namespace.name"] != v1.NamespaceDefault {
		t.Errorf("got root %s %v", x.Root.Name, x.Root.Attributes)
	}
}
