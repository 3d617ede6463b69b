// The race detector allocates, too: what is held here is not so with it.
//go:build !race

package compile_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/volumes"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// What an attempt of a pod may cost, whatever the pod asks for, by the bytes of the object.
const (
	largestPod = 64 << 10
	// maxAllocated and maxSteps are for each byte, on top of what a small pod costs. A step is an
	// allocation, or a question about nodes, images or storage.
	maxAllocated, allocatedAnyway = 80, 64 << 10
	maxSteps, stepsAnyway         = 1, 2000
)

// yard is the cluster that pods are compiled for. It counts what it is asked.
type yard struct {
	*cache.Cache
	counters *count.Registry
	cluster  *cluster.Cluster
	volumes  *volumes.Cache
	asked    uint64
}

// Labels and names that nodes have. Those of others are numbered likewise, from the first that nodes lack on.
const (
	yardNodes = 8
	yardKeys  = 80
)

func key(i int) string   { return fmt.Sprint("feature.node.example.com/key-", i) }
func host(i int) string  { return fmt.Sprint("host-", i) }
func value(i int) string { return fmt.Sprintf("value-%06d", i) }

func newYard(t rapid.TB) *yard {
	w := &yard{Cache: cache.New(1), counters: count.New(), cluster: cluster.New()}
	w.volumes = volumes.New(w.counters)
	w.counters.UseTopologies(w.HasTopology)
	for i := range yardNodes {
		n := build.Node(host(i)).CPU("8").Zone(fmt.Sprint("zone-", i%3)).Label(v1.LabelHostname, host(i)).Image(1<<30, "image-0", "image-1")
		for k := range yardKeys {
			n.Label(key(k), value(i%(k%4+1)))
		}
		if _, err := w.SetNode(n.Obj()); err != nil {
			t.Fatalf("node: %v", err)
		}
	}
	for i := range 400 { // most are of one team, so that a term of a few bytes selects hundreds
		name := fmt.Sprint("namespace-", i)
		w.cluster.Set(nil, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "other"}}})
	}
	w.cluster.Set(nil, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "default"}}})
	w.volumes.Set(build.WaitingClass("late", "driver"))
	w.volumes.Set(build.CSINode(host(0), "driver", 20))
	for i := range 300 {
		c := build.Claim(fmt.Sprint("claim-", i), "late").Size("1Gi")
		if i%2 == 0 {
			pv := build.Volume(fmt.Sprint("volume-", i), "late").CSI("driver", fmt.Sprint(i)).On(key(0), value(0)).Bound(c.Obj()).Obj()
			w.volumes.Set(pv)
			c.Bound(pv.Name)
		}
		w.volumes.Set(c.Obj())
	}
	return w
}

func (w *yard) Counters() *count.Registry { return w.counters }
func (w *yard) Cluster() *cluster.Cluster { return w.cluster }
func (w *yard) Volumes() compile.Volumes  { return storedIn{w.volumes, &w.asked} }
func (*yard) Devices() compile.Devices    { return nil }

func (w *yard) Topology(key string) compile.Topology {
	w.asked++
	return w.Cache.Topology(key)
}

func (w *yard) Domains(key string) int {
	w.asked++
	return w.Cache.Domains(key)
}

func (w *yard) Spread(image string) (int64, int, bool) {
	w.asked++
	return w.Cache.Spread(image)
}

// storedIn counts the claims and volumes that are looked up.
type storedIn struct {
	*volumes.Cache
	asked *uint64
}

func (s storedIn) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	*s.asked++
	return s.Cache.Claim(namespace, name)
}

func (s storedIn) Volume(name string) *v1.PersistentVolume {
	*s.asked++
	return s.Cache.Volume(name)
}

// cost is what f allocates, and in how many steps it is done.
func (w *yard) cost(f func()) (allocated, steps uint64) {
	var before, after runtime.MemStats
	asked := w.asked
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs + w.asked - asked
}

