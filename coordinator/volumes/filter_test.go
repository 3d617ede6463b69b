package volumes

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// stored is a cluster of nothing but storage.
type stored struct {
	compile.ClusterState
	cache *Cache
}

func (w stored) Volumes() compile.Volumes { return w.cache }
func (stored) Devices() compile.Devices   { return nil }

// noImages is a cluster without images.
type noImages struct{}

func (noImages) Spread(string) (int64, int, bool) { return 0, 0, false }
func (noImages) TotalNodes() int                  { return 4 }

// What the filter lets through is what Reserve finds volumes for: the two decide by the
// same rules, one for all nodes at once and one for the node that was chosen.
func TestFilterAgreesWithReserve(t *testing.T) {
	prof, err := rules.NewProfile(compile.ProfileConfig{Name: "x", Filters: []pb.Plugin{pb.Plugin_PLUGIN_VOLUME_BINDING}})
	if err != nil {
		t.Fatal(err)
	}
	e := scorer.NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		w := newReserveModel(t)
		compiler, in := compile.New(), stored{compile.EmptyCluster(noImages{}), w.c}
		table := scorer.NewTable(0)
		for i, n := range w.nodes {
			if err := table.Apply(&pb.Delta{Row: uint32(i), Change: &pb.Delta_SetNode{SetNode: compile.Node(n)}}); err != nil {
				t.Fatal(err)
			}
		}
		for range 8 {
			w.setVolume()
		}
		for range 4 {
			w.setClaim()
		}
		for range 6 {
			claims := rapid.SliceOfN(rapid.SampledFrom([]string{"c0", "c1", "c2", "c3"}), 1, 3).Draw(t, "claims")
			pod := podOf("p"+w.version(), claims)
			class, err := compiler.Class(pod, prof, in)
			if err != nil {
				t.Fatal(err)
			}
			for row, n := range w.nodes {
				fits := class.Rejected == nil
				if fits {
					var v scorer.Verdict
					e.Row(table, uint32(row), nil, class.Scorer, false, &v)
					fits = v.Passed
				}
				work, err := w.c.Reserve(pod, n)
				if fits && err != nil {
					t.Fatalf("%v on %s: the filter lets it through, Reserve says %v", claims, n.Name, err)
				}
				if !fits && err == nil && !w.isBound(claims) {
					t.Fatalf("%v on %s: the filter refuses it, Reserve does not", claims, n.Name)
				}
				if rapid.IntRange(0, 3).Draw(t, "keep") > 0 || err != nil {
					w.c.Unreserve(work)
				} else if class, err = compiler.Class(pod, prof, in); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// isBound tells whether a claim is bound: Reserve leaves the reach of its volume to the
// filter.
func (w *reserveModel) isBound(claims []string) bool {
	for _, name := range claims {
		if pvc := w.c.Claim("default", name); pvc != nil && storage.IsBound(pvc) {
			return true
		}
	}
	return false
}

// A local volume among ten thousand: what a pod costs whose class has to be compiled
// again, and judged on every node.
func BenchmarkLocalVolumes(b *testing.B) {
	prof, err := rules.NewProfile(compile.ProfileConfig{Name: "x", Filters: []pb.Plugin{pb.Plugin_PLUGIN_VOLUME_BINDING}})
	if err != nil {
		b.Fatal(err)
	}
	c := New(&registry{})
	c.Set(words{"provisioner": storage.NoProvisioner, "wait": ""}.class("local"))
	for i := range 10_000 {
		c.Set(words{"class": "local", "size": "10Gi", "node": fmt.Sprint("n", i/2)}.volume(fmt.Sprint("v", i)))
	}
	c.Set(words{"class": "local", "size": "5Gi"}.claim("c"))
	compiler, in := compile.New(), stored{compile.EmptyCluster(noImages{}), c}
	pod := podOf("p", []string{"c"})
	b.ReportAllocs()
	for b.Loop() {
		c.version++
		if _, err := compiler.Class(pod, prof, in); err != nil {
			b.Fatal(err)
		}
	}
}
