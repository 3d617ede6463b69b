package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// newTest is an oracle with some objects.
func newTest(t *testing.T, config string, objects ...Object) *Oracle {
	t.Helper()
	c, err := DefaultConfig()
	if config != "" {
		c, err = ParseConfig([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + config))
	}
	if err != nil {
		t.Fatal(err)
	}
	o, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		if err := o.Set(obj); err != nil {
			t.Fatalf("set %T %s: %v", obj, obj.GetName(), err)
		}
	}
	return o
}

func judge(t *testing.T, o *Oracle, pod *v1.Pod) *Verdict {
	t.Helper()
	v, err := o.Judge(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// tell spells a verdict: a line for each node, with a plugin's raw and normalised score where
// that is asked for; or why all are refused.
func tell(v *Verdict, plugin string) string {
	lines := map[string]string{}
	for node, s := range v.Feasible {
		lines[node] = node + " fits"
		if p := s.Plugin(plugin); plugin != "" {
			lines[node] = fmt.Sprintf("%s %d %d", node, p.Raw, p.Normalised)
		}
	}
	for node, r := range v.Refused {
		lines[node] = fmt.Sprintf("%s %s: %s", node, r.Plugin, strings.Join(r.Reasons, "; "))
		if r.Unresolvable {
			lines[node] += " (for good)"
		}
	}
	out := ""
	for _, node := range slices.Sorted(maps.Keys(lines)) {
		out += lines[node] + "\n"
	}
	if v.Err != nil && len(lines) == 0 {
		out = v.Err.Error() + "\n"
	}
	return out
}

// verdict is a case: objects, a pod, and what upstream says.
type verdict struct {
	name    string
	config  string
	objects []Object
	pod     *v1.Pod
	plugin  string // whose scores are told
	want    string
}

func hold(t *testing.T, cases []verdict) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := tell(judge(t, newTest(t, c.config, c.objects...), c.pod), c.plugin)
			if want := strings.ReplaceAll(strings.TrimPrefix(c.want, "\n"), "\t", ""); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// node is one with room, its name for a hostname, in a zone.
func node(name, zone string) *build.NodeBuilder {
	b := build.Node(name).CPU("4").Memory("8Gi").Pods("10").Label(v1.LabelHostname, name)
	if zone != "" {
		b.Label(v1.LabelTopologyZone, zone)
	}
	return b
}

// web is a pod with the label app=web; on a node, if one is named.
func web(name, node string) *v1.Pod {
	b := build.Pod(name).Label("app", "web")
	if node != "" {
		b.Node(node)
	}
	return b.Obj()
}

func selectWeb() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

func terminating(p *v1.Pod) *v1.Pod {
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return p
}

// three are a node in each of two zones, and one in none.
func three() []Object {
	return []Object{node("a", "north").Obj(), node("b", "south").Obj(), node("c", "").Obj()}
}

func TestNominated(t *testing.T) {
	full := func(name string, priority int32, nominated string) *v1.Pod {
		p := build.Pod(name).Priority(priority).CPU("3").Obj()
		p.Status.NominatedNodeName = nominated
		return p
	}
	nodes := []Object{node("a", "").Obj(), node("b", "").Obj()}
	hold(t, []verdict{
		{name: "room is kept for a pod of the same priority", objects: append(nodes, full("other", 5, "a")), pod: full("p", 5, ""), want: `
			a NodeResourcesFit: Insufficient cpu
			b fits
		`},
		{name: "but not for one of a lower one", objects: append(nodes, full("other", 4, "a")), pod: full("p", 5, ""), want: `
			a fits
			b fits
		`},
		{name: "for one that waits at a gate once it was updated", objects: append(nodes, gated(full("other", 5, "")), gated(full("other", 5, "a"))), pod: full("p", 5, ""), want: `
			a NodeResourcesFit: Insufficient cpu
			b fits
		`},
		{name: "nor for one that came to a gate", objects: append(nodes, gated(full("other", 5, "a"))), pod: full("p", 5, ""), want: `
			a fits
			b fits
		`},
		{name: "the nominated node is enough", objects: nodes, pod: full("p", 5, "b"), want: `
			b fits
		`},
		{name: "unless it is full", objects: append(nodes, onto(full("other", 5, ""), "b")), pod: full("p", 5, "b"), want: `
			a fits
			b NodeResourcesFit: Insufficient cpu
		`},
		{name: "or gone", objects: nodes, pod: full("p", 5, "c"), want: `
			a fits
			b fits
		`},
		{name: "a nominated node that PreFilter leaves out tells its own reason", objects: nodes, pod: named(full("p", 5, "b"), "c"), want: `
			a : node(s) didn't satisfy plugin(s) [NodeAffinity] (for good)
			b NodeAffinity: node(s) didn't match Pod's node affinity/selector (for good)
		`},
	})
}

func gated(p *v1.Pod) *v1.Pod {
	p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "later"}, {Name: "or never"}}
	return p
}

