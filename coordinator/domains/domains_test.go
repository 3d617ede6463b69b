package domains

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/placement"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// reference is the same nodes and pods, all of which are looked at for each question.
type reference struct {
	nodes map[string]*v1.Node
	pods  map[string]*v1.Pod // by name
	on    map[string]string  // nodes by pods
}

// TestKeysAreThoseOfAPassOverAllNodes changes nodes and pods, and now and then asks.
func TestKeysAreThoseOfAPassOverAllNodes(t *testing.T) {
	keys := []string{"rack", "block", "none"}
	rapid.Check(t, func(t *rapid.T) {
		c := cache.New(3)
		x, r := New(c), &reference{nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{}, on: map[string]string{}}
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			r.change(t, c, step)
			if !rapid.Bool().Draw(t, "ask") {
				continue
			}
			of := keys[:rapid.IntRange(1, len(keys)).Draw(t, "keys")]
			tree, err := x.Tree(of)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := words(tree, len(of)), words(placement.NewTree(len(of), r.cells(of)), len(of)); got != want {
				t.Fatalf("tree of %v: got %s, want %s", of, got, want)
			}
			for _, resource := range []string{"cpu", "memory", "example.com/gpu"} {
				sums := x.Sums("rack", resource)
				for _, value := range []string{"a", "b", "gone"} {
					if got, want := sums(value), r.sums("rack", value, resource); got != want {
						t.Fatalf("%s of rack=%s: got %+v, want %+v", resource, value, got, want)
					}
				}
			}
		}
	})
}

func (r *reference) change(t *rapid.T, c *cache.Cache, step int) {
	name := rapid.SampledFrom([]string{"n1", "n2", "n3", "n4", "n5"}).Draw(t, "node")
	switch rapid.IntRange(0, 3).Draw(t, "change") {
	case 0, 1:
		n := build.Node(name).CPU(rapid.SampledFrom([]string{"0", "8", "16"}).Draw(t, "cpu")).Memory("32Gi")
		for _, key := range []string{"rack", "block"} {
			if value := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, key); value != "" {
				n.Label(key, value)
			}
		}
		if rapid.Bool().Draw(t, "gpu") {
			n.Resource("example.com/gpu", "4")
		}
		r.nodes[name] = n.Obj()
		_, err := c.SetNode(r.nodes[name])
		must(t, err)
	case 2:
		delete(r.nodes, name)
		_, err := c.RemoveNode(name)
		must(t, err)
	case 3:
		p := build.Pod(fmt.Sprint("p", step)).UID(fmt.Sprint("p", step))
		if rapid.Bool().Draw(t, "asks") {
			p.CPU("1").Request("example.com/gpu", "1")
		}
		pod := p.Obj()
		r.pods[pod.Name], r.on[pod.Name] = pod, name
		must(t, c.Assume(pod, name, compile.Usage(pod), uint64(step+1)))
		if rapid.Bool().Draw(t, "forget") {
			_, err := c.Forget(pod.UID)
			must(t, err)
			delete(r.pods, pod.Name)
		}
	}
}

func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func (r *reference) cells(keys []string) (cells [][]string) {
	for _, n := range r.nodes {
		cell := make([]string, len(keys))
		for i, key := range keys {
			if value, has := n.Labels[key]; has {
				cell[i] = value
			} else {
				cell[i] = placement.Absent
			}
		}
		cells = append(cells, cell)
	}
	return cells
}

func (r *reference) sums(key, value, resource string) (s Sums) {
	for name, n := range r.nodes {
		all := n.Status.Allocatable[v1.ResourceName(resource)]
		if n.Labels[key] != value || all.IsZero() {
			continue
		}
		for pod, on := range r.on {
			if p := r.pods[pod]; p != nil && on == name {
				usage := compile.Usage(p)
				switch resource {
				case "cpu":
					s.Requested += usage.GetNonZeroMilliCpu()
				case "memory":
					s.Requested += usage.GetNonZeroMemoryBytes()
				default:
					for _, scalar := range usage.GetRequests().GetScalars() {
						s.Requested += scalar.GetQuantity()
					}
				}
			}
		}
		if resource == "cpu" {
			s.Allocatable += all.MilliValue()
		} else {
			s.Allocatable += all.Value()
		}
	}
	return s
}

// words writes a tree: each domain, and those in which it lies.
func words(t *placement.Tree, keys int) string {
	var all []string
	for a := range keys {
		for at, value := range t.Values(a) {
			line := fmt.Sprint(a, "=", value)
			for b := range keys {
				if in, found := t.In(placement.Domain{Key: a, At: at}, b); found {
					line += fmt.Sprint(" in ", b, "=", t.Value(in))
				}
			}
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// TestTooManyDomains has a key with more domains than there may be: nothing is made of it but a text.
func TestTooManyDomains(t *testing.T) {
	c := cache.New(1)
	for i := range MaxDomains + 1 {
		if _, err := c.SetNode(build.Node(fmt.Sprint("n", i)).CPU("1").Label("host", fmt.Sprint("h", i)).Label("rack", "r").Obj()); err != nil {
			t.Fatal(err)
		}
	}
	x := New(c)
	const want = `topology key "host" has 65537 domains, at most 65536 can be told apart`
	if _, err := x.Tree([]string{"rack", "host"}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if tree, err := x.Tree([]string{"rack"}); err != nil || len(tree.Values(0)) != 1 {
		t.Errorf("got %v, want another key to have its tree", err)
	}
}

// TestFewKeysAndTreesAreKept names more keys than there may be.
func TestFewKeysAndTreesAreKept(t *testing.T) {
	c := cache.New(1)
	if _, err := c.SetNode(build.Node("n").CPU("1").Label("k1", "a").Obj()); err != nil {
		t.Fatal(err)
	}
	x := New(c)
	for i := range 3 * maxTrees {
		if _, err := x.Tree([]string{"k1", fmt.Sprint("other", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(x.keys) != maxKeys || len(x.trees) != maxTrees || x.keys["k1"] == nil {
		t.Errorf("got %d keys and %d trees, want %d and %d, with the key that is in use", len(x.keys), len(x.trees), maxKeys, maxTrees)
	}
}

// TestSumsDoNotOverflow has nodes that say they have as much as a number may be.
func TestSumsDoNotOverflow(t *testing.T) {
	c := cache.New(1)
	set := func(name, memory string) {
		if _, err := c.SetNode(build.Node(name).CPU("1").Memory(memory).Label("rack", "r").Obj()); err != nil {
			t.Fatal(err)
		}
	}
	x := New(c)
	for i := range 512 {
		set(fmt.Sprint("n", i), "32Pi")
	}
	if got := x.Sums("rack", "memory")("r").Allocatable; got != math.MaxInt64 {
		t.Errorf("got %d, want the largest number", got)
	}
	for i := range 512 {
		set(fmt.Sprint("n", i), "1")
	}
	if got := x.Sums("rack", "memory")("r").Allocatable; got != 512 {
		t.Errorf("got %d of nodes that say they have 1 now, want 512", got)
	}
}