// TestManyMalformedPreferencesAreToldInPart has malformed requirements of preferred node affinity, of which the library
// makes a text in the square of their number.
func TestManyMalformedPreferencesAreToldInPart(t *testing.T) {
	const many, told = 2000, 64
	bad, good := build.Match("zone", v1.NodeSelectorOpIn, "-"), build.Match("zone", v1.NodeSelectorOpExists)
	values := slices.Repeat([]string{"-"}, many)
	for name, list := range map[string][]v1.NodeSelectorRequirement{
		"each":         slices.Repeat([]v1.NodeSelectorRequirement{bad}, many),
		"the last one": append(slices.Repeat([]v1.NodeSelectorRequirement{good}, many), bad),
		"each value":   {build.Match("zone", v1.NodeSelectorOpIn, values...)},
		"as many":      slices.Repeat([]v1.NodeSelectorRequirement{bad}, told),
	} {
		w, p := newYard(t), emptyPod()
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
			{Weight: 1, Preference: build.Labels(list...)},
		}}}
		var got error
		allocated, _ := w.cost(func() {
			c, err := compile.New().Class(p, compile.DefaultProfile("x"), w)
			if err != nil {
				t.Fatal(err)
			}
			got = c.ScoreError
		})
		if n := strings.Count(fmt.Sprint(got), "Invalid value"); n != min(told, n) || n == 0 {
			t.Errorf("%s: %d faults are told, want %d at the most", name, n, told)
		}
		if most := uint64(maxAllocated*size(p) + 32*allocatedAnyway); allocated > most {
			t.Errorf("%s: %d bytes are allocated, want %d at the most", name, allocated, most)
		}
	}
}

// kind is how the things of one sort differ that a pod has many of.
type kind struct {
	from, distinct, values int
	operator, most         int
}

func drawKind(t *rapid.T) kind {
	return kind{
		from:     rapid.SampledFrom([]int{0, 0, yardKeys - 5, yardKeys}).Draw(t, "from"),
		distinct: rapid.SampledFrom([]int{1, 4, 60, 1 << 20}).Draw(t, "distinct"),
		values:   rapid.SampledFrom([]int{1, 1, 3, 100, 2000}).Draw(t, "values"),
		operator: rapid.IntRange(0, 3).Draw(t, "operator"),
		most:     rapid.SampledFrom([]int{64, 256, 1 << 20}).Draw(t, "most"), // the first two are bounds of ours
	}
}

func (k kind) key(i int) string { return key(k.from + i%k.distinct) }

// list are the values of the i-th thing.
func (k kind) list(i int) []string {
	out := make([]string, k.values)
	for j := range out {
		out[j] = value(i*k.values + j)
	}
	return out
}

// selector is a selector of pods.
func (k kind) selector(i int) *metav1.LabelSelector {
	operator := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, ""}[k.operator]
	switch operator {
	case "":
		return &metav1.LabelSelector{MatchLabels: map[string]string{k.key(i): value(i)}}
	case metav1.LabelSelectorOpExists:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: k.key(i), Operator: operator}}}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: k.key(i), Operator: operator, Values: k.list(i)}}}
}

// around is a term of pod affinity. Some name namespaces, some select them.
func (k kind) around(i int) v1.PodAffinityTerm {
	term := v1.PodAffinityTerm{TopologyKey: k.key(i), LabelSelector: k.selector(i)}
	switch k.values {
	case 3:
		term.Namespaces = k.list(i)
	case 100:
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "other"}}
	}
	return term
}

func (k kind) constraint(i int, when v1.UnsatisfiableConstraintAction) v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{TopologyKey: k.key(i), MaxSkew: 1, WhenUnsatisfiable: when, LabelSelector: k.selector(i)}
	if k.operator == 0 {
		c.LabelSelector, c.MatchLabelKeys = &metav1.LabelSelector{}, k.list(i)
	}
	return c
}

// term is a term of node affinity.
func (k kind) term(i int) v1.NodeSelectorTerm {
	operator := []v1.NodeSelectorOperator{v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, ""}[k.operator]
	switch operator {
	case "":
		return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{host(i)}}}}
	case v1.NodeSelectorOpExists:
		return build.Labels(build.Match(k.key(i), operator))
	}
	return build.Labels(build.Match(k.key(i), operator, k.list(i)...))
}

func (k kind) requests(i int) v1.ResourceList {
	return v1.ResourceList{v1.ResourceName(fmt.Sprint("example.com/", k.key(i))): *resource.NewQuantity(int64(i+1), resource.DecimalSI)}
}

