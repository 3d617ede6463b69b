package compile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// still is a spread of images that does not change.
type still map[string]int64

func (s still) Spread(name string) (int64, int, bool) {
	size, ok := s[name]
	return size, 1, ok
}

func (s still) TotalNodes() int { return 2 }

func mustClass(t rapid.TB, c *Compiler, p *v1.Pod, prof *Profile, images Images) *Class {
	t.Helper()
	class, err := c.Class(p, prof, EmptyCluster(images))
	if err != nil {
		t.Fatalf("class: want no error, got %v", err)
	}
	return class
}

// definition is a class's query without its id, encoded.
func definition(c *Class) string {
	if c.Query == nil {
		return ""
	}
	q := proto.CloneOf(c.Query)
	q.ClassId = 0
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(q)
	if err != nil {
		panic(err) // it was encoded before
	}
	return string(encoded)
}

// drawPod draws a pod that uses everything that a class depends on.
func drawPod(t *rapid.T) *v1.Pod {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	b := build.Pod("p")
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		b.Container(fmt.Sprint("c", i)).Image(pick("image", "app:v1", "app", "none"))
		if q := pick("cpu", "", "0", "100m", "1", "1500u"); q != "" {
			b.CPU(q)
		}
		if q := pick("memory", "", "0", "1Gi", "1.5Gi", "100m"); q != "" {
			b.Memory(q)
		}
		if q := pick("gpu", "", "0", "2"); q != "" {
			b.Request("nvidia.com/gpu", q)
		}
		if rapid.Bool().Draw(t, "port") {
			b.HostPort(pick("ip", "", "10.0.0.1"), v1.Protocol(pick("protocol", "", "UDP")), rapid.Int32Range(0, 3).Draw(t, "number"))
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "init containers") {
		if rapid.Bool().Draw(t, "sidecar") {
			b.Sidecar(fmt.Sprint("s", i), "cpu", pick("init cpu", "0", "2"))
		} else {
			b.Init(fmt.Sprint("i", i), "cpu", pick("init cpu", "0", "2"))
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "tolerations") {
		b.Toleration(pick("toleration", "a", "b=c", "b=c:NoSchedule", ":PreferNoSchedule"))
	}
	for range rapid.IntRange(0, 2).Draw(t, "selector") {
		b.NodeSelector(pick("key", "zone", "disk"), pick("value", "x", "y"))
	}
	for range rapid.IntRange(0, 2).Draw(t, "preferred") {
		b.Preferred(rapid.Int32Range(1, 3).Draw(t, "weight"), build.Labels(drawRequirement(t)))
	}
	if rapid.Bool().Draw(t, "required") {
		b.Required(build.Labels(drawRequirement(t), drawRequirement(t)))
	}
	return b.Obj()
}

func drawRequirement(t *rapid.T) v1.NodeSelectorRequirement {
	return build.Match(rapid.SampledFrom([]string{"zone", "disk"}).Draw(t, "key"),
		rapid.SampledFrom([]v1.NodeSelectorOperator{v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn}).Draw(t, "operator"),
		rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z"}), 1, 3).Draw(t, "values")...)
}

// disguise changes a pod in everything that no rule reads.
func disguise(t *rapid.T, p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "disguise"), 0))
	priority, seconds := r.Int32(), r.Int64()
	p.ObjectMeta = metav1.ObjectMeta{
		Name: "other", Namespace: "elsewhere", UID: "u", ResourceVersion: "7",
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"},
	}
	p.Spec.Priority, p.Spec.PriorityClassName = &priority, "high"
	p.Spec.ServiceAccountName, p.Spec.Hostname = "sa", "h"
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "v"})
	p.Status.Phase, p.Status.Message = v1.PodPending, "waiting"
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Reason: "Unschedulable"}}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.Name, c.Command, c.Env = fmt.Sprint("renamed", i), []string{"x"}, []v1.EnvVar{{Name: "A"}}
		c.Resources.Limits = c.Resources.Requests
		c.Ports = append(c.Ports, v1.ContainerPort{ContainerPort: 9999})
		for j := range c.Ports {
			c.Ports[j].Name, c.Ports[j].ContainerPort = "web", 8080
		}
		r.Shuffle(len(c.Ports), func(a, b int) { c.Ports[a], c.Ports[b] = c.Ports[b], c.Ports[a] })
	}
	for i := range p.Spec.Tolerations {
		p.Spec.Tolerations[i].TolerationSeconds = &seconds
	}
	r.Shuffle(len(p.Spec.Tolerations), func(a, b int) {
		l := p.Spec.Tolerations
		l[a], l[b] = l[b], l[a]
	})
	required, preferred := nodeAffinityOf(p)
	if required != nil {
		for i := range required.NodeSelectorTerms {
			shuffleValues(r, &required.NodeSelectorTerms[i])
		}
	}
	for i := range preferred {
		shuffleValues(r, &preferred[i].Preference)
	}
	return p
}

