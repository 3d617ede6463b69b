package coordinator

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// chooser serves the preempt verb: it leaves one node, the last by name, or the one that only names.
type chooser struct {
	mu    sync.Mutex
	only  string
	shown [][]string // nodes of each question, sorted
}

func (c *chooser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q extenderv1.ExtenderPreemptionArgs
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/preempt" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	names := slices.Sorted(maps.Keys(q.NodeNameToMetaVictims))
	c.shown = append(c.shown, names)
	name := names[len(names)-1]
	if c.only != "" {
		name = c.only
	}
	answer := extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{name: q.NodeNameToMetaVictims[name]}}
	_ = json.NewEncoder(w).Encode(answer)
}

// advised decides so many preemptors over so many full nodes with a chooser, and gives their decisions.
func advised(t *testing.T, c *chooser, args configv1.DefaultPreemptionArgs, nodes, preemptors int, inline bool) (nominated, messages []string) {
	t.Helper()
	server := httptest.NewServer(c)
	defer server.Close()
	e := foo()
	e.URLPrefix, e.PreemptVerb = server.URL, "preempt"
	p := rules.DefaultConfig(v1.DefaultSchedulerName)
	p.Preemption = args
	prof, err := rules.NewProfile(p)
	if err != nil {
		t.Fatal(err)
	}
	all := &objects.Snapshot{}
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	all.Nodes = nodesOf("4", names...)
	for _, name := range names {
		all.Pods = append(all.Pods, bound(cores("v"+name, "4"), name))
	}
	for i := range preemptors {
		p := wanting(fmt.Sprintf("p%03d", i), "4")
		p.Spec.Priority = new(int32)
		*p.Spec.Priority = 10
		all.Pods = append(all.Pods, p)
	}
	x := newTrial(t, SchedulerConfig{
		Shards: 3, Profiles: map[string]*compile.Profile{v1.DefaultSchedulerName: prof}, Evictor: &fakeEvictor{},
		Extenders: []configv1.Extender{e}, ExtendersInline: inline,
	}, 0)
	defer x.fanout.Close()
	x.Load(all, nil)
	x.turn(t)
	for len(x.parking.parked) > 0 {
		<-x.inbox.ready
		x.inbox.drain(never)
		x.extenders.GiveTurns()
		x.inbox.drain(never)
		x.scheduleResumed(quiet())
	}
	for _, d := range x.decided(t) {
		nominated, messages = append(nominated, d.Nominated), append(messages, d.Message)
	}
	return nominated, messages
}

// Extenders are shown as many candidates as the arguments say, of the nodes that were tried.
func TestHowManyCandidatesExtendersAreShown(t *testing.T) {
	for name, c := range map[string]struct {
		percentage, absolute int32
		want                 int
	}{
		"a share":          {percentage: 20, absolute: 1, want: 8},
		"a least":          {percentage: 1, absolute: 5, want: 5},
		"no more than all": {percentage: 10, absolute: 100, want: 40},
	} {
		t.Run(name, func(t *testing.T) {
			x := &chooser{}
			args := configv1.DefaultPreemptionArgs{MinCandidateNodesPercentage: &c.percentage, MinCandidateNodesAbsolute: &c.absolute}
			nominated, messages := advised(t, x, args, 40, 1, true)
			if len(x.shown) != 1 || len(x.shown[0]) != c.want {
				t.Fatalf("shown %v, want %d nodes once", x.shown, c.want)
			}
			if want := x.shown[0][c.want-1]; len(nominated) != 1 || nominated[0] != want {
				t.Errorf("nominated to %q (%q), want %s", nominated, messages, want)
			}
		})
	}
}

// Preemptors that are asked about at once may be left the same node: one has it, and the others are
// asked about again, about the candidates of then. No node is promised twice.
func TestExtendersThatLeaveManyTheSameNode(t *testing.T) {
	const preemptors = 24
	for _, inline := range []bool{true, false} {
		c := &chooser{}
		nominated, messages := advised(t, c, configv1.DefaultPreemptionArgs{}, 60, preemptors, inline)
		seen := map[string]bool{}
		for i, node := range nominated {
			switch {
			case node == "":
				if inline {
					t.Errorf("inline: a preemptor has no node: %s", messages[i])
				}
			case seen[node]:
				t.Errorf("inline %v: %s is promised twice", inline, node)
			}
			seen[node] = true
		}
		if len(nominated) != preemptors || len(seen) < 2 {
			t.Errorf("inline %v: %d decisions over %d nodes, want %d", inline, len(nominated), len(seen), preemptors)
		}
		if n := len(c.shown); n > extenders.MaxRounds*preemptors {
			t.Errorf("inline %v: %d questions, want %d for each at the most", inline, n, extenders.MaxRounds)
		}
	}
}
