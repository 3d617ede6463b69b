package queue

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func drawSet(t *rapid.T, name string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "zone"}), rapid.SampledFrom([]string{"", "x", "y"}), 0, 3).Draw(t, name)
}

// drawSelector draws selectors of all kinds, one that can not be read and long ones among them.
func drawSelector(t *rapid.T) *metav1.LabelSelector {
	if rapid.IntRange(0, 7).Draw(t, "nil") == 0 {
		return nil
	}
	s := &metav1.LabelSelector{}
	for range rapid.IntRange(0, 2).Draw(t, "requirements") {
		r := metav1.LabelSelectorRequirement{
			Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
			Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{
				metav1.LabelSelectorOpIn, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
			}).Draw(t, "operator"),
		}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = []string{rapid.SampledFrom([]string{"", "x", "y", "not a value!"}).Draw(t, "value")}
			if rapid.IntRange(0, 5).Draw(t, "long") == 0 {
				for i := range manyTopics {
					r.Values = append(r.Values, fmt.Sprint("v", i))
				}
			}
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

func drawTerms(t *rapid.T, name string) (out []v1.PodAffinityTerm) {
	for range rapid.IntRange(0, 2).Draw(t, name) {
		term := v1.PodAffinityTerm{TopologyKey: rapid.SampledFrom([]string{"zone", "b"}).Draw(t, "topology"), LabelSelector: drawSelector(t)}
		switch rapid.IntRange(0, 3).Draw(t, "namespaces") {
		case 0:
			term.NamespaceSelector = &metav1.LabelSelector{}
		case 1:
			term.Namespaces = []string{"one", "two"}
		}
		out = append(out, term)
	}
	return out
}

// drawSpec draws what hints read of a pod's spec.
func drawSpec(t *rapid.T) v1.PodSpec {
	s := v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse(rapid.SampledFrom([]string{"0", "1", "9"}).Draw(t, "cpu")),
		v1.ResourceMemory: resource.MustParse(rapid.SampledFrom([]string{"0", "1Gi", "99Gi"}).Draw(t, "memory")),
	}}}}}
	if port := rapid.Int32Range(0, 2).Draw(t, "port"); port > 0 {
		s.Containers[0].Ports = []v1.ContainerPort{{HostPort: port, Protocol: v1.ProtocolTCP}}
	}
	s.Affinity = &v1.Affinity{
		PodAffinity:     &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: drawTerms(t, "affinity")},
		PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: drawTerms(t, "anti-affinity")},
	}
	for range rapid.IntRange(0, 2).Draw(t, "constraints") {
		s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, v1.TopologySpreadConstraint{
			TopologyKey: rapid.SampledFrom([]string{"zone", "b"}).Draw(t, "topology"), LabelSelector: drawSelector(t),
			WhenUnsatisfiable: rapid.SampledFrom([]v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}).Draw(t, "hard"),
			MatchLabelKeys:    rapid.SliceOfN(rapid.Just("a"), 0, 1).Draw(t, "keys"),
		})
	}
	return s
}

func drawTopicNode(t *rapid.T, name string) *v1.Node {
	n := build.Node("n").CPU(rapid.SampledFrom([]string{"2", "16"}).Draw(t, "cpu")).Memory("32Gi").Pods("10").Obj()
	n.Labels = drawSet(t, name)
	return n
}

func drawTopicEvents(t *rapid.T, specs []v1.PodSpec) []Event {
	if rapid.Bool().Draw(t, "of a node") {
		old, now := drawTopicNode(t, "old"), drawTopicNode(t, "now")
		return append(NodeUpdated(old, now), NodeAdded(now), NodeDeleted(old))
	}
	old := build.Pod("other").Namespace(rapid.SampledFrom([]string{"one", "two", "three"}).Draw(t, "namespace")).Obj()
	spec := rapid.SampledFrom(specs).Draw(t, "spec")
	old.Spec, old.Labels = *spec.DeepCopy(), drawSet(t, "old")
	old.Spec.NodeName = rapid.SampledFrom([]string{"n", "n", ""}).Draw(t, "node")
	now := old.DeepCopy()
	now.Labels = drawSet(t, "now")
	return append(AssignedPodUpdated(old, now), AssignedPodAdded(now), AssignedPodDeleted(old))
}

