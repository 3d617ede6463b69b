package coordinator

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/build"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/store"
)

// peaceful is the default profile without PostFilter plugins: nobody is preempted, and messages end
// with what filters say.
func peaceful() map[string]*compile.Profile {
	c := compile.DefaultConfig(v1.DefaultSchedulerName)
	c.PostFilters = nil
	p, err := compile.NewProfile(c)
	if err != nil {
		panic(err)
	}
	return map[string]*compile.Profile{v1.DefaultSchedulerName: p}
}

// warlike is the default profile.
func warlike() map[string]*compile.Profile {
	return map[string]*compile.Profile{v1.DefaultSchedulerName: compile.DefaultProfile(v1.DefaultSchedulerName)}
}

// TestPreemptionScripts runs golden scripts. A line of a "run" block is a node or a pod; "run"
// decides, where victims go at once, and its decisions are printed in order:
//
//	node NAME cpu=N [label=K=V] [taint=K]…
//	pod NAME cpu=N [priority=N] [node=NODE] [nominated=NODE] [label=K=V] [start=SECONDS] [port=N]
//	    [never] [leaving] [apart=K=V] [spread=K=V] [selector=K=V] [claim=NAME]
//
// Each script is run over shards and sizes of batches; the outcome must not depend on them.
func TestPreemptionScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/preemption", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown directive %s, expected run", d.Cmd)
			}
			want := runPreemption(t, d.Input, 1, 1)
			for _, x := range [][2]int{{1, 512}, {3, 2}, {7, 512}} {
				if got := runPreemption(t, d.Input, x[0], x[1]); got != want {
					t.Errorf("%s: with %d shards and batches of %d: got\n%swant\n%s", d.Pos, x[0], x[1], got, want)
				}
			}
			return want
		})
	})
}

func runPreemption(t *testing.T, script string, shards, batch int) string {
	all := &store.Objects{}
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "node":
			all.Nodes = append(all.Nodes, scriptNode(t, words[1], words[2:]))
		case "pod":
			all.Pods = append(all.Pods, scriptPod(t, words[1], words[2:]))
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	x := newTrial(t, SchedulerConfig{Shards: shards, BatchSize: batch, Profiles: warlike()}, 0)
	defer x.fanout.Close()
	x.Load(all, nil)
	x.turn(t)
	var out strings.Builder
	for _, d := range x.decided(t) {
		switch {
		case d.Nominated != "":
			fmt.Fprintf(&out, "%s -> nominated to %s, victims %s\n", d.Pod, d.Nominated, strings.Join(d.Victims, " "))
		case d.Node != "":
			fmt.Fprintf(&out, "%s -> %s\n", d.Pod, d.Node)
			continue
		}
		fmt.Fprintf(&out, "%s: %s\n", d.Pod, d.Message)
	}
	return out.String()
}

func scriptNode(t *testing.T, name string, words []string) *v1.Node {
	n := build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name)
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "cpu":
			n.CPU(v)
		case "label":
			key, value, _ := strings.Cut(v, "=")
			n.Label(key, value)
		case "taint":
			n.Taint(v + ":NoSchedule")
		default:
			t.Fatalf("node %s: unknown word %q", name, w)
		}
	}
	return n.Obj()
}

func scriptPod(t *testing.T, name string, words []string) *v1.Pod {
	b := build.Pod(name)
	var after []func(*v1.Pod)
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "cpu":
			b.CPU(v)
		case "priority":
			n, err := strconv.ParseInt(v, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			b.Priority(int32(n))
		case "node":
			b.Node(v)
		case "nominated":
			b.Nominated(v)
		case "label":
			key, value, _ := strings.Cut(v, "=")
			b.Label(key, value)
		case "start":
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			after = append(after, func(p *v1.Pod) { at := metav1.Unix(n, 0); p.Status.StartTime = &at })
		case "port":
			n, err := strconv.ParseInt(v, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			b.HostPort("", "", int32(n))
		case "never":
			after = append(after, func(p *v1.Pod) { never := v1.PreemptNever; p.Spec.PreemptionPolicy = &never })
		case "leaving":
			b.Terminating()
			after = append(after, func(p *v1.Pod) {
				p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
			})
		case "terminating":
			b.Terminating()
		case "apart":
			b.Apart(build.Around(v1.LabelHostname, v))
		case "near":
			b.Near(build.Around(v1.LabelTopologyZone, v))
		case "spread":
			b.Spread(build.Hard(v1.LabelHostname, 1, v))
		case "selector":
			key, value, _ := strings.Cut(v, "=")
			b.NodeSelector(key, value)
		case "claim":
			b.Claim(v)
		default:
			t.Fatalf("pod %s: unknown word %q", name, w)
		}
	}
	p := b.Obj()
	for _, f := range after {
		f(p)
	}
	return p
}
