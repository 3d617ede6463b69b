package compile

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// owned is a pod of the StatefulSet db, with labels of its own.
func owned(i int) *v1.Pod {
	name := fmt.Sprint("db-", i)
	p := build.Pod(name).UID(name).CPU("1").Memory("1Gi").Label("app", "db").
		Label("statefulset.kubernetes.io/pod-name", name).Label("apps.kubernetes.io/pod-index", fmt.Sprint(i)).Obj()
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "db", Controller: &yes}}
	return p
}

// settled is a cluster model with nodes, the StatefulSet db and a Service for it.
func settled(t testing.TB) *clusterModel {
	w := newClusterModel()
	for i, zone := range []string{"a", "a", "b"} {
		if err := w.setNode(build.Node(fmt.Sprint("n", i)).Zone(zone).Label(v1.LabelHostname, fmt.Sprint("n", i)).Obj()); err != nil {
			t.Fatal(err)
		}
	}
	w.cluster.Set(nil, &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "db"}}})
	w.cluster.Set(nil, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}})
	return w
}

func classIn(t testing.TB, c *Compiler, p *v1.Pod, prof *Profile, w ClusterState) *Class {
	t.Helper()
	w.Counters().Carry(p)
	class, err := c.Class(p, prof, w)
	if err != nil {
		t.Fatalf("class: want no error, got %v", err)
	}
	return class
}

