package surfaces

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// shardsched runs our program as a person does, and returns all that it writes.
func (r *rig) shardsched(t *testing.T, args ...string) (text string, err error) {
	t.Helper()
	file, err := r.Shardsched(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), file, args...).CombinedOutput()
	return string(out), err
}

// explain tells of pods of all sorts through the client API, asked of the leader and of a standby.
func (r *rig) explain(t *testing.T) {
	static := build.Pod("static").CPU("1").Node("a").Obj()
	foreign := build.Pod("foreign").Obj()
	foreign.Spec.SchedulerName = "nobody"
	ended := build.Pod("ended").Node("a").Obj()
	ended.Status.Phase = v1.PodSucceeded
	r.Create(build.Node("b").CPU("2").Taint("dedicated=db:NoSchedule").Obj(), static, foreign, ended,
		build.Pod("gated").Gate("example.com/wait").Obj())
	standby := r.Coordinator(testbed.Scheduler{Name: "standby"})
	for _, test := range []struct {
		name, args string
		fails      bool
		want       []string // regular expressions, in this order
	}{
		{"why this node", "default/ours", false, []string{
			`^Pod default/ours is on a: decision \d+ gave it score \d+, 1 of 1 nodes were feasible`,
			`Decided, the last first:`, `\d+ +\S+ +1 +on a, score \d+ +1 of 1`,
			`Best nodes when decision \d+ was made`, `\* a +\d+`,
			`Best nodes now`, `NODE +SCORE .*NodeResourcesFit x1`, `\* a +\d+`,
			`What refuses the other nodes:`, `1 +taint dedicated=db:NoSchedule is not tolerated .*can't help +TaintToleration`,
		}},
		{"why pending", "default/waits", false, []string{
			`^Pod default/waits is pending: queue \w+, \d+ attempts?`,
			`0/[12] nodes are available: .*1 Insufficient cpu`,
			`It is tried again when`, `a node joins .*\(for NodeResourcesFit\)`,
			`it is \S+, whatever happens until then`,
			`nowhere`, `Now 0 of 2 nodes pass every filter.`,
			`What refuses the nodes:`, `1 +cpu: larger than any node .*NodeResourcesFit`,
			`Nodes that come closest:`, `a +NodeResourcesFit +Insufficient cpu +cpu: short by 9\d`,
		}},
		{"node by node", "default/waits --nodes", false, []string{`Node by node, now:`, `\n  a +- +NodeResourcesFit`, `\n  b +- +TaintToleration`}},
		{"one node", "default/ours --node b --node nowhere", false, []string{`Node by node, now:`, `\n  b +- +TaintToleration`, `\n  nowhere +- +there is no such node`}},
		{"for programs", "default/ours -o json", false, []string{`"node": *"a"`}},
		{"gated", "default/gated", false, []string{`is pending: queue gated`, `waiting for scheduling gates: \[example.com/wait\]`}},
		{"on a node already", "default/static", false, []string{`is on a: not a decision of the present leader \(.*kubelet's own\)`}},
		{"another scheduler's, on a node", "default/theirs", false, []string{`is on a`, `its schedulerName is upstream, and this scheduler's are default-scheduler`}},
		{"another scheduler's, pending", "default/foreign", false, []string{`is pending`, `its schedulerName is nobody`}},
		{"ended", "default/ended", true, []string{`pod default/ended is not known: there is none of that name, or it has ended`}},
		{"unknown", "default/nothing", true, []string{`explain pod default/nothing: pod default/nothing is not known`}},
	} {
		for _, p := range []*testbed.SchedulerProcess{r.ours, standby} {
			text, err := r.shardsched(t, append([]string{"explain", "pod", "--address", p.Listen}, strings.Fields(test.args)...)...)
			if (err != nil) != test.fails {
				t.Errorf("%s, asked of %s: got %v\n%s", test.name, p.Name, err, text)
			}
			rest := text
			for _, want := range test.want {
				at := regexp.MustCompile(want).FindStringIndex(rest)
				if at == nil {
					t.Errorf("%s, asked of %s: want %s after what was found of\n%s", test.name, p.Name, want, text)
					break
				}
				rest = rest[at[1]:]
			}
		}
	}
	t.Run("a node, and what pends", func(t *testing.T) {
		for args, want := range map[string]string{
			"explain node b": `Keeps pods off: taint dedicated=db:NoSchedule`,
			"pending":        `scheduling gate example.com/wait +1 +Pod default/gated`,
		} {
			text, err := r.shardsched(t, append(strings.Fields(args), "--address", standby.Listen)...)
			if err != nil || !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("%s: got %v, want %s in\n%s", args, err, want, text)
			}
		}
	})
	t.Run("objects", func(t *testing.T) {
		text, err := r.shardsched(t, "get", "pods", "--address", r.ours.Listen)
		if err == nil || !strings.Contains(text, "kubectl get ") {
			t.Errorf("get pods: want a refusal that names kubectl, got %v, %s", err, text)
		}
	})
	signal(t, standby)
	if _, err := standby.LineWith(r.Context(), "this coordinator stands by, signal the leader"); err != nil {
		t.Error(err)
	}
}
