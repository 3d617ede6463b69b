package volumes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// values are counters by node and id, without zeros.
type values map[string]map[uint32]int64

func (v values) add(node string, list []*pb.CounterValue) {
	for _, x := range list {
		if v[node] == nil {
			v[node] = map[uint32]int64{}
		}
		if v[node][x.Counter] += x.Value; v[node][x.Counter] == 0 {
			delete(v[node], x.Counter)
		}
		if len(v[node]) == 0 {
			delete(v, node)
		}
	}
}

// recount counts anew what the pods and VolumeAttachments of each node add up to. asked are
// the volumes whose uses are counted.
func recount(c *Cache, pods map[*v1.Pod]string, attachments map[string]words, asked set[compile.Attachment]) values {
	all, uses := map[string]set[compile.Attachment]{}, map[string]map[compile.Attachment]int64{}
	attach := func(node string, as compile.Attachment) { link(all, node, as) }
	for pod, node := range pods {
		for _, as := range compile.Attachments(pod, c) {
			attach(node, as)
			if uses[node] == nil {
				uses[node] = map[compile.Attachment]int64{}
			}
			uses[node][as]++
		}
	}
	for _, w := range attachments {
		if pv := c.Volume(w["volume"]); pv != nil && pv.Spec.CSI != nil {
			attach(w["node"], compile.Attachment{Driver: w["attacher"], Handle: pv.Spec.CSI.VolumeHandle})
		}
	}
	out := values{}
	for node, list := range all {
		for as := range list {
			out.add(node, []*pb.CounterValue{{Counter: c.AttachedCounter(as.Driver), Value: 1}})
			if _, ok := asked[as]; ok && uses[node][as] > 0 {
				out.add(node, []*pb.CounterValue{{Counter: c.UseCounter(as), Value: uses[node][as]}})
			}
		}
	}
	return out
}

// answers is everything that a class may have read, as text.
func answers(c *Cache, asked set[compile.Attachment]) string {
	out := ""
	for i := range 4 {
		if pvc := c.Claim("default", fmt.Sprint("c", i)); pvc != nil {
			pvc = pvc.DeepCopy()
			pvc.ResourceVersion = "" // no rule reads it
			text, _ := json.Marshal(pvc)
			out += string(text)
		}
		out += fmt.Sprintf("%p %p;", c.Volume(fmt.Sprint("v", i)), c.StorageClass(fmt.Sprint("s", i)))
		for pv := range c.VolumesOf(fmt.Sprint("s", i)) {
			out += fmt.Sprintf(" %p", pv)
		}
	}
	for _, driver := range []string{"drv", "other"} {
		out += fmt.Sprintf(" %d", c.AttachedCounter(driver))
	}
	sorted := slices.SortedFunc(maps.Keys(asked), func(a, b compile.Attachment) int { return cmpText(a.Driver+a.Handle, b.Driver+b.Handle) })
	for _, as := range sorted {
		out += fmt.Sprintf(" %d", c.UseCounter(as))
	}
	return out
}

func cmpText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// drawn draws objects of a small reserveModel, in which names are used again and again.
type drawn struct{ t *rapid.T }

func (s drawn) name(prefix string) string {
	return prefix + rapid.SampledFrom([]string{"0", "1", "2", "3"}).Draw(s.t, prefix)
}

func (s drawn) maybe(w words, key string, value func() string) {
	if rapid.Bool().Draw(s.t, key) {
		w[key] = value()
	}
}

func (s drawn) word(options ...string) func() string {
	return func() string { return rapid.SampledFrom(options).Draw(s.t, "word") }
}

func (s drawn) size() string { return s.word("1Gi", "2Gi", "3Gi", "5Gi")() }

func (s drawn) claim() words {
	w := words{"class": s.name("s"), "size": s.size()}
	s.maybe(w, "volume", func() string { return s.name("v") })
	s.maybe(w, "complete", s.word(""))
	s.maybe(w, "owner", func() string { return "uid-" + s.name("p") })
	return w
}

func (s drawn) volume() words {
	w := words{"class": s.name("s"), "size": s.size()}
	if rapid.Bool().Draw(s.t, "in-tree") {
		w["ebs"] = s.word("vol-1", "vol-2")()
	} else {
		s.maybe(w, "csi", s.word("drv/h1", "drv/h2", "other/h1"))
	}
	s.maybe(w, "ref", func() string { return s.name("c") })
	s.maybe(w, "phase", s.word("Bound", "Failed"))
	return w
}

func (s drawn) class() words {
	w := words{"provisioner": s.word("drv", "other", "", "kubernetes.io/aws-ebs", "kubernetes.io/azure-file", storage.NoProvisioner)()}
	s.maybe(w, "wait", s.word(""))
	return w
}

func (s drawn) pod(name string) *v1.Pod {
	options := rapid.SampledFrom([]string{"c0", "c1", "c2", "c3", "own:x", "ebs:vol-1", "ebs:aws://bad", "empty"})
	return podOf(name, rapid.SliceOfN(options, 0, 4).Draw(s.t, "volumes"))
}

