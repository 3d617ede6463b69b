package count

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// keeper keeps what pods were counted with, as the cache does.
type keeper struct {
	registry *Registry
	pods     []*v1.Pod
	carried  []*Carried
	counted  []map[uint32]int64
}

// put counts a pod.
func (k *keeper) put(p *v1.Pod) {
	k.carried = append(k.carried, k.registry.Carry(p))
	k.pods, k.counted = append(k.pods, p), append(k.counted, values(k.registry.Contributions(p)))
}

// remove takes a pod away.
func (k *keeper) remove(i int) {
	k.registry.Release(k.carried[i])
	k.pods, k.carried, k.counted = slices.Delete(k.pods, i, i+1), slices.Delete(k.carried, i, i+1), slices.Delete(k.counted, i, i+1)
}

func values(list []*pb.CounterValue) map[uint32]int64 {
	out := map[uint32]int64{}
	for _, v := range list {
		out[v.Counter] = v.Value
	}
	return out
}

// settle asks the pods that are there about new counters, and forgets dropped ones.
func (k *keeper) settle(t *rapid.T) {
	for _, c := range k.registry.TakeNew() {
		for i, p := range k.pods {
			among := c.Namespaces()
			v := c.Value(p)
			if among != nil && !slices.Contains(among, p.Namespace) {
				if v != 0 {
					t.Errorf("counter %d of namespaces %v: want 0 of a pod in %s, got %d", c.ID(), among, p.Namespace, v)
				}
				continue
			}
			if v != 0 {
				k.counted[i][c.ID()] = v
			}
		}
	}
	for _, id := range k.registry.TakeDropped() {
		for i := range k.counted {
			delete(k.counted[i], id)
		}
	}
}

// naive is a counter with another way to count.
type naive struct {
	id    uint32
	value func(*v1.Pod) int64
}

// drawCounter brings a counter into use.
func drawCounter(t *rapid.T, r *Registry) naive {
	in := drawSelector(t)
	s := mustSelector(t, in)
	matches := func(p *v1.Pod) bool {
		want, err := metav1.LabelSelectorAsSelector(in)
		return err == nil && want.Matches(labels.Set(p.Labels))
	}
	one := func(f func(*v1.Pod) bool) func(*v1.Pod) int64 {
		return func(p *v1.Pod) int64 {
			if f(p) {
				return 1
			}
			return 0
		}
	}
	switch rapid.IntRange(0, 3).Draw(t, "counter") {
	case 0:
		ns := drawNamespace(t)
		return naive{r.Spread(ns, s), one(func(p *v1.Pod) bool {
			return p.Namespace == ns && p.DeletionTimestamp == nil && !s.Empty() && matches(p)
		})}
	case 1:
		return naive{r.Pods(Namespaces{All: true}, s), one(matches)}
	case 2:
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"red", "green"}), 0, 2, rapid.ID).Draw(t, "names")
		if rapid.Bool().Draw(t, "many") {
			for i := range fewNamespaces + 1 {
				names = append(names, fmt.Sprint("x", i))
			}
		}
		slices.Sort(names)
		return naive{r.Pods(Namespaces{Names: names}, s), one(func(p *v1.Pod) bool { return slices.Contains(names, p.Namespace) && matches(p) })}
	}
	ns, name := drawNamespace(t), pick(t, "claim", "d1", "d2")
	return naive{r.Keyed(Claim(ns, name)), func(p *v1.Pod) (n int64) {
		for _, v := range p.Spec.Volumes {
			if c := v.PersistentVolumeClaim; c != nil && p.Namespace == ns && c.ClaimName == name {
				n++
			}
		}
		return n
	}}
}

// TestCountersCountWhatTheySay brings counters in and out of use while pods come and go,
// and holds every sum against counting the pods anew.
func TestCountersCountWhatTheySay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &keeper{registry: New()}
		var known []naive
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step < 5:
				k.put(drawPod(t))
			case step < 8:
				known = append(known, drawCounter(t, k.registry))
			case len(k.pods) > 0:
				k.remove(rapid.IntRange(0, len(k.pods)-1).Draw(t, "gone"))
			}
			if rapid.IntRange(0, 9).Draw(t, "sweep") == 0 {
				for range patience + 2 {
					k.registry.Sweep()
				}
				known = slices.DeleteFunc(known, func(n naive) bool { return n.id != 0 && !k.registry.Use([]uint32{n.id}) })
			}
			k.settle(t)
		}
		for _, n := range known {
			want, got := int64(0), int64(0)
			for i, p := range k.pods {
				want += n.value(p)
				got += k.counted[i][n.id]
			}
			if n.id == 0 {
				got = 0
			}
			if want != got {
				t.Errorf("counter %d: want %d, got %d", n.id, want, got)
			}
		}
		for i, p := range k.pods {
			if want, got := k.counted[i], values(k.registry.Contributions(p)); !maps.Equal(want, got) {
				t.Errorf("contributions of pod %d: want what it was counted with, %v, got %v", i, want, got)
			}
		}
	})
}

