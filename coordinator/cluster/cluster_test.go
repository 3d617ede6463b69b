package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/selector"
)

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default"}
}

func svc(name string, selects map[string]string) *v1.Service {
	return &v1.Service{ObjectMeta: meta(name), Spec: v1.ServiceSpec{Selector: selects}}
}

func replicaSet(name string, s *metav1.LabelSelector) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: meta(name), Spec: appsv1.ReplicaSetSpec{Selector: s}}
}

func statefulSet(name string, s *metav1.LabelSelector) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: meta(name), Spec: appsv1.StatefulSetSpec{Selector: s}}
}

func controllerRC(name string, selects map[string]string) *v1.ReplicationController {
	return &v1.ReplicationController{ObjectMeta: meta(name), Spec: v1.ReplicationControllerSpec{Selector: selects}}
}

func pod(labels map[string]string, owners ...metav1.OwnerReference) *v1.Pod {
	p := &v1.Pod{ObjectMeta: meta("p")}
	p.Labels, p.OwnerReferences = labels, owners
	return p
}

func owner(apiVersion, kind, name string) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &yes}
}

func equal(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func matching(pairs ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: equal(pairs...)}
}

func TestDefaultSelector(t *testing.T) {
	web := equal("app", "web", "tier", "front")
	inElsewhere := svc("s", equal("app", "web"))
	inElsewhere.Namespace = "elsewhere"
	unreadable := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Is"}}}
	notController := owner("apps/v1", "ReplicaSet", "r")
	notController.Controller = nil
	for name, c := range map[string]struct {
		objects []objects.Object
		pod     *v1.Pod
		want    string
	}{
		"a pod that nothing selects": {
			[]objects.Object{svc("s", equal("app", "api"))}, pod(web), ""},
		"a Service that selects the pod": {
			[]objects.Object{svc("s", equal("app", "web"))}, pod(web), "app=web"},
		"two Services that select it, a third that does not": {
			[]objects.Object{svc("s", equal("app", "web")), svc("t", equal("tier", "front")), svc("u", equal("tier", "back"))},
			pod(web), "app=web,tier=front"},
		"a Service of another namespace":  {[]objects.Object{inElsewhere}, pod(web), ""},
		"a Service without a selector":    {[]objects.Object{svc("s", nil)}, pod(web), ""},
		"a Service with an empty one":     {[]objects.Object{svc("s", equal())}, pod(web), ""},
		"a ReplicaSet and a Service":      {[]objects.Object{svc("s", equal("tier", "front")), replicaSet("r", matching("app", "web"))}, pod(web, owner("apps/v1", "ReplicaSet", "r")), "app=web,tier=front"},
		"a StatefulSet alone":             {[]objects.Object{statefulSet("r", matching("app", "web"))}, pod(web, owner("apps/v1", "StatefulSet", "r")), "app=web"},
		"a ReplicaSet that is not known":  {nil, pod(web, owner("apps/v1", "ReplicaSet", "r")), ""},
		"a ReplicaSet of another version": {[]objects.Object{replicaSet("r", matching("app", "web"))}, pod(web, owner("extensions/v1beta1", "ReplicaSet", "r")), ""},
		"an owner that is no controller":  {[]objects.Object{replicaSet("r", matching("app", "web"))}, pod(web, notController), ""},
		"a Job":                           {[]objects.Object{replicaSet("r", matching("app", "web"))}, pod(web, owner("batch/v1", "Job", "r")), ""},
		"a ReplicaSet whose selector is not the pod's": {
			[]objects.Object{svc("s", equal("app", "web")), replicaSet("r", matching("app", "api"))},
			pod(web, owner("apps/v1", "ReplicaSet", "r")), "app=api,app=web"},
		"a ReplicaSet without a selector":              {[]objects.Object{svc("s", equal("app", "web")), replicaSet("r", nil)}, pod(web, owner("apps/v1", "ReplicaSet", "r")), "app=web"},
		"a ReplicaSet with an empty one":               {[]objects.Object{replicaSet("r", matching())}, pod(web, owner("apps/v1", "ReplicaSet", "r")), ""},
		"a ReplicaSet with one that can not be read":   {[]objects.Object{svc("s", equal("app", "web")), replicaSet("r", unreadable)}, pod(web, owner("apps/v1", "ReplicaSet", "r")), "app=web"},
		"a ReplicationController takes equal keys":     {[]objects.Object{svc("s", web), controllerRC("r", equal("app", "api"))}, pod(web, owner("v1", "ReplicationController", "r")), "app=api,tier=front"},
		"a ReplicationController without a selector":   {[]objects.Object{svc("s", web), controllerRC("r", nil)}, pod(web, owner("v1", "ReplicationController", "r")), "app=web,tier=front"},
		"a ReplicationController and no Service":       {[]objects.Object{controllerRC("r", equal("app", "api"))}, pod(web, owner("v1", "ReplicationController", "r")), "app=api"},
		"an empty ReplicationController and a Service": {[]objects.Object{svc("s", web), controllerRC("r", equal())}, pod(web, owner("v1", "ReplicationController", "r")), "app=web,tier=front"},
	} {
		k := New()
		for _, o := range c.objects {
			k.Set(nil, o)
		}
		for range 2 { // the second time from memory
			if got := text(k.DefaultSelector(c.pod)); got != c.want {
				t.Errorf("%s: want %q, got %q", name, c.want, got)
			}
		}
	}
}