func onto(p *v1.Pod, node string) *v1.Pod {
	p.Spec.NodeName = node
	return p
}

// named ties a pod to a node, as a DaemonSet does.
func named(p *v1.Pod, node string) *v1.Pod {
	p.Spec.Affinity = build.Pod("").Required(build.Names(node)).Obj().Spec.Affinity
	return p
}

func TestQueue(t *testing.T) {
	o := newTest(t, "")
	if got, want := o.Gated(t.Context(), gated(web("p", ""))), "waiting for scheduling gates: [later or never]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := o.Gated(t.Context(), web("p", "")); got != "" {
		t.Errorf("got %q for a pod without gates", got)
	}
	low, high, early, late := build.Pod("low").Obj(), build.Pod("high").Priority(1).Obj(), time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range []struct {
		a, b   *v1.Pod
		at, bt time.Time
		want   bool
	}{
		{high, low, late, early, true}, {low, high, early, late, false}, {low, low, early, late, true}, {low, low, late, early, false},
	} {
		if got := o.Before(c.a, c.at, c.b, c.bt); got != c.want {
			t.Errorf("%s at %v before %s at %v: got %t, want %t", c.a.Name, c.at.Unix(), c.b.Name, c.bt.Unix(), got, c.want)
		}
	}
	for _, name := range []string{"else", ""} {
		if o.Responsible(scheduledBy(build.Pod("p").Obj(), name)) {
			t.Errorf("the default profile is responsible for a pod of %q", name)
		}
	}
}

func scheduledBy(p *v1.Pod, name string) *v1.Pod {
	p.Spec.SchedulerName = name
	return p
}

func TestFeatures(t *testing.T) {
	able := node("a", "").Obj()
	able.Status.DeclaredFeatures = []string{"UserNamespacesHostNetworkSupport"}
	pod := web("p", "")
	pod.Spec.HostNetwork, pod.Spec.HostUsers = true, new(bool)
	hold(t, []verdict{{name: "a node must declare what a pod needs", objects: []Object{able, node("b", "").Obj()}, pod: pod, want: `
		a fits
		b NodeDeclaredFeatures: node(s) didn't match Pod's required features (for good)
	`}})
}

// What a change of the cluster does is there at once.
func TestChanges(t *testing.T) {
	o := newTest(t, "", node("a", "").Obj())
	p := build.Pod("p").CPU("3").Obj()
	steps := []struct {
		name string
		do   func() error
		want string
	}{
		{"empty", func() error { return nil }, "a fits\n"},
		{"a pod comes", func() error { return o.Set(onto(build.Pod("q").CPU("3").Obj(), "a")) }, "a NodeResourcesFit: Insufficient cpu\n"},
		{"its node goes", func() error { return o.Remove(node("a", "").Obj()) }, "no nodes available to schedule pods\n"},
		{"and comes back", func() error { return o.Set(node("a", "").Obj()) }, "a NodeResourcesFit: Insufficient cpu\n"},
		{"the pod ends", func() error {
			q := onto(build.Pod("q").CPU("3").Obj(), "a")
			q.Status.Phase = v1.PodSucceeded
			return o.Set(q)
		}, "a fits\n"},
		{"the node shrinks", func() error { return o.Set(build.Node("a").CPU("1").Memory("1Gi").Pods("1").Obj()) }, "a NodeResourcesFit: Insufficient cpu (for good)\n"},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if got := tell(judge(t, o, p), ""); got != s.want {
			t.Errorf("%s: got %q, want %q", s.name, got, s.want)
		}
	}
	if o.Placed(types.UID("q")) != nil || o.Node("a") == nil {
		t.Error("a pod is there that has ended, or a node isn't that was set")
	}
}

func TestConfig(t *testing.T) {
	c, err := ParseConfig([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: first}, {schedulerName: second}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Profiles(), []string{"first", "second"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{
		"", "apiVersion: v1\nkind: Pod\n",
		"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nnothing: {}\n",
		"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: -1\n",
	} {
		if _, err := ParseConfig([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a configuration", bad)
		}
	}
}

// A member that is tried on a node where a pod has the same host port, as while that pod has to leave, gives the port back to the pod.
func TestATrialLeavesHostPortsTaken(t *testing.T) {
	port := func(name string) *build.PodBuilder { return build.Pod(name).HostPort("", v1.ProtocolTCP, 80) }
	o := newTest(t, "", build.Node("n").CPU("4").Obj(), port("there").Node("n").Obj())
	member, later := port("member").Obj(), port("later").Obj()
	trial, err := o.Try(t.Context(), judge(t, o, member), "n")
	if err != nil {
		t.Fatal(err)
	}
	if err := trial.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "n NodePorts: node(s) didn't have free ports for the requested pod ports\n"
	if got := tell(judge(t, o, later), ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