// Whatever comes and goes, in whatever order, the counters are what a count from scratch
// comes to, and the version moves where an answer does.
func TestCountersAreARecount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := New(&registry{}), drawn{t}
		got := values{}
		pods, attachments, asked := map[*v1.Pod]string{}, map[string]words{}, set[compile.Attachment]{}
		names, told := 0, departures{}
		set := func(kind, name string, w words) objects.Object {
			obj := w.object(kind, name)
			c.Set(obj)
			return obj
		}
		leave := func(pod *v1.Pod) {
			got.add(pods[pod], c.PodRemoved(pods[pod], pod))
			delete(pods, pod)
		}
		remove := func(t *rapid.T) {
			list := slices.SortedFunc(maps.Keys(pods), func(a, b *v1.Pod) int { return cmpText(a.Name, b.Name) })
			if len(list) > 0 {
				leave(rapid.SampledFrom(list).Draw(t, "pod"))
			}
		}
		version, before := c.Version(), answers(c, asked)
		t.Repeat(map[string]func(*rapid.T){
			"claim":       func(*rapid.T) { set("claim", s.claimName(), s.claim()) },
			"volume":      func(*rapid.T) { set("volume", s.name("v"), s.volume()) },
			"class":       func(*rapid.T) { set("class", s.name("s"), s.class()) },
			"lose claim":  func(*rapid.T) { c.Delete(words{}.object("claim", s.claimName())) },
			"lose volume": func(*rapid.T) { c.Delete(words{}.object("volume", s.name("v"))) },
			"lose class":  func(*rapid.T) { c.Delete(words{}.object("class", s.name("s"))) },
			"attach": func(*rapid.T) {
				n := s.name("a")
				attachments[n] = s.attachment()
				set("attachment", n, attachments[n])
			},
			"detach":       func(*rapid.T) { n := s.name("a"); delete(attachments, n); c.Delete(words{}.object("attachment", n)) },
			"remove a pod": remove,
			"add a pod": func(t *rapid.T) {
				names++
				pod, node := s.pod(fmt.Sprint("p", names%4)), s.name("n")
				pod.UID += "-"
				if names > 4 {
					pod.UID = "uid-p" // an ephemeral claim's owner, now and then
				}
				for other := range pods {
					if other.UID == pod.UID {
						leave(other) // one comes in its place
					}
				}
				pods[pod] = node
				list := c.PodAdded(node, pod)
				if !slices.IsSortedFunc(list, func(a, b *pb.CounterValue) int { return int(a.Counter) - int(b.Counter) }) {
					t.Fatalf("changes are not sorted: %v", list)
				}
				got.add(node, list)
			},
			"ask": func(t *rapid.T) {
				as := compile.Attachment{Driver: s.word("drv", "other", "ebs.csi.aws.com")(), Handle: s.word("h1", "h2", "vol-1", " default/c1")()}
				asked[as] = struct{}{}
				before = answers(c, asked)
			},
			"": func(t *rapid.T) {
				after := answers(c, asked)
				if after != before && c.Version() == version {
					t.Fatalf("version stays %d, answers were\n%s\nand are\n%s", version, before, after)
				}
				version, before = c.Version(), after
				for _, change := range c.TakeChanges() {
					got.add(change.Node, change.Counters)
				}
				if want := recount(c, pods, attachments, asked); !cmp.Equal(got, want) {
					t.Fatalf("counters (-want +got):\n%s", cmp.Diff(want, got))
				}
				told.check(t, c, pods, attachments, asked)
				u := &c.usage
				if n := len(u.attached) + len(u.pods) + len(u.claimsByVolume) + len(u.claimsByClass); len(pods)+len(attachments) == 0 && n > 0 {
					t.Fatalf("without a pod %d entries are left, want none", n)
				}
			},
		})
	})
}

func (s drawn) claimName() string { return s.word("c0", "c1", "c2", "c3", "p0-x", "p1-x", "p2-x")() }

func (s drawn) attachment() words {
	return words{"node": s.name("n"), "attacher": s.word("drv", "other")(), "volume": s.name("v")}
}

func BenchmarkPodAddedWithoutClaims(b *testing.B) {
	c := New(&registry{})
	pod := podOf("p", []string{"empty", "empty", "empty"})
	b.ReportAllocs()
	for b.Loop() {
		c.PodAdded("n", pod)
	}
}

func BenchmarkPodAddedAndRemoved(b *testing.B) {
	c := New(&registry{})
	c.Set(words{"class": "s", "csi": "drv/h", "phase": "Bound", "ref": "c"}.volume("v"))
	c.Set(words{"class": "s", "volume": "v", "complete": ""}.claim("c"))
	pod := podOf("p", []string{"c"})
	b.ReportAllocs()
	for b.Loop() {
		c.PodAdded("n", pod)
		c.PodRemoved("n", pod)
	}
}

// TestAClaimThatChangesLeavesOthersAlone has 20 pods share claims, and changes one of these: what that costs does not
// depend on how many others the pods have.
func TestAClaimThatChangesLeavesOthersAlone(t *testing.T) {
	cost := func(claims int) float64 {
		c := New(&registry{})
		c.Set(words{"provisioner": "drv"}.class("s"))
		for i := range claims {
			c.Set(words{"class": "s"}.claim(fmt.Sprint("c", i)))
		}
		for i := range 20 {
			var names []string
			for k := range claims {
				names = append(names, fmt.Sprint("c", k))
			}
			if got := c.PodAdded("n", podOf(fmt.Sprint("p", i), names)); i == 0 && (len(got) != 1 || got[0].Value != int64(claims)) {
				t.Fatalf("a pod of %d claims adds %v, want that many volumes of a driver", claims, got)
			}
		}
		c.TakeRetold()
		bound := false
		allocated := testing.AllocsPerRun(10, func() {
			if bound = !bound; bound {
				c.Set(words{"class": "s", "volume": "v", "complete": ""}.claim("c0"))
			} else {
				c.Set(words{"class": "s"}.claim("c0"))
			}
		})
		if got := len(c.TakeRetold()); got != 0 {
			t.Errorf("of %d claims one changed that attaches what it did: %d pods are told of, want none", claims, got)
		}
		return allocated
	}
	if few, many := cost(2), cost(500); many > 2*few {
		t.Errorf("got %v allocations where pods have 500 claims and %v where they have 2, want them alike", many, few)
	}
}