// adders put the i-th thing of a sort into a pod.
func adders() map[string]func(p *v1.Pod, k kind, i int) {
	affinity := func(p *v1.Pod) *v1.Affinity {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}, PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{}}
		}
		return p.Spec.Affinity
	}
	return map[string]func(p *v1.Pod, k kind, i int){
		"required terms": func(p *v1.Pod, k kind, i int) {
			a := affinity(p).PodAffinity
			a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, k.around(i))
		},
		"anti-affinity": func(p *v1.Pod, k kind, i int) {
			a := affinity(p).PodAntiAffinity
			a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, k.around(i))
		},
		"preferred terms": func(p *v1.Pod, k kind, i int) {
			a := affinity(p).PodAffinity
			a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: k.around(i)})
		},
		"hard constraints": func(p *v1.Pod, k kind, i int) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, k.constraint(i, v1.DoNotSchedule))
		},
		"soft constraints": func(p *v1.Pod, k kind, i int) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, k.constraint(i, v1.ScheduleAnyway))
		},
		"node affinity": func(p *v1.Pod, k kind, i int) {
			a := affinity(p).NodeAffinity
			if a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
				a.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{}
			}
			terms := &a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			*terms = append(*terms, k.term(i))
		},
		"node preferences": func(p *v1.Pod, k kind, i int) {
			a := affinity(p).NodeAffinity
			a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.PreferredSchedulingTerm{Weight: 1, Preference: k.term(i)})
		},
		"node selector": func(p *v1.Pod, k kind, i int) { p.Spec.NodeSelector[k.key(i)] = value(i) },
		"labels":        func(p *v1.Pod, k kind, i int) { p.Labels[k.key(i)] = value(i) },
		"tolerations": func(p *v1.Pod, k kind, i int) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: k.key(i), Value: value(i)})
		},
		"ports": func(p *v1.Pod, k kind, i int) {
			c := &p.Spec.Containers[0]
			c.Ports = append(c.Ports, v1.ContainerPort{HostPort: int32(i%60000 + 1), ContainerPort: 1})
		},
		"containers": func(p *v1.Pod, k kind, i int) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{
				Name: value(i), Image: fmt.Sprint("image-", i), Resources: v1.ResourceRequirements{Requests: k.requests(i)},
			})
		},
		"init containers": func(p *v1.Pod, k kind, i int) {
			c := v1.Container{Name: value(i), Resources: v1.ResourceRequirements{Requests: k.requests(i)}}
			if always := v1.ContainerRestartPolicyAlways; k.operator == 1 || k.operator > 1 && i%2 == 0 {
				c.RestartPolicy = &always
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		},
		"statuses": func(p *v1.Pod, k kind, i int) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
				Name: value(i), AllocatedResources: k.requests(i), Resources: &v1.ResourceRequirements{Requests: k.requests(i)},
			})
		},
		"resources": func(p *v1.Pod, k kind, i int) {
			for name, q := range k.requests(i) {
				p.Spec.Containers[0].Resources.Requests[name], p.Spec.Overhead[name] = q, q
			}
		},
		"claims": func(p *v1.Pod, k kind, i int) {
			mount(p, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("claim-", i%k.distinct)}})
		},
		"disks": func(p *v1.Pod, k kind, i int) {
			if k.operator == 0 {
				mount(p, v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: k.list(i), RBDImage: value(i)}})
				return
			}
			mount(p, v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: value(i)}})
		},
		"image volumes": func(p *v1.Pod, k kind, i int) {
			mount(p, v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: fmt.Sprint("image-", i)}})
		},
	}
}

func mount(p *v1.Pod, from v1.VolumeSource) {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", len(p.Spec.Volumes)), VolumeSource: from})
}

// fill puts as many things of a sort into a pod as fit into some more bytes.
func fill(p *v1.Pod, add func(*v1.Pod, kind, int), k kind, bytes int) {
	empty := size(p)
	add(p, k, 0)
	each := max(size(p)-empty, 4)
	for i := 1; i < min(bytes/each, k.most); i++ {
		add(p, k, i)
	}
}

// size is the bytes of a pod as its author sends it.
func size(p *v1.Pod) int {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return len(text)
}

