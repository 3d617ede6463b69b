package e2e

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/internal/collector"
	"github.com/shardsched/shardsched/bench/internal/submit"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// traceTo has the rig's processes send their traces to a collector, sampled at a rate.
func (r *rig) traceTo(perMillion string) *collector.Collector {
	r.t.Helper()
	c, err := collector.Start()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	file := filepath.Join(r.dir, "tracing.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: " + c.Address() + "\nsamplingRatePerMillion: " + perMillion + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.flags = append(r.flags, "--tracing-config-file", file)
	return c
}

// apply applies pods in one request.
func (r *rig) apply(pods []*v1.Pod) {
	r.t.Helper()
	req, err := submit.Request(pods)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Apply(r.ctx, req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ledger.Note(req, resp)
}

// stop ends all processes as an operator would, so that they send what they have.
func (r *rig) stop() {
	for _, p := range r.group.Processes() {
		if strings.HasPrefix(p.Name, "coordinator") || strings.HasPrefix(p.Name, "worker") {
			p.Terminate()
			<-p.Done()
		}
	}
}

// decisions counts the lines of the decision log.
func (r *rig) decisions(coordinator string) int {
	r.t.Helper()
	log, err := os.ReadFile(filepath.Join(r.dir, coordinator+".decisions"))
	if err != nil {
		r.t.Fatal(err)
	}
	return bytes.Count(log, []byte("\n"))
}

// Every attempt is one trace, that of its fan-out spans three processes, and all hangs
// together.
func TestTracesSpanProcesses(t *testing.T) {
	r := newRig(t)
	c := r.traceTo("1000000")
	r.start(1, 2)
	r.applyNodes(nodes(300))
	random := rand.New(rand.NewPCG(*seed, 0))
	for _, prefix := range []string{"first", "second", "third"} {
		r.apply(pods(prefix, 40, random))
		r.settle()
	}
	r.apply([]*v1.Pod{build.Pod("huge").UID("").CPU("1000").Obj()})
	r.settle()
	r.stop()

	traces := collector.Traces(c.Spans())
	if got, want := len(traces), r.decisions("coordinator-0"); got != want || want < 121 {
		t.Errorf("got %d traces, want one for each of %d decisions of 121 pods", got, want)
	}
	spans := map[string]*collector.Span{}
	for _, s := range c.Spans() {
		spans[s.Trace+"/"+s.ID] = s
	}
	account := map[string]int{}
	var longest *collector.Trace
	for _, x := range traces {
		for _, fault := range x.Check() {
			t.Error(fault)
		}
		if x.Root == nil {
			continue
		}
		checkAttempt(t, x)
		checkRequests(t, x, account)
		for _, s := range x.Find("fan-out") {
			for _, link := range s.Links {
				account["links"]++
				if to := spans[link]; to == nil || to.Name != "fan-out" || to.Trace == x.ID {
					t.Errorf("trace %s links to %s, which is no fan-out of another trace", x.ID, link)
				}
			}
		}
		if x.Root.Attributes["shardsched.result"] == "scheduled" && (longest == nil || len(x.Below) > len(longest.Below)) {
			longest = x
		}
	}
	if t.Failed() {
		return
	}
	if account["shardsched-worker worker-0"] == 0 || account["shardsched-worker worker-1"] == 0 || account["links"] == 0 || account["snapshots"] == 0 {
		t.Errorf("got requests and links %v, want some of both workers", account)
	}
	var tree strings.Builder
	if err := longest.Render(&tree); err != nil {
		t.Fatal(err)
	}
	r.log("%v\n%s", account, tree.String())
}

// checkAttempt holds an attempt's stages against what became of it.
func checkAttempt(t *testing.T, x *collector.Trace) {
	t.Helper()
	want := []string{"queue", "compile"}
	if x.Root.Attributes["shardsched.result"] == "scheduled" {
		want = append(want, "merge", "assume", "bind")
		// The workers are asked, unless what they said for an earlier batch still holds.
		if x.Root.Attributes["shardsched.held"] == nil {
			want = append(want, "fan-out")
		}
	}
	for _, name := range want {
		if len(x.Find(name)) == 0 {
			t.Errorf("trace %s of %v, %v: no span %s", x.ID, x.Root.Attributes["k8s.pod.name"], x.Root.Attributes["shardsched.result"], name)
		}
	}
	if x.Root.Name != "schedule" || x.Root.Service != "shardsched-coordinator" {
		t.Errorf("trace %s: its root is %s of %s", x.ID, x.Root.Name, x.Root.Service)
	}
	for _, key := range []string{"k8s.pod.name", "k8s.namespace.name", "k8s.pod.uid", "shardsched.attempt", "shardsched.profile", "shardsched.batch.size", "shardsched.nodes"} {
		if x.Root.Attributes[key] == nil {
			t.Errorf("trace %s: no %s in %v", x.ID, key, x.Root.Attributes)
		}
	}
}

// checkRequests holds each request to a worker against the span that the worker made of it.
func checkRequests(t *testing.T, x *collector.Trace, account map[string]int) {
	t.Helper()
	x.Each(func(parent, s *collector.Span) {
		switch s.Kind {
		case "SPAN_KIND_CLIENT":
			if s.Name == "shardsched.v1.WorkerService/LoadSnapshot" {
				account["snapshots"]++
				return
			}
			below := x.Below[s.ID]
			if len(below) != 1 || below[0].Kind != "SPAN_KIND_SERVER" {
				t.Errorf("trace %s: %d spans below a request, want the worker's", x.ID, len(below))
			}
			for _, key := range []string{"server.address", "server.port", "shardsched.request_bytes", "shardsched.response_bytes", "shardsched.shards.count"} {
				if v := s.Attributes[key]; v == nil || v == int64(0) || v == "" {
					t.Errorf("trace %s: a request's %s is %v", x.ID, key, v)
				}
			}
		case "SPAN_KIND_SERVER":
			account[s.Service+" "+s.Instance]++
			if s.Service != "shardsched-worker" || s.Instance != parent.Attributes["shardsched.worker"] || s.Instance != s.Attributes["shardsched.worker"] {
				t.Errorf("trace %s: a request to %v was answered by %s %s", x.ID, parent.Attributes["shardsched.worker"], s.Service, s.Instance)
			}
			if parent.Attributes["shardsched.need_classes"] == nil && parent.Attributes["shardsched.need_snapshots"] == nil {
				checkPlugins(t, x, s)
			}
		}
	})
}

// checkPlugins checks that plugins have spans with what they were given and let through.
func checkPlugins(t *testing.T, x *collector.Trace, server *collector.Span) {
	t.Helper()
	filters := 0
	for _, s := range x.Below[server.ID] {
		if s.Attributes["shardsched.plugin"] == nil {
			continue
		}
		in, _ := s.Attributes["shardsched.rows_in"].(int64)
		out, _ := s.Attributes["shardsched.rows_out"].(int64)
		if out > in {
			t.Errorf("trace %s: %s let %d of %d rows through", x.ID, s.Name, out, in)
		}
		if s.Attributes["shardsched.extension_point"] == "Filter" && in > 0 {
			filters++
		}
	}
	if filters == 0 {
		t.Errorf("trace %s: no plugin has filtered rows of %v", x.ID, server.Attributes)
	}
}