func shuffleValues(r *rand.Rand, term *v1.NodeSelectorTerm) {
	for i := range term.MatchExpressions {
		v := term.MatchExpressions[i].Values
		r.Shuffle(len(v), func(a, b int) { v[a], v[b] = v[b], v[a] })
	}
}

// relevant are changes that each make another class of any pod of drawPod.
func relevant() map[string]func(*v1.Pod) {
	first := func(p *v1.Pod) *v1.Container { return &p.Spec.Containers[0] }
	return map[string]func(*v1.Pod){
		"a larger request": func(p *v1.Pod) {
			p.Spec.Overhead = cpu("1m")
		},
		"another resource": func(p *v1.Pod) {
			first(p).Resources.Requests = v1.ResourceList{"example.com/x": cpu("1")[v1.ResourceCPU]}
		},
		"another container": func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "more"})
		},
		"requests of the pod": func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: cpu("77")}
		},
		"another toleration": func(p *v1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: "new", Operator: v1.TolerationOpExists})
		},
		"another label to match": func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"new": "x"} },
		"another preference": func(p *v1.Pod) {
			p.Spec.Affinity = build.Pod("q").Preferred(9, build.Labels(build.Match("new", v1.NodeSelectorOpExists))).Obj().Spec.Affinity
		},
		"another requirement": func(p *v1.Pod) {
			p.Spec.Affinity = build.Pod("q").Required(build.Labels(build.Match("new", v1.NodeSelectorOpExists))).Obj().Spec.Affinity
		},
		"a named node": func(p *v1.Pod) {
			p.Spec.Affinity = build.Pod("q").Required(build.Names("n")).Obj().Spec.Affinity
		},
		"a host port": func(p *v1.Pod) {
			first(p).Ports = append(first(p).Ports, v1.ContainerPort{HostPort: 4321})
		},
		"a node name": func(p *v1.Pod) { p.Spec.NodeName = "n" },
		"an image that nodes have": func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "data:v1"}}})
		},
	}
}

func TestClassIsThatOfTheRelevantFields(t *testing.T) {
	images := still{"app:v1": 500 * mi, "app:latest": 100 * mi, "data:v1": 900 * mi}
	prof := DefaultProfile("x")
	changes := relevant()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t)
		c := New()
		id := mustClass(t, c, p, prof, images).ID()
		if got := mustClass(t, c, p.DeepCopy(), prof, images).ID(); got != id {
			t.Errorf("class of an equal pod: want %x, got %x", id, got)
		}
		if got := mustClass(t, c, disguise(t, p), prof, images).ID(); got != id {
			t.Errorf("class of a pod that differs in what no rule reads: want %x, got %x", id, got)
		}
		for name, change := range changes {
			other := p.DeepCopy()
			change(other)
			if got := mustClass(t, c, other, prof, images).ID(); got == id {
				t.Errorf("class of the pod with %s: want another than %x, got the same", name, id)
			}
		}
	})
}

// TestSignatureMissesNothing holds the interned class against one compiled anew.
func TestSignatureMissesNothing(t *testing.T) {
	images := still{"app:v1": 500 * mi}
	prof := DefaultProfile("x")
	c := New()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t)
		got := mustClass(t, c, p, prof, images)
		want := mustClass(t, New(), p, prof, images)
		if definition(got) != definition(want) {
			t.Errorf("interned class: want %v, got %v", want.Query, got.Query)
		}
		if err := got.Query.Validate(); err != nil {
			t.Errorf("validate the query: want no error, got %v", err)
		}
	})
}