// term is an affinity term in another reading: by apimachinery's selectors.
type term struct {
	v1.PodAffinityTerm
	owner string
}

// matches tells whether the term is about a pod, as the KEP says.
func (x *term) matches(p *v1.Pod, nsLabels labels.Set) bool {
	inNamespace := slices.Contains(x.Namespaces, p.Namespace)
	if len(x.Namespaces) == 0 && x.NamespaceSelector == nil {
		inNamespace = p.Namespace == x.owner
	}
	byLabels, _ := metav1.LabelSelectorAsSelector(x.NamespaceSelector)
	of, _ := metav1.LabelSelectorAsSelector(x.LabelSelector)
	return (inNamespace || byLabels.Matches(nsLabels)) && of.Matches(labels.Set(p.Labels))
}

// readable tells whether all selectors of a list can be read.
func readable(list []v1.WeightedPodAffinityTerm) bool {
	return !slices.ContainsFunc(list, func(w v1.WeightedPodAffinityTerm) bool {
		_, a := metav1.LabelSelectorAsSelector(w.PodAffinityTerm.NamespaceSelector)
		_, b := metav1.LabelSelectorAsSelector(w.PodAffinityTerm.LabelSelector)
		return a != nil || b != nil
	})
}

// land is the labels of namespaces; grey does not exist.
type land struct {
	labels  map[string]map[string]string
	version uint64
}

func (l *land) NamespaceLabels(name string) map[string]string { return l.labels[name] }
func (l *land) NamespacesVersion() uint64                     { return l.version }

func (l *land) change(t *rapid.T) {
	l.version++
	l.labels[drawNamespace(t)] = rapid.MapOfN(rapid.SampledFrom([]string{"app", "tier", "team"}), rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(t, "labels of namespace")
}

type kindAt struct {
	kind     TermKind
	topology string
}

// TestTermsMatchAsUpstreams holds the sums of the terms that match a pod, by kind and
// topology key, against reading the terms of every pod anew.
func TestTermsMatchAsUpstreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &keeper{registry: New()}
		l := &land{labels: map[string]map[string]string{}}
		nodes := map[string]bool{"host": true} // label keys that nodes have
		k.registry.UseTopologies(func(key string) bool { return nodes[key] })
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				l.change(t)
			case 2:
				if len(k.pods) > 0 {
					k.remove(rapid.IntRange(0, len(k.pods)-1).Draw(t, "gone"))
				}
			case 3:
				for range patience + 2 {
					k.registry.Sweep()
				}
			case 4:
				k.registry.Matching(drawPod(t), l)
			case 5:
				key := pick(t, "changes", "host", "zone")
				if nodes[key] = !nodes[key]; nodes[key] {
					k.registry.Appeared(key)
				}
			case 6:
				// A pod of a batch comes to nothing, or brings too much.
				if c, _, few := k.registry.CarryFew(drawPod(t), rapid.IntRange(0, 2).Draw(t, "may bring")); few {
					k.registry.Release(c)
				}
			default:
				k.put(drawPod(t))
			}
			k.settle(t)
		}
		for range 3 {
			incoming := drawPod(t)
			want, got := map[kindAt]int64{}, map[kindAt]int64{}
			for i, p := range k.pods {
				naiveSums(want, p, incoming, l.labels[incoming.Namespace])
				m := k.registry.Matching(incoming, l)
				if m == nil {
					continue
				}
				for _, term := range m.Terms {
					got[kindAt{term.Kind, term.TopologyKey}] += k.counted[i][term.Counter()]
				}
			}
			unknown := func(at kindAt, n int64) bool { return n == 0 || !nodes[at.topology] }
			maps.DeleteFunc(got, unknown)
			maps.DeleteFunc(want, unknown)
			if !maps.Equal(want, got) {
				t.Errorf("terms that match a pod of %s with %v: want %v, got %v", incoming.Namespace, incoming.Labels, want, got)
			}
		}
	})
}

