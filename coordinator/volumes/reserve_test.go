package volumes

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/storage"
)

// reserveModel is a cluster whose volumes are looked at one by one.
type reserveModel struct {
	t     *rapid.T
	c     *Cache
	nodes []*v1.Node
	next  int
	works []*Work
}

func newReserveModel(t *rapid.T) *reserveModel {
	w := &reserveModel{t: t, c: New(&registry{})}
	for i := range 4 {
		n := words{"zone": fmt.Sprint("z", i%2)}.object("node", fmt.Sprint("n", i)).(*v1.Node)
		w.nodes = append(w.nodes, n)
	}
	for i, provisioner := range []string{storage.NoProvisioner, "drv", "drv"} {
		class := words{"provisioner": provisioner, "wait": ""}
		if i == 2 {
			class["topology"] = "z0"
		}
		w.c.Set(class.class(fmt.Sprint("s", i)))
	}
	return w
}

func (w *reserveModel) version() string {
	w.next++
	return fmt.Sprint(w.next)
}

func (w *reserveModel) setVolume() {
	s := drawn{w.t}
	x := words{"class": s.word("s0", "s1", "s2")(), "size": s.size(), "version": w.version()}
	s.maybe(x, "node", func() string { return s.word("n0", "n1", "n2", "n0,n3")() })
	s.maybe(x, "zone", s.word("z0", "z1"))
	if rapid.IntRange(0, 2).Draw(w.t, "particular") == 0 {
		s.maybe(x, "phase", s.word("Bound", "Pending"))
		s.maybe(x, "ref", func() string { return s.name("c") + s.word("", ":", ":other")() })
	}
	s.maybe(x, "modes", s.word("ReadWriteOnce", "ReadWriteOnce,ReadWriteMany"))
	s.maybe(x, "tier", s.word("gold", "iron"))
	w.c.Set(x.volume("v" + s.word("0", "1", "2", "3", "4", "5", "6", "7")()))
}

func (w *reserveModel) setClaim() {
	s := drawn{w.t}
	x := words{"class": s.word("s0", "s1", "s2")(), "size": s.size(), "version": w.version()}
	switch rapid.IntRange(0, 5).Draw(w.t, "state") {
	case 0:
		x["selected"] = s.name("n")
	case 1:
		x["volume"], x["complete"] = s.name("v"), ""
	}
	if rapid.IntRange(0, 2).Draw(w.t, "particular") == 0 {
		s.maybe(x, "modes", s.word("ReadWriteOnce", "ReadWriteMany"))
		s.maybe(x, "tier", s.word("gold", "iron"))
	}
	w.c.Set(x.claim(s.name("c")))
}

// naive decides as upstream does, volume by volume.
func (w *reserveModel) naive(pod *v1.Pod, node *v1.Node) (text string, ok bool) {
	var unbound, provisioning []*v1.PersistentVolumeClaim
	for i := range pod.Spec.Volumes {
		pvc := w.c.Claim("default", pod.Spec.Volumes[i].PersistentVolumeClaim.ClaimName)
		if pvc == nil {
			return "", false
		}
		if storage.IsBound(pvc) {
			continue
		}
		switch at, selected := pvc.Annotations[storage.AnnSelectedNode]; {
		case selected && at != node.Name:
			return "", false
		case selected:
			provisioning = append(provisioning, pvc)
		default:
			unbound = append(unbound, pvc)
		}
	}
	sort.SliceStable(unbound, func(i, j int) bool {
		a, b := unbound[i].Spec.Resources.Requests[v1.ResourceStorage], unbound[j].Spec.Resources.Requests[v1.ResourceStorage]
		return a.Cmp(b) < 0
	})
	taken := map[string]bool{}
	for _, pvc := range unbound {
		pv := w.naiveVolume(pvc, node, taken)
		if pv == nil {
			provisioning = append(provisioning, pvc)
			continue
		}
		taken[pv.Name] = true
		text += pvc.Name + "=" + pv.Name + " "
	}
	for _, pvc := range provisioning {
		class := *pvc.Spec.StorageClassName
		if class == "s0" || class == "s2" && node.Labels[zone] != "z0" {
			return "", false
		}
		text += pvc.Name + " to be made "
	}
	return text, true
}

func (w *reserveModel) naiveVolume(pvc *v1.PersistentVolumeClaim, node *v1.Node, taken map[string]bool) *v1.PersistentVolume {
	var all []*volume
	for _, v := range w.c.volumes {
		all = append(all, v)
	}
	slices.SortFunc(all, compareVolumes)
	kind, err := storage.NewMatcher(pvc)
	if err != nil {
		w.t.Fatal(err)
	}
	var best *v1.PersistentVolume
	for _, v := range all {
		pv := v.latest()
		if taken[pv.Name] || pv.Spec.ClaimRef != nil && !storage.NamesClaim(pv, pvc) || pv.Spec.StorageClassName != *pvc.Spec.StorageClassName || !kind.Fits(pv) {
			continue
		}
		if storage.NamesClaim(pv, pvc) {
			if !reaches(pv, node) {
				return nil
			}
			return pv
		}
		want := pvc.Spec.Selector
		suits := pv.Status.Phase == v1.VolumeAvailable && reaches(pv, node) && kind.Selects(pv) &&
			(want == nil || pv.Labels["tier"] == want.MatchLabels["tier"])
		if suits && best == nil {
			best = pv
		}
	}
	return best
}