// resize changes what a pod requests, and nothing else.
func resize(t *rapid.T, p *v1.Pod) {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			for name, from := range map[v1.ResourceName][]string{
				v1.ResourceCPU: {"100m", "3", "1500u", "0"}, v1.ResourceMemory: {"1Gi", "1024Mi", "1.5Gi", "70m"}, "nvidia.com/gpu": {"0", "1", "4"},
			} {
				switch r := list[i].Resources.Requests; {
				case r != nil && one(t, 2, "resize"):
					r[name] = resource.MustParse(pick(t, "size", from...))
				case one(t, 4, "forget"):
					delete(r, name)
				}
			}
		}
	}
}

// Pods that differ in requests are compiled to variants of a class. Each is what compiling from scratch makes of the pod, under the same id.
func TestPodsOfOtherRequestsAreVariants(t *testing.T) {
	images := still{"app:v1": 500 * mi}
	prof := DefaultProfile("x")
	variants := 0
	rapid.Check(t, func(t *rapid.T) {
		c := New()
		p := drawPod(t)
		for range 6 {
			got, want := mustClass(t, c, p, prof, images), mustClass(t, New(), p, prof, images)
			if definition(got) != definition(want) {
				t.Fatalf("interned class: want %v, got %v", want.Query, got.Query)
			}
			if got.Scorer.Original() != nil {
				variants++
				kept := c.plans
				c.plans, c.outlines = New().plans, New().outlines
				if again := mustClass(t, c, p, prof, images); again.Scorer.Original() != nil || again.ID() != got.ID() {
					t.Fatalf("from scratch: want class %x and no variant, got class %x", got.ID(), again.ID())
				}
				c.plans = kept
			}
			resize(t, p)
		}
	})
	if variants < 50 {
		t.Errorf("variants: want 50 or more, got %d", variants)
	}
}

// A pod that asks for as much as another in another way is of the other's class, and no variant of it: none is like itself.
func TestNoVariantIsLikeItself(t *testing.T) {
	c, prof := New(), DefaultProfile("x")
	pod := func(first, second string) *v1.Pod {
		return build.Pod("p").Container("a").CPU(first).Memory("1Gi").Container("b").CPU(second).Memory("1Gi").Obj()
	}
	like := mustClass(t, c, pod("1", "2"), prof, still{})
	got := mustClass(t, c, pod("2", "1"), prof, still{})
	if got.ID() != like.ID() || got.Query != like.Query || got.Scorer != like.Scorer {
		t.Errorf("got class %d, like %v, want the very query of class %d", got.ID(), got.Scorer.Original(), like.ID())
	}
	if other := mustClass(t, c, pod("2", "2"), prof, still{}); other.ID() == like.ID() || other.Scorer.Original() != like.Scorer {
		t.Errorf("of another size: got class %d, want a variant of class %d", other.ID(), like.ID())
	}
}

func TestClassesAreInterned(t *testing.T) {
	c, prof := New(), DefaultProfile("x")
	p := build.Pod("p").CPU("1").Image("app:v1").Obj()
	q := build.Pod("q").Label("pod", "q").CPU("1").Image("app:v1").Obj()
	images := &spread{sizes: map[string]int64{}, nodes: map[string]map[string]bool{}}
	images.add(build.Node("a").Obj())

	first := mustClass(t, c, p, prof, images)
	if got := mustClass(t, c, q, prof, images); got != first {
		t.Errorf("class of an equal pod: want the same object, got another")
	}
	images.add(build.Node("b").Obj())
	if got := mustClass(t, c, p, prof, images); got != first {
		t.Errorf("class after a node without images came: want the same object, got another")
	}
	images.add(build.Node("c").Image(900*mi, "app:v1").Obj())
	second := mustClass(t, c, p, prof, images)
	if second.ID() == first.ID() {
		t.Errorf("class after a node with the image came: want another than %x, got the same", first.ID())
	}
	if first.Query.Images.GetImages() != nil {
		t.Errorf("the first class's images: want none still, got %v", first.Query.Images)
	}
	if got := mustClass(t, c, p, DefaultProfile("y"), images); got == second || got.ID() != second.ID() {
		t.Errorf("class under an equal profile: want another object with id %x, got %x", second.ID(), got.ID())
	}
}