// naiveSums adds what the terms of a pod count for an incoming one. Upstream drops a
// whole list of which one term can not be read, and keeps the others.
func naiveSums(into map[kindAt]int64, p, incoming *v1.Pod, nsLabels labels.Set) {
	for i, list := range affinityLists(p) {
		if !readable(list) {
			continue
		}
		for _, w := range list {
			x := term{w.PodAffinityTerm, p.Namespace}
			if !x.matches(incoming, nsLabels) {
				continue
			}
			kind := [...]TermKind{RequiredAffinity, RequiredAntiAffinity, Preferred, Preferred}[i]
			weight := [...]int64{1, 1, int64(w.Weight), -int64(w.Weight)}[i]
			into[kindAt{kind, x.TopologyKey}] += weight
		}
	}
}

// TestDisksConflictAsUpstreams holds the counters of disks against upstream's rule, pod
// by pod.
func TestDisksConflictAsUpstreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &keeper{registry: New()}
		incoming := drawPod(t)
		var against []uint32
		for i := range incoming.Spec.Volumes {
			for _, key := range Disk(&incoming.Spec.Volumes[i].VolumeSource) {
				against = append(against, k.registry.Keyed(key))
			}
		}
		for range rapid.IntRange(1, 4).Draw(t, "pods") {
			k.put(drawPod(t))
		}
		for i, p := range k.pods {
			got := slices.ContainsFunc(against, func(id uint32) bool { return k.counted[i][id] > 0 })
			if want := conflict(incoming, p); want != got {
				t.Errorf("volumes %v and %v: want a conflict %t, got %t", incoming.Spec.Volumes, p.Spec.Volumes, want, got)
			}
		}
	})
}

// conflict is upstream's rule in our words: two pods that use the same disk, unless both
// only read; EBS volumes are never shared.
func conflict(a, b *v1.Pod) bool {
	for i := range a.Spec.Volumes {
		for j := range b.Spec.Volumes {
			x, y := &a.Spec.Volumes[i].VolumeSource, &b.Spec.Volumes[j].VolumeSource
			switch {
			case x.GCEPersistentDisk != nil && y.GCEPersistentDisk != nil:
				d, e := x.GCEPersistentDisk, y.GCEPersistentDisk
				if d.PDName == e.PDName && !(d.ReadOnly && e.ReadOnly) {
					return true
				}
			case x.AWSElasticBlockStore != nil && y.AWSElasticBlockStore != nil:
				if x.AWSElasticBlockStore.VolumeID == y.AWSElasticBlockStore.VolumeID {
					return true
				}
			case x.ISCSI != nil && y.ISCSI != nil:
				if x.ISCSI.IQN == y.ISCSI.IQN && !(x.ISCSI.ReadOnly && y.ISCSI.ReadOnly) {
					return true
				}
			case x.RBD != nil && y.RBD != nil:
				d, e := x.RBD, y.RBD
				shared := slices.ContainsFunc(d.CephMonitors, func(m string) bool { return slices.Contains(e.CephMonitors, m) })
				if shared && d.RBDPool == e.RBDPool && d.RBDImage == e.RBDImage && !(d.ReadOnly && e.ReadOnly) {
					return true
				}
			}
		}
	}
	return false
}

func TestEqualCountersAreOne(t *testing.T) {
	r := New()
	app := selector.Equal(map[string]string{"app": "a"})
	id := r.Spread("red", app)
	if got := r.Spread("red", selector.Equal(map[string]string{"app": "a"})); got != id {
		t.Errorf("the same selector in the same namespace: want counter %d, got %d", id, got)
	}
	others := []uint32{r.Spread("green", app), r.Pods(Namespaces{Names: []string{"red"}}, app), r.Pods(Namespaces{All: true}, app), r.Keyed(Claim("red", "a")), r.Reserve("a")}
	slices.Sort(others)
	if slices.Contains(others, id) || len(slices.Compact(others)) != 5 {
		t.Errorf("other counters: want five others than %d, got %v", id, others)
	}
	if want, got := others[4], r.Reserve("a"); want != got {
		t.Errorf("a reserved counter again: want %d, got %d", want, got)
	}
	if got := r.Pods(Namespaces{}, app) + r.Pods(Namespaces{All: true}, selector.Nothing()) + r.Spread("red", selector.Nothing()); got != 0 {
		t.Errorf("what matches no pod: want no counter, got %d", got)
	}
	if got := len(r.TakeNew()); got != 5 {
		t.Errorf("new counters to fill: want 5, got %d", got)
	}
	if got := len(r.TakeNew()); got != 0 {
		t.Errorf("and once more: want none, got %d", got)
	}
}