func (w *reserveModel) reserve() {
	s := drawn{w.t}
	// Claims each once: what a claim that is mounted twice does is a script's to show.
	claims := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"c0", "c1", "c2", "c3"}), 1, 3, rapid.ID).Draw(w.t, "claims")
	pod, node := podOf(s.name("p")+w.version(), claims), rapid.SampledFrom(w.nodes).Draw(w.t, "node")
	want, ok := w.naive(pod, node)
	work, err := w.c.Reserve(pod, node)
	if ok != (err == nil) {
		w.t.Fatalf("reserve %v on %s: got error %v, want %q, %v", claims, node.Name, err, want, ok)
	}
	got := ""
	if work != nil {
		for _, p := range work.matches {
			got += p.key.name + "=" + p.pv.Name + " "
		}
		for _, p := range work.provisions {
			got += p.claim.key.name + " to be made "
		}
		w.works = append(w.works, work)
	}
	if err == nil && got != want {
		w.t.Fatalf("reserve %v on %s: got %q, want %q", claims, node.Name, got, want)
	}
}

// take takes one of the placements out; nil: there is none.
func (w *reserveModel) take() *Work {
	if len(w.works) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(w.works)-1).Draw(w.t, "which")
	work := w.works[i]
	w.works = slices.Delete(w.works, i, i+1)
	return work
}

// contents is what a cache knows, by the objects that placements see.
func contents(c *Cache) map[string][]string {
	out := map[string][]string{}
	for key, x := range c.claims {
		if x.latest() != nil {
			out["claim "+key.name] = []string{fmt.Sprintf("%p", x.latest())}
		}
	}
	for name, v := range c.volumes {
		out["volume "+name] = []string{fmt.Sprintf("%p", v.latest()), fmt.Sprint(v.offered), v.class, v.size.String(), fmt.Sprint(v.label, v.ref)}
	}
	for class, s := range c.byClass {
		for pv := range c.VolumesOf(class) {
			out["offered "+class] = append(out["offered "+class], pv.Name)
		}
		labelled, keys := 0, map[string]int{}
		for p, list := range s.byLabel {
			labelled += len(list.list)
			keys[p.key]++
			for _, v := range list.list {
				out["label "+class+p.key+p.value] = append(out["label "+class+p.key+p.value], v.name)
			}
			slices.Sort(out["label "+class+p.key+p.value])
		}
		if labelled != len(s.all.list) || !maps.Equal(keys, s.keys) {
			out["offered "+class] = append(out["offered "+class], "lost under its labels")
		}
	}
	for key, list := range c.reserved {
		for _, v := range list {
			out["reserved "+key.name] = append(out["reserved "+key.name], v.name)
		}
		slices.Sort(out["reserved "+key.name])
	}
	return out
}

// fresh is a cache of the API's objects alone.
func fresh(c *Cache) *Cache {
	out := New(&registry{})
	for _, class := range c.classes {
		out.Set(class)
	}
	for _, v := range c.volumes {
		out.Set(v.api)
	}
	for _, x := range c.claims {
		if x.api != nil {
			out.Set(x.api)
		}
	}
	return out
}

// Reserve finds what a look at every volume finds, whatever was assumed before; and when
// everything is taken back or done, nothing is left but the API's objects.
func TestReserveAndUnreserve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newReserveModel(t)
		for range 6 {
			w.setVolume()
		}
		for range 4 {
			w.setClaim()
		}
		t.Repeat(map[string]func(*rapid.T){
			"volume":      func(t *rapid.T) { w.t = t; w.setVolume() },
			"claim":       func(t *rapid.T) { w.t = t; w.setClaim() },
			"lose volume": func(t *rapid.T) { w.t = t; w.c.Delete(words{}.object("volume", drawn{t}.name("v"))) },
			"lose claim":  func(t *rapid.T) { w.t = t; w.c.Delete(words{}.object("claim", drawn{t}.name("c"))) },
			"reserve":     func(t *rapid.T) { w.t = t; w.reserve() },
			"again":       func(t *rapid.T) { w.t = t; w.reserve() },
			"unreserve":   func(t *rapid.T) { w.t = t; w.c.Unreserve(w.take()) },
			"all": func(t *rapid.T) {
				for _, work := range w.works {
					w.c.Unreserve(work)
				}
				w.works = nil
			},
			"": func(t *rapid.T) {
				if len(w.works) > 0 {
					return
				}
				if got, want := contents(w.c), contents(fresh(w.c)); !cmp.Equal(got, want) {
					t.Fatalf("what is left (-want +got):\n%s", cmp.Diff(want, got))
				}
				if n := len(w.c.view.nodes) + len(w.c.view.waiting) + len(w.c.view.pods); n > 0 {
					t.Fatalf("the view of the API still lists %d entries, want none", n)
				}
			},
		})
	})
}

// A node's local volume is found among ten thousand without looking at the others.
func BenchmarkReserveLocalVolume(b *testing.B) {
	c := New(&registry{})
	c.Set(words{"provisioner": storage.NoProvisioner, "wait": ""}.class("local"))
	for i := range 10_000 {
		c.Set(words{"class": "local", "size": "10Gi", "node": fmt.Sprint("n", i)}.volume(fmt.Sprint("v", i)))
	}
	c.Set(words{"class": "local", "size": "5Gi"}.claim("c"))
	pod := podOf("p", []string{"c"})
	node := words{}.object("node", "n7777").(*v1.Node)
	b.ReportAllocs()
	for b.Loop() {
		w, err := c.Reserve(pod, node)
		if err != nil {
			b.Fatal(err)
		}
		c.Unreserve(w)
	}
}

func BenchmarkReserveWithoutClaims(b *testing.B) {
	c := New(&registry{})
	pod, node := podOf("p", []string{"empty", "empty", "empty"}), &v1.Node{}
	b.ReportAllocs()
	for b.Loop() {
		if w, err := c.Reserve(pod, node); w != nil || err != nil {
			b.Fatal(w, err)
		}
	}
}