func TestRejectedPodHasNoQuery(t *testing.T) {
	p := build.Pod("p").Required(build.Term{MatchFields: []v1.NodeSelectorRequirement{
		build.Match("metadata.name", v1.NodeSelectorOpIn, "a"), build.Match("metadata.name", v1.NodeSelectorOpIn, "b"),
	}}).CPU("1").Obj()
	class := mustClass(t, New(), p, DefaultProfile("x"), still{})
	r := class.Rejected
	if r == nil || r.Message != "pod affinity terms conflict" || !r.Unresolvable || !slices.Equal(r.Plugins, []string{"NodeAffinity"}) {
		t.Errorf("rejection: want NodeAffinity, pod affinity terms conflict, unresolvable; got %+v", r)
	}
	if class.Query != nil || class.Scorer != nil || class.ID() != 0 {
		t.Errorf("query of a rejected pod: want none, got %v", class.Query)
	}
	if got := class.Usage.Requests.MilliCpu; got != 1000 {
		t.Errorf("usage: want 1000m, got %dm", got)
	}
}

func TestSkippedPluginsAreLeftOut(t *testing.T) {
	prof := DefaultProfile("x")
	bare := mustClass(t, New(), build.Pod("p").Obj(), prof, still{}).Query
	want := []pb.Plugin{pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE, pb.Plugin_PLUGIN_NODE_NAME, pb.Plugin_PLUGIN_TAINT_TOLERATION, pb.Plugin_PLUGIN_NODE_RESOURCES_FIT}
	if !slices.Equal(bare.Filters, want) {
		t.Errorf("filters of a bare pod: want %v, got %v", want, bare.Filters)
	}
	if len(bare.Scores) != 3 || bare.Balanced != nil || bare.NodeAffinity != nil || !bare.Fit.BestEffort {
		t.Errorf("scores of a bare pod: want TaintToleration, NodeResourcesFit, ImageLocality; got %v", bare.Scores)
	}
	full := mustClass(t, New(), build.Pod("p").CPU("1").HostPort("", "", 80).NodeSelector("a", "b").
		Preferred(1, build.Labels(build.Match("a", v1.NodeSelectorOpExists))).Obj(), prof, still{}).Query
	if len(full.Filters) != 6 || len(full.Scores) != 5 || full.Fit.BestEffort {
		t.Errorf("a pod that uses everything: want 6 filters and 5 scores, got %v and %v", full.Filters, full.Scores)
	}
}

func TestProfileOfFewerPlugins(t *testing.T) {
	prof, err := newProfile(ProfileConfig{Name: "x", Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_NAME}})
	if err != nil {
		t.Fatalf("profile: want no error, got %v", err)
	}
	// What the other plugins would reject or fail on is not looked at.
	p := build.Pod("p").Required(build.Term{MatchFields: []v1.NodeSelectorRequirement{build.Match("metadata.name", v1.NodeSelectorOpIn)}}).
		Preferred(1, build.Labels(build.Match("a", "Is"))).CPU("1").Obj()
	class := mustClass(t, New(), p, prof, still{})
	if class.Rejected != nil || class.ScoreError != nil {
		t.Errorf("want neither rejection nor error, got %v and %v", class.Rejected, class.ScoreError)
	}
	if q := class.Query; len(q.Filters) != 1 || len(q.Scores) != 0 || q.Fit != nil || q.NodeAffinity != nil || q.Images != nil {
		t.Errorf("query: want NodeName alone, got %v", q)
	}
}

func TestTextsThatNoNodeHasMatchNothing(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	b := build.Pod("p").NodeSelector(long, "v").Node(long).Toleration(long+":NoSchedule").Required(build.Names(long), build.Names(""))
	q := mustClass(t, New(), b.Image(long).HostPort(long, "", 80).Obj(), DefaultProfile("x"), still{long + ":latest": 5 * gi}).Query
	if err := q.Validate(); err != nil {
		t.Errorf("validate: want no error, got %v", err)
	}
	if got := q.NodeAffinity.Required; got == nil || len(got.Terms) != 0 {
		t.Errorf("required: want a selector without terms, got %v", got)
	}
	if !slices.Equal(q.Narrowed.Names, []string{noNode}) || q.NodeName != noNode {
		t.Errorf("narrowed and node name: want %s, got %v and %s", noNode, q.Narrowed.Names, q.NodeName)
	}
	if len(q.Tolerations)+len(q.HostPorts)+len(q.Images.Images) != 0 {
		t.Errorf("tolerations, ports, images: want none, got %v, %v, %v", q.Tolerations, q.HostPorts, q.Images.Images)
	}
}