func TestSweepDropsWhatNobodyAsksFor(t *testing.T) {
	r := New()
	p := &v1.Pod{Spec: v1.PodSpec{Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{}}},
	}}}}
	p.Namespace = "red"
	carried := r.Carry(p)
	held := r.Contributions(p)
	asked, forgotten, kept := r.Spread("red", selector.Equal(nil)), r.Spread("green", selector.Equal(nil)), r.Reserve("x")
	for range patience + 2 {
		if !r.Use([]uint32{asked}) {
			t.Fatalf("counter %d: want it to stay, it went", asked)
		}
		r.Sweep()
	}
	if got := r.TakeDropped(); !slices.Equal(got, []uint32{forgotten}) {
		t.Errorf("dropped: want %d, got %v", forgotten, got)
	}
	if r.Use([]uint32{forgotten}) || !r.Use([]uint32{kept}) {
		t.Errorf("want %d gone and %d there", forgotten, kept)
	}
	if got := r.Spread("green", selector.Equal(nil)); got <= kept {
		t.Errorf("the same counter again: want a new id, got %d", got)
	}
	r.Release(carried)
	for range patience + 2 {
		r.Sweep()
	}
	if got := r.TakeDropped(); !slices.Contains(got, held[0].Counter) {
		t.Errorf("dropped: want the term %d that no pod carries any more, got %v", held[0].Counter, got)
	}
	if got := r.Len(); got != 1 {
		t.Errorf("counters: want the reserved one, got %d", got)
	}
	r.Carry(p)
	if got := r.Contributions(p); len(got) != 1 || got[0].Counter == held[0].Counter {
		t.Errorf("the term once more: want a new counter, got %v", got)
	}
}

// No pod adds to a counter while it is postponed; one that is not opened goes without a trace.
func TestPostponedCounters(t *testing.T) {
	r := New()
	p := &v1.Pod{}
	p.Namespace = "red"
	everybody := func(ns string) uint32 { return r.Pods(Namespaces{Names: []string{ns}}, selector.Equal(nil)) }
	a, b := everybody("red"), r.Pods(Namespaces{All: true}, selector.Equal(nil))
	r.Postpone(a)
	r.Postpone(b)
	if got := r.Contributions(p); len(got) != 0 {
		t.Errorf("postponed: got %v, want nothing", got)
	}
	version := r.Version()
	if !r.Open(a) || r.Forget(a) || !r.Forget(b) || r.Open(b) || r.Version() == version {
		t.Error("want one opened, the other forgotten, and another version")
	}
	if got := r.Contributions(p); len(got) != 1 || got[0].Counter != a {
		t.Errorf("opened: got %v, want %d", got, a)
	}
	if got := r.TakeDropped(); len(got) != 0 || r.Len() != 1 {
		t.Errorf("dropped %v of %d, want none of one", got, r.Len())
	}
	if other := r.Pods(Namespaces{All: true}, selector.Equal(nil)); other == b {
		t.Error("a counter that was forgotten comes back under its id")
	}
}

// Counters are unused that nobody has asked for since that was looked at last.
func TestUnusedCounters(t *testing.T) {
	r := New()
	everybody := func(ns string) uint32 { return r.Pods(Namespaces{Names: []string{ns}}, selector.Equal(nil)) }
	used, unused := everybody("red"), everybody("green")
	r.Reserve("x")
	if got := r.Unused(); len(got) != 0 {
		t.Errorf("new ones: got %v unused, want none", got)
	}
	r.Use([]uint32{used})
	if got := r.Unused(); !slices.Equal(got, []uint32{unused}) {
		t.Errorf("got %v unused, want %d", got, unused)
	}
	r.Drop([]uint32{unused})
	if got := r.TakeDropped(); !slices.Equal(got, []uint32{unused}) || r.Use([]uint32{unused}) {
		t.Errorf("dropped: got %v, want %d", got, unused)
	}
}