func text(s *selector.Selector) string {
	if s == nil {
		return ""
	}
	return s.String()
}

// state is the objects that are there, in another form.
type state map[objects.Ref]objects.Object

// naive is the default selector as upstream works it out, from all objects.
func (s state) naive(p *v1.Pod) labels.Selector {
	set := labels.Set{}
	for _, o := range s {
		if x, ok := o.(*v1.Service); ok && x.Spec.Selector != nil && labels.SelectorFromSet(x.Spec.Selector).Matches(labels.Set(p.Labels)) {
			set = labels.Merge(set, x.Spec.Selector)
		}
	}
	out := labels.SelectorFromSet(set)
	var ls *metav1.LabelSelector
	switch o := s[objects.Ref{Kind: objects.Kind(p.OwnerReferences[0].Kind), Namespace: "default", Name: p.OwnerReferences[0].Name}].(type) {
	case *v1.ReplicationController:
		return labels.SelectorFromSet(labels.Merge(set, o.Spec.Selector))
	case *appsv1.ReplicaSet:
		ls = o.Spec.Selector
	case *appsv1.StatefulSet:
		ls = o.Spec.Selector
	}
	if more, err := metav1.LabelSelectorAsSelector(ls); err == nil {
		requirements, _ := more.Requirements()
		out = out.Add(requirements...)
	}
	return out
}

func drawSet(t *rapid.T, label string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"app", "tier", "name"}), rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(t, label)
}

func drawObject(t *rapid.T) objects.Object {
	name := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name")
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return replicaSet(name, &metav1.LabelSelector{MatchLabels: drawSet(t, "labels")})
	case 1:
		return statefulSet(name, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "NotIn", Values: []string{"a"}}}})
	case 2:
		return controllerRC(name, drawSet(t, "labels"))
	}
	return svc(fmt.Sprint("s", rapid.IntRange(0, 5).Draw(t, "service")), drawSet(t, "selector"))
}

// TestDefaultSelectorFollowsTheObjects changes objects at random, and holds the selector
// of pods against upstream's way.
func TestDefaultSelectorFollowsTheObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := New(), state{}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			o := drawObject(t)
			ref := objects.RefOf(o)
			if old := s[ref]; old != nil && rapid.Bool().Draw(t, "gone") {
				c.Set(old, nil)
				delete(s, ref)
			} else {
				c.Set(old, o)
				s[ref] = o
			}
			kind := rapid.SampledFrom([]string{"v1 ReplicationController", "apps/v1 ReplicaSet", "apps/v1 StatefulSet"}).Draw(t, "owner")
			var by metav1.OwnerReference
			if _, err := fmt.Sscan(kind, &by.APIVersion, &by.Kind); err != nil {
				t.Fatal(err)
			}
			p := pod(drawSet(t, "labels of the pod"), owner(by.APIVersion, by.Kind, rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "owned by")))
			want, got := s.naive(p), c.DefaultSelector(p)
			if want.Empty() != (got == nil) {
				t.Fatalf("default selector of %v: want %v, got %v", p.Labels, want, got)
			}
			for range 4 {
				set := drawSet(t, "other labels")
				if got != nil && got.Matches(set) != want.Matches(labels.Set(set)) {
					t.Errorf("default selector of %v: want %v, got %v", p.Labels, want, got)
				}
			}
		}
	})
}

func TestNamespacesAreFoundByLabels(t *testing.T) {
	c := New()
	named := func(name string, labels map[string]string) *v1.Namespace {
		return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	find := func() []string {
		list := slices.Clone(c.Namespaces(selector.Equal(equal("team", "a")), nil))
		slices.Sort(list)
		return list
	}
	red, green := named("red", equal("team", "a")), named("green", equal("team", "b"))
	c.Set(nil, red)
	c.Set(nil, green)
	if got := find(); !slices.Equal(got, []string{"red"}) {
		t.Errorf("want red, got %v", got)
	}
	version := c.NamespacesVersion()
	c.Set(red, named("red", equal("team", "a")))
	if got := c.NamespacesVersion(); got != version {
		t.Errorf("version after no label changed: want %d, got %d", version, got)
	}
	c.Set(green, named("green", equal("team", "a")))
	if got := find(); !slices.Equal(got, []string{"green", "red"}) || c.NamespacesVersion() == version {
		t.Errorf("after a label changed: want green, red and a new version; got %v", got)
	}
	c.Set(red, nil)
	if got := find(); !slices.Equal(got, []string{"green"}) {
		t.Errorf("after one went: want green, got %v", got)
	}
	if got := c.NamespaceLabels("red"); got != nil {
		t.Errorf("labels of one that is gone: want none, got %v", got)
	}
	if got := c.NamespaceLabels("green"); !maps.Equal(got, equal("team", "a")) {
		t.Errorf("labels of green: want team=a, got %v", got)
	}
	c.Set(nil, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}) // of no interest
}

