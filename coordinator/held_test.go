package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// byPods are profiles with expressions over the pods of a node.
func byPods(t testing.TB, filter, score string) map[string]*compile.Profile {
	t.Helper()
	c := rules.DefaultConfig(v1.DefaultSchedulerName)
	if filter != "" {
		c.Filters = append(c.Filters, pb.Plugin_PLUGIN_CEL_FILTER)
		c.CELFilter.Expressions = []compile.CELFilterExpression{{Name: "filter", Expression: filter}}
	}
	if score != "" {
		c.Scores = append(c.Scores, compile.PluginWeight{Plugin: pb.Plugin_PLUGIN_CEL_SCORE, Weight: 5})
		c.CELScore.Expressions = []compile.CELScoreExpression{{Name: "score", Expression: score}}
		c.CELScore.Normalize = "Highest"
	}
	p, err := rules.NewProfile(c)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*compile.Profile{v1.DefaultSchedulerName: p}
}

func podCame(p *v1.Pod) objects.Event {
	return objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p}
}

// An answer that is held decides as one that is asked for anew before each pod, also where expressions
// look at the pods of a node: a pod more may then make a row pass, or another group's.
func TestHeldAnswersDecideAsFreshOnes(t *testing.T) {
	there := func(name, node string) *v1.Pod { return build.Pod(name).UID(name).Node(node).Obj() }
	crowded := &objects.Snapshot{} // more keys than an answer has groups
	for i := range 40 {
		crowded.Nodes = append(crowded.Nodes, build.Node(fmt.Sprint("n", i)).CPU("64").Memory("64Gi").Obj())
		for k := range i {
			crowded.Pods = append(crowded.Pods, there(fmt.Sprintf("there-%d-%d", i, k), fmt.Sprint("n", i)))
		}
	}
	var leave []objects.Event
	for _, p := range crowded.Pods[len(crowded.Pods)-20:] {
		leave = append(leave, objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: p})
	}
	few := clusterOf(nodesOf("64", "a", "b", "c"), there("there", "a"))
	for name, x := range map[string]struct {
		filter, score string
		load          *objects.Snapshot
		happens       []objects.Event // before the second pod
	}{
		"a pod more makes a row pass":   {"node.pods > 0", "", few, []objects.Event{podCame(there("x", "b"))}},
		"a pod more makes a better row": {"", "node.pods * 10", few, []objects.Event{podCame(there("x", "b")), podCame(there("y", "b")), podCame(there("z", "b"))}},
		"the best row gets worse":       {"", "node.pods * 10", crowded, leave},
	} {
		t.Run(name, func(t *testing.T) {
			decide := func(afresh bool) (lines []observe.DecisionLine) {
				s := newTrial(t, SchedulerConfig{Shards: 1, BatchSize: 1, Profiles: byPods(t, x.filter, x.score)}, 0)
				defer s.fanout.Close()
				s.Load(x.load, nil)
				for i := range 4 {
					if i == 1 {
						s.Deliver(x.happens)
					}
					s.Deliver([]objects.Event{podCame(cores(fmt.Sprint("p", i), "1"))})
					for range 20 { // no answer is held that is not used for so long
						if afresh {
							s.answers.Age()
						}
					}
					s.turn(t)
				}
				return s.decided(t)
			}
			if d := cmp.Diff(decide(true), decide(false)); d != "" {
				t.Errorf("decisions (-afresh +held):\n%s", d)
			}
		})
	}
}

// A class with more keys than an answer has groups, all of whose nodes are nominated to pods that come
// before it, is refused with reasons.
func TestAllNodesOfANormalisedAnswerAreNominated(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2, BatchSize: 8}, 0)
	defer x.fanout.Close()
	load := &objects.Snapshot{}
	for i := range 40 {
		b := build.Node(fmt.Sprint("n", i)).CPU("4").Memory("8Gi")
		for k := range i {
			b.Taint(fmt.Sprintf("slow%d:PreferNoSchedule", k))
		}
		load.Nodes = append(load.Nodes, b.Obj())
		n := build.Pod(fmt.Sprint("nominated", i)).UID(fmt.Sprint("nominated", i)).CPU("100").Priority(10).Obj()
		n.Status.NominatedNodeName = fmt.Sprint("n", i)
		load.Pods = append(load.Pods, n)
	}
	x.Load(load, nil)
	x.Deliver([]objects.Event{podCame(cores("p", "2"))})
	x.turn(t)
	for _, d := range x.decided(t) {
		if d.Pod == "default/p" && strings.Contains(d.Message, "40 Insufficient cpu") {
			return
		}
	}
	t.Errorf("got %v, want a refusal of pod p for cpu on 40 nodes", x.lines)
}
