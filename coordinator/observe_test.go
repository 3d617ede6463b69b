package coordinator

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// repeller is a pod that keeps all pods with a label off its host, by so many terms.
func repeller(name string, terms int, cpu string) *v1.Pod {
	p := cores(name, cpu)
	anti := &v1.PodAntiAffinity{}
	for i := range terms {
		anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, v1.PodAffinityTerm{
			TopologyKey: v1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{},
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"shy", fmt.Sprint(name, i)}}}},
		})
	}
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: anti}
	return p
}

func shy(name string) *v1.Pod {
	p := cores(name, "1")
	p.Labels = map[string]string{"app": "shy"}
	return p
}

func hosts(names ...string) *objects.Snapshot {
	out := &objects.Snapshot{}
	for _, name := range names {
		out.Nodes = append(out.Nodes, build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name).Obj())
	}
	return out
}

// TestTermsCountWithinTheBatch has a pod repel one behind it in its batch, whether its terms are made known
// beforehand or are so many that it ends its batch.
func TestTermsCountWithinTheBatch(t *testing.T) {
	for _, terms := range []int{1, state.BatchTerms, state.BatchTerms + 1} {
		s := newTrial(t, SchedulerConfig{Shards: 1}, 0)
		s.Load(hosts("a"), nil)
		s.Deliver([]objects.Event{podCame(repeller("first", terms, "1")), podCame(shy("second"))})
		for range 3 {
			s.turn(t)
		}
		got := s.decided(t)
		if len(got) != 2 || got[0].Node != "a" || got[1].Node != "" {
			t.Errorf("%d terms: got %v, want the first pod on node a and the second on none", terms, got)
		}
		s.fanout.Close()
	}
}

// TestPodsBeyondWhatABatchMayBringWaitForTheNext counts the batches of pods with terms of their own.
func TestPodsBeyondWhatABatchMayBringWaitForTheNext(t *testing.T) {
	s := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer s.fanout.Close()
	s.Load(hosts("a", "b", "c"), nil)
	for i := range 3 {
		s.Deliver([]objects.Event{podCame(repeller(fmt.Sprint("p", i), state.BatchTerms/2+1, "1"))})
	}
	s.turn(t)
	if got := len(s.decided(t)); got != 3 || s.batch.number != 2 {
		t.Errorf("got %d decisions in %d batches, want 3 in 2", got, s.batch.number)
	}
}

// TestTermsOfPendingPodsCostNobody has pods fail that repel others: in later batches nobody is held
// against their terms, and those of a pod that was placed go with it.
func TestTermsOfPendingPodsCostNobody(t *testing.T) {
	s := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer s.fanout.Close()
	s.Load(hosts("a", "b"), nil)
	matched := func(when string, want int) {
		t.Helper()
		got := 0
		if m := s.state.Counters().Matching(shy("x"), s.state.Cluster()); m != nil {
			got = len(m.Terms)
		}
		if got != want {
			t.Errorf("%s: got %d terms that match, want %d", when, got, want)
		}
	}
	s.Deliver([]objects.Event{podCame(repeller("few", 2, "100")), podCame(repeller("many", 10*state.BatchTerms, "100"))})
	s.turn(t)
	matched("after the batch of two pods that fit nowhere", 2)
	s.Deliver([]objects.Event{podCame(cores("plain", "1"))})
	s.turn(t)
	matched("after the next batch", 0)
	there := repeller("there", 3, "1")
	there.Spec.NodeName = "b"
	s.Deliver([]objects.Event{podCame(there)})
	s.inbox.drain(never)
	matched("with a pod that another scheduler has placed", 3)
	s.Deliver([]objects.Event{{Type: objects.Deleted, Kind: objects.KindPod, Pod: there}})
	s.inbox.drain(never)
	matched("after it has gone", 0)
}