func TestPodsOfAStatefulSetAreOneClass(t *testing.T) {
	c, w, prof := New(), settled(t), DefaultProfile("x")
	first := classIn(t, c, owned(0), prof, w)
	if len(first.Query.GetSpread().GetSoft()) != 2 {
		t.Fatalf("default constraints: want 2, got %v", first.Query.Spread)
	}
	if got := classIn(t, c, owned(1), prof, w); got != first {
		t.Errorf("class of another pod: want the same object, got another")
	}
	// A Service for one of them: that one is spread alone, the others as before.
	w.cluster.Set(nil, &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-1"}, Spec: v1.ServiceSpec{Selector: map[string]string{"statefulset.kubernetes.io/pod-name": "db-1"}}})
	if got := classIn(t, c, owned(1), prof, w); got.ID() == first.ID() {
		t.Errorf("class of the pod that a Service names: want another than %x, got the same", first.ID())
	}
	if got := classIn(t, c, owned(2), prof, w); got != first {
		t.Errorf("class of the others: want the same object, got another")
	}
}

// TestAClassIsCompiledAgainWhereWhatItReadsChanges goes through all that a class depends on
// beside the pod's spec, and what it does not.
func TestAClassIsCompiledAgainWhereWhatItReadsChanges(t *testing.T) {
	near := build.Pod("p").Label("app", "web").Obj()
	near.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}},
	}}}}
	bare := build.Pod("p").CPU("1").Label("app", "api").Obj()
	repels := func(key string) func(*testing.T, *clusterModel) {
		return func(_ *testing.T, w *clusterModel) {
			p := build.Pod("q").Obj()
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}},
			}}}}
			w.counters.Carry(p)
		}
	}
	racks := func(names ...string) func(*testing.T, *clusterModel) {
		return func(t *testing.T, w *clusterModel) {
			for i, rack := range names {
				if err := w.setNode(build.Node(fmt.Sprint("n", i)).Zone("a").Label("rack", rack).Label(v1.LabelHostname, fmt.Sprint("n", i)).Obj()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	namespace := func(name, team string) func(*testing.T, *clusterModel) {
		return func(_ *testing.T, w *clusterModel) {
			w.cluster.Set(nil, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}})
		}
	}
	both := func(one, other func(*testing.T, *clusterModel)) func(*testing.T, *clusterModel) {
		return func(t *testing.T, w *clusterModel) { one(t, w); other(t, w) }
	}
	for name, x := range map[string]struct {
		pod    *v1.Pod
		before func(*testing.T, *clusterModel)
		change func(*testing.T, *clusterModel)
		same   bool
	}{
		"a Service goes": {pod: owned(0), change: func(_ *testing.T, w *clusterModel) {
			w.cluster.Set(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}, nil)
		}, same: true}, // the StatefulSet demands the same
		"the StatefulSet changes": {pod: owned(0), change: func(_ *testing.T, w *clusterModel) {
			w.cluster.Set(nil, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: appsv1.StatefulSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db", "v": "2"}}}})
		}},
		"another pod comes to repel it":           {pod: bare, before: racks("r1", "r1"), change: repels("rack")},
		"another repels it by a label of no node": {pod: bare, change: repels("rack"), same: true},
		"nodes get the label that it repels by":   {pod: bare, before: repels("rack"), change: racks("r1", "r1")},
		"another pod comes to repel others":       {pod: owned(0), change: repels("rack"), same: true},
		"no two nodes share the label any more":   {pod: near, before: racks("r1", "r1", "r2"), change: racks("r1", "r3", "r2")},
		"nodes change labels, and share some yet": {pod: near, before: racks("r1", "r1", "r2"), change: racks("r1", "r2", "r2"), same: true},
		"a namespace comes that is selected":      {pod: near, before: both(racks("r1", "r1"), namespace("red", "x")), change: namespace("green", "x")},
		"a namespace comes that is not":           {pod: near, before: both(racks("r1", "r1"), namespace("red", "x")), change: namespace("green", "y"), same: true},
		"a namespace comes":                       {pod: bare, change: namespace("green", "y"), same: true},
	} {
		c, w, prof := New(), settled(t), DefaultProfile("x")
		if x.before != nil {
			x.before(t, w)
		}
		first := classIn(t, c, x.pod, prof, w)
		if got := classIn(t, c, x.pod, prof, w); got != first {
			t.Errorf("%s: class before: want the same object, got another", name)
		}
		x.change(t, w)
		if got := classIn(t, c, x.pod, prof, w); (got.ID() == first.ID()) != x.same {
			t.Errorf("%s: want the same class %t, got %v for %v", name, x.same, got.Query, first.Query)
		}
	}
}

func TestAClassOutlivesSweepsWhileItIsAskedFor(t *testing.T) {
	c, w, prof := New(), settled(t), DefaultProfile("x")
	first := classIn(t, c, owned(0), prof, w)
	for range 20 {
		w.counters.Sweep()
		if got := classIn(t, c, owned(0), prof, w); got != first {
			t.Fatalf("class after a sweep: want the same object, got another")
		}
	}
	for range 20 {
		w.counters.Sweep()
	}
	if got := len(w.counters.TakeDropped()); got == 0 {
		t.Fatalf("counters dropped that nobody asked for: want some, got none")
	}
	if got := classIn(t, c, owned(0), prof, w); got.ID() == first.ID() {
		t.Errorf("class whose counter is gone: want one with another counter, got the same")
	}
}

// TestSettingMissesNothing holds the class of a compiler that has seen other pods, other
// settings and other times against one compiled anew.
func TestSettingMissesNothing(t *testing.T) {
	prof := DefaultProfile("x")
	rapid.Check(t, func(t *rapid.T) {
		w, c := newClusterModel(), New()
		drawClusterModel(t, w)
		specs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *v1.Pod { return drawNeighbour(t, 0) }), 1, 3).Draw(t, "specs")
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				drawNode(t, w, rapid.SampledFrom(w.names).Draw(t, "changed"))
			case 1:
				drawNamespace(t, w, pick(t, "changed", "red", "green"))
			}
			p := rapid.SampledFrom(specs).Draw(t, "spec").DeepCopy()
			p.Labels, p.Namespace = drawNeighbour(t, 1).Labels, pick(t, "namespace", "red", "green")
			w.counters.Carry(p)
			got, err := c.Class(p, prof, w)
			if err != nil {
				t.Fatalf("class: %v", err)
			}
			want, err := New().Class(p, prof, w)
			if err != nil {
				t.Fatalf("class: %v", err)
			}
			if definition(got) != definition(want) {
				t.Fatalf("class: want %v, got %v", want.Query, got.Query)
			}
		}
	})
}

// BenchmarkSettings is what each pod of a workload costs that is spread by default.
func BenchmarkSettings(b *testing.B) {
	for _, bench := range []struct {
		name string
		pod  func(int) *v1.Pod
	}{
		{"statefulset", owned},
		{"deployment", func(int) *v1.Pod { return owned(0) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c, w, prof := New(), settled(b), DefaultProfile("x")
			pods := make([]*v1.Pod, 1000)
			for i := range pods {
				pods[i] = bench.pod(i)
				classIn(b, c, pods[i], prof, facts{w})
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Class(pods[i%len(pods)], prof, facts{w}); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// facts is a cluster model that knows its topology, as the cache does.
type facts struct{ *clusterModel }

func (facts) Topology(key string) Topology {
	if key == v1.LabelHostname {
		return Unique
	}
	return Shared
}