func emptyPod() *v1.Pod {
	p := build.Pod("p").CPU("1").Obj()
	p.Labels, p.Spec.NodeSelector, p.Spec.Overhead = map[string]string{}, map[string]string{}, v1.ResourceList{}
	return p
}

// drawPod makes a pod of few sorts of things, of each as many as fit.
func drawPod(t *rapid.T) (*v1.Pod, string) {
	p, about := emptyPod(), ""
	all := adders()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	sorts := rapid.IntRange(1, 3).Draw(t, "sorts")
	bytes := rapid.SampledFrom([]int{1 << 10, 8 << 10, largestPod}).Draw(t, "bytes")
	for range sorts {
		name, k := rapid.SampledFrom(names).Draw(t, "sort"), drawKind(t)
		fill(p, all[name], k, bytes/sorts)
		about += fmt.Sprintf("%s %+v; ", name, k)
	}
	return p, about
}

func drawCost(t *rapid.T) {
	p, about := drawPod(t)
	checkCost(t, p, about)
}

// checkCost tries a pod twice, as the scheduler does, with what it would carry once it is placed.
func checkCost(t rapid.TB, p *v1.Pod, about string) {
	t.Helper()
	w, c, prof := newYard(t), compile.New(), compile.DefaultProfile("x")
	if _, err := c.Class(emptyPod(), prof, w); err != nil {
		t.Fatalf("class of an empty pod: %v", err)
	}
	bytes := uint64(size(p))
	for _, attempt := range []string{"first", "second"} {
		allocated, steps := w.cost(func() {
			w.counters.CarryFew(p, 32)
			_, _ = c.Class(p, prof, w) // it may be refused
		})
		if most := maxAllocated*bytes + allocatedAnyway; allocated > most {
			t.Errorf("%s attempt of a pod of %d bytes, %s: allocates %d bytes (%d for each), want %d at most", attempt, bytes, about, allocated, allocated/bytes, most)
		}
		if most := maxSteps*bytes + stepsAnyway; steps > most {
			t.Errorf("%s attempt of a pod of %d bytes, %s: takes %d steps, want %d at most", attempt, bytes, about, steps, most)
		}
	}
}

// TestCompilingCostsByTheBytesOfThePod holds that no pod up to 64 KiB costs more than its bytes are worth.
func TestCompilingCostsByTheBytesOfThePod(t *testing.T) { rapid.Check(t, drawCost) }

// TestTwiceAsMuchCostsTwice doubles what a pod has of some sorts of things: what it allocates may come to three
// times as much, not to four.
func TestTwiceAsMuchCostsTwice(t *testing.T) {
	for about, sorts := range map[string][]string{
		"each constraint looks at node affinity":  {"hard constraints", "node selector"},
		"each node name is added to those before": {"node affinity"},
		"each required term is added likewise":    {"required terms"},
	} {
		var got [2]uint64
		for i, n := range []int{30, 60} {
			p := emptyPod()
			for _, sort := range sorts {
				k := kind{distinct: 1 << 20, values: 1, operator: 3, most: 20 * n}
				switch sort {
				case "hard constraints":
					k.most = n // of a key each
				case "required terms":
					k.distinct, k.most = 1, 4*n
				}
				fill(p, adders()[sort], k, 1<<20)
			}
			w, c, prof := newYard(t), compile.New(), compile.DefaultProfile("x")
			got[i], _ = w.cost(func() { _, _ = c.Class(p, prof, w) })
		}
		if got[1] > 3*got[0] {
			t.Errorf("%s: got %d bytes for twice of what takes %d, want three times as much at most", about, got[1], got[0])
		}
	}
}

// FuzzCost looks for one that does.
func FuzzCost(f *testing.F) { f.Fuzz(rapid.MakeFuzz(drawCost)) }

// BenchmarkCost is what the first attempt of a pod of 64 KiB takes that has one sort of things alone.
func BenchmarkCost(b *testing.B) {
	for name, add := range adders() {
		p := emptyPod()
		fill(p, add, kind{distinct: 60, values: 3, operator: 1, most: 256}, largestPod)
		b.Run(name, func(b *testing.B) {
			w, prof := newYard(b), compile.DefaultProfile("x")
			b.ReportAllocs()
			for b.Loop() {
				_, _ = compile.New().Class(p, prof, w)
			}
		})
	}
}