// BenchmarkDefaultSelector is a pod of a ReplicaSet among the Services of ten thousand
// workloads.
func BenchmarkDefaultSelector(b *testing.B) {
	c := New()
	for i := range 10000 {
		name := fmt.Sprint("app-", i)
		c.Set(nil, svc(name, equal("app", name)))
		c.Set(nil, replicaSet(name, matching("app", name, "pod-template-hash", "5d4f")))
	}
	p := pod(equal("app", "app-77", "pod-template-hash", "5d4f", "team", "a", "version", "v1"), owner("apps/v1", "ReplicaSet", "app-77"))
	b.ReportAllocs()
	for b.Loop() {
		if c.DefaultSelector(p) == nil {
			b.Fatal("want a selector, got none")
		}
	}
}

func TestNamespaceListsAreBoundedAndStayRight(t *testing.T) {
	c := New()
	c.Set(nil, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "red", Labels: equal("team", "0")}})
	for i := range keptNamespaceLists + 10 {
		want := []string(nil)
		if i == 0 {
			want = []string{"red"}
		}
		if got := c.Namespaces(selector.Equal(equal("team", fmt.Sprint(i))), nil); !slices.Equal(got, want) {
			t.Errorf("namespaces of team %d: got %q, want %q", i, got, want)
		}
	}
	if n := c.namespaces.matching.Len(); n > keptNamespaceLists {
		t.Errorf("lists that are kept: got %d, want %d at most", n, keptNamespaceLists)
	}
}

func TestNamespaceListsAreBoundedByBytes(t *testing.T) {
	const all = 10000
	c := New()
	for i := range all {
		c.Set(nil, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: equal("any", "x")}})
	}
	for i := range namespaceListBudget/(all*16) + 10 {
		if got := c.Namespaces(selector.Equal(equal("any", "x")).And(forbidden(t, i)), nil); len(got) != all {
			t.Fatalf("got %d namespaces, want %d", len(got), all)
		}
	}
	if got, n := c.namespaces.matching.Bytes(), c.namespaces.matching.Len(); got > namespaceListBudget || n > namespaceListBudget/(all*16) || n < 10 {
		t.Errorf("got %d lists of %d bytes kept, want at most %d bytes", n, got, namespaceListBudget)
	}
}

// forbidden is a selector of all but those with a label of that number.
func forbidden(t *testing.T, i int) *selector.Selector {
	t.Helper()
	s, err := selector.New(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: fmt.Sprint("not-", i), Operator: metav1.LabelSelectorOpDoesNotExist}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDefaultSelectorsAreBoundedByBytes has pods come and go of as many labels, each with a Service of its own, with one in which
// they differ: what is kept of them is bounded over all namespaces, and nothing is of those that have too many.
func TestDefaultSelectorsAreBoundedByBytes(t *testing.T) {
	const most = 2000
	c := New()
	for _, namespace := range []string{"a", "b"} {
		for i := range most {
			s := svc(fmt.Sprint("s", i), equal(fmt.Sprint("k", i), "x"))
			s.Namespace = namespace
			c.Set(nil, s)
		}
		distinct := svc("distinct", nil)
		distinct.Namespace = namespace
		for i := range 600 {
			distinct.Name, distinct.Spec.Selector = fmt.Sprint("d", i), equal("i", fmt.Sprint(i))
			c.Set(nil, distinct.DeepCopy())
		}
	}
	come := func(namespace string, i, labels int) {
		p := pod(equal("i", fmt.Sprint(i)))
		p.Namespace = namespace
		for k := range labels {
			p.Labels[fmt.Sprint("k", k)] = "x"
		}
		if got := c.DefaultSelector(p); got == nil || !got.Matches(p.Labels) || len(got.Demands()) != labels+1 {
			t.Fatalf("pod %d of %d labels: got %v", i, labels, got)
		}
	}
	for i := range 3 {
		come("a", i, most)
	}
	if n := c.defaults.Len(); n != 0 {
		t.Errorf("got %d answers kept of more than %d bytes, want none", n, maxKeptDefault)
	}
	for i := range 600 {
		come("a", i, 300)
		come("b", i, 300)
	}
	if got, n := c.defaults.Bytes(), c.defaults.Len(); got > defaultBudget || got < defaultBudget/2 || n == 1200 {
		t.Errorf("got %d answers of %d bytes kept, want %d bytes at most, of not all pods", n, got, defaultBudget)
	}
}