// TestAnEventMovesThosePodsThatHintsSay holds what an event moves, which asks by topics, against asking the
// hints about each pod.
func TestAnEventMovesThosePodsThatHintsSay(t *testing.T) {
	rejectors := [][]string{
		{"InterPodAffinity"}, {"InterPodAffinity"}, {"PodTopologySpread"}, {"NodeResourcesFit"}, {"NodePorts"},
		{"InterPodAffinity", "PodTopologySpread"}, {"InterPodAffinity", "NodeAffinity"}, {"NodeResourcesFit", "NodePorts"},
	}
	rapid.Check(t, func(t *rapid.T) {
		specs := rapid.SliceOfN(rapid.Custom(drawSpec), 4, 8).Draw(t, "specs")
		q := newFixed()
		for i := range rapid.IntRange(8, 30).Draw(t, "pods") {
			p := build.Pod(fmt.Sprint("p", i)).Namespace(rapid.SampledFrom([]string{"one", "two"}).Draw(t, "namespace")).Obj()
			class := rapid.IntRange(0, len(specs)-1).Draw(t, "class")
			p.Spec, p.Labels = *specs[class].DeepCopy(), drawSet(t, "labels")
			q.Add(p)
			popped := q.PopBatch(1, nil)[0]
			if rapid.IntRange(0, 4).Draw(t, "known") > 0 {
				popped.ClassID = uint64(class + 1)
			}
			q.Unschedulable(popped, rapid.SampledFrom(rejectors).Draw(t, "rejected by"), "no")
		}
		for _, e := range slices.Concat(drawTopicEvents(t, specs), drawTopicEvents(t, specs), drawTopicEvents(t, specs)) {
			var want, got []string
			var stayed []*Pod
			q.Each(func(p *Pod) {
				if p.place == Unschedulable {
					stayed = append(stayed, p)
					if q.rules.helps(p.rejectors, p, &e) {
						want = append(want, p.Obj.Name)
					}
				}
			})
			q.Move(e)
			for _, p := range stayed {
				if p.place != Unschedulable {
					got = append(got, p.Obj.Name)
				}
			}
			if slices.Sort(want); !slices.Equal(want, sorted(got)) {
				t.Fatalf("%s: want %v moved, got %v", e.String(), want, got)
			}
			check(t, q)
		}
		for len(q.pods) > 0 {
			for uid := range q.pods {
				q.Delete(uid)
			}
		}
		if len(q.index.topics) > 0 {
			t.Fatalf("all pods gone: want no topics, got %v", q.index.topics)
		}
	})
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// askedBuckets tells how many buckets the last event was held against.
func askedBuckets(q *Queue) (n int) {
	seen := map[*bucket]bool{}
	for _, list := range q.index.lists {
		for _, b := range list {
			if b.asked == q.index.events && !seen[b] {
				seen[b] = true
				n++
			}
		}
	}
	return n
}

// hasSixteen says that each node has 16 CPUs.
type hasSixteen struct{ roomy }

func (hasSixteen) Allocatable(string) (*pb.Resources, bool) {
	return &pb.Resources{MilliCpu: 16000, MemoryBytes: 64 << 30}, true
}

// apart is a queue with thousands of pods of a class each: of one app each that they keep away and want
// near, with constraints and a port of their own, and that fit nowhere.
func apart(t testing.TB, n int) *Queue {
	t.Helper()
	now := start
	q := newQueue(&now)
	q.rules, _ = newRules(DefaultPlugins(hasSixteen{}))
	for i := range n {
		app := fmt.Sprint("app-", i)
		q.Add(pod(fmt.Sprint("p", i), []string{
			"ns=mallory", fmt.Sprint("cpu=", 100+i), fmt.Sprint("port=", i%60000+1), "label=app=" + app,
			"near=rack-" + fmt.Sprint(i) + ":app=" + app, "far=zone:app=" + app, "spread=rack-" + fmt.Sprint(i) + ":app=" + app,
		}))
	}
	by := []string{"NodePorts", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity"}
	for i, p := range q.PopBatch(n, nil) {
		p.ClassID = uint64(i + 1)
		q.Unschedulable(p, by[i%4:i%4+1], "no")
	}
	return q
}

// However many classes wait, an event is held against those alone that its topics lead to.
func TestAnEventAsksFewOfManyClasses(t *testing.T) {
	q := apart(t, 4000)
	victim, changed := pod("victim", []string{"ns=victims", "label=app=web"}), pod("victim", []string{"ns=victims", "label=app=db"})
	near, hostile := pod("near", []string{"ns=mallory", "label=app=app-7"}), pod("hostile", []string{"ns=mallory", "far=zone:app=app-7"})
	for _, p := range []*v1.Pod{victim, changed, near, hostile} {
		p.Spec.NodeName = "n"
	}
	labelled := func(key, value string) *v1.Node {
		return build.Node("n").CPU("16").Label("zone", "a").Label(key, value).Obj()
	}
	for _, c := range []struct {
		name  string
		event Event
		most  int
	}{
		{"another tenant's pod comes", AssignedPodAdded(victim), 0},
		{"another tenant's pod goes", AssignedPodDeleted(victim), 0},
		{"another tenant's pod changes", AssignedPodUpdated(victim, changed)[0], 0},
		{"a pod that one looks at comes", AssignedPodAdded(near), 1},
		{"a pod goes that kept one away", AssignedPodDeleted(hostile), 1},
		{"a node's label changes that one looks at", NodeUpdated(labelled("rack-7", "x"), labelled("rack-7", "y"))[0], 1},
		{"a node's label changes that none looks at", NodeUpdated(labelled("other", "x"), labelled("other", "y"))[0], 0},
		{"a node grows that is too small for all", NodeUpdated(build.Node("n").CPU("8").Obj(), build.Node("n").CPU("16").Obj())[0], 0},
	} {
		q.Move(c.event)
		if n := askedBuckets(q); n > c.most {
			t.Errorf("%s: want at most %d of 4,000 classes asked, got %d", c.name, c.most, n)
		}
	}
}

// BenchmarkMoveAmongManyClasses is the events of a pod of another namespace that comes, changes and goes,
// while 50,000 pods of a class each wait.
func BenchmarkMoveAmongManyClasses(b *testing.B) {
	q := apart(b, 50000)
	victim, changed := pod("victim", []string{"ns=victims", "label=app=web"}), pod("victim", []string{"ns=victims", "label=app=db"})
	victim.Spec.NodeName, changed.Spec.NodeName = "n", "n"
	b.ReportAllocs()
	for b.Loop() {
		q.Move(AssignedPodAdded(victim))
		q.Move(AssignedPodUpdated(victim, changed)[0])
		q.Move(AssignedPodDeleted(changed))
	}
}
