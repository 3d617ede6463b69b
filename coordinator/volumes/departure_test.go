package volumes

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/storage"
)

// departures is what was told of each pod.
type departures map[types.UID]string

// check holds each pod's Departure against a count from scratch without the pod, and what
// was told against what is.
func (d departures) check(t interface{ Fatalf(string, ...any) }, c *Cache, pods map[*v1.Pod]string, attachments map[string]words, asked set[compile.Attachment]) {
	known := map[types.UID]*v1.Pod{}
	for p := range pods {
		known[p.UID] = p
	}
	for _, uid := range c.TakeRetold() {
		if p := known[uid]; p != nil {
			d[uid] = fmt.Sprint(c.Departure(p))
		}
	}
	checkNames(t, c, pods)
	maps.DeleteFunc(d, func(uid types.UID, _ string) bool { return known[uid] == nil })
	all := recount(c, pods, attachments, asked)
	for p, node := range pods {
		leaving, shared := c.Departure(p)
		if told, is := d[p.UID], fmt.Sprint(leaving, shared); told != is && (told != "" || len(leaving)+len(shared) > 0) {
			t.Fatalf("pod %s: told %s, want %s", p.Name, told, is)
		}
		others := maps.Clone(pods)
		delete(others, p)
		want := values{}
		for id, v := range all[node] {
			if fall := v - recount(c, others, attachments, asked)[node][id]; fall != 0 {
				want[node] = lazily(want[node])
				want[node][id] = fall
			}
		}
		got := values{}
		got.add(node, leaving)
		for _, s := range shared {
			last := true
			for other, at := range others {
				_, theirs := c.Departure(other)
				for _, x := range theirs {
					last = last && !(at == node && x.Counter == s.Counter && x.Token == s.Token)
				}
			}
			if last {
				got[node] = lazily(got[node])
				got[node][s.Counter]++
			}
		}
		if !cmp.Equal(got, want) {
			t.Fatalf("pod %s leaves %s (-want +got):\n%s", p.Name, node, cmp.Diff(want, got))
		}
	}
}

// checkNames holds NamespacesOf against the pods.
func checkNames(t interface{ Fatalf(string, ...any) }, c *Cache, pods map[*v1.Pod]string) {
	want := map[string][]string{}
	for p := range pods {
		for _, key := range (&podUse{pod: p, volumes: compile.DistinctVolumes(p)}).claims() {
			if !slices.Contains(want[key.name], key.namespace) {
				want[key.name] = append(want[key.name], key.namespace)
			}
		}
	}
	for name, list := range want {
		if slices.Sort(list); !slices.Equal(c.NamespacesOf(name), list) {
			t.Fatalf("claims %s: got namespaces %v, want %v", name, c.NamespacesOf(name), list)
		}
	}
	if len(c.usage.naming) != len(want) {
		t.Fatalf("got names %v, want %v", c.usage.naming, want)
	}
}

func lazily(m map[uint32]int64) map[uint32]int64 {
	if m == nil {
		m = map[uint32]int64{}
	}
	return m
}

// Pods that share a volume depart with it together, unless the node has it attached.
func TestDepartureOfASharedVolume(t *testing.T) {
	c := New(&registry{})
	c.Set(words{"class": "s", "csi": "drv/h", "phase": "Bound", "ref": "c"}.volume("v"))
	c.Set(words{"class": "s", "volume": "v", "complete": ""}.claim("c"))
	a, b := podOf("a", []string{"c"}), podOf("b", []string{"c"})
	a.UID, b.UID = "a", "b"
	c.PodAdded("n", a)
	c.PodAdded("n", b)
	_, ofA := c.Departure(a)
	_, ofB := c.Departure(b)
	if len(ofA) != 1 || len(ofB) != 1 || ofA[0].Token != ofB[0].Token || ofA[0].Counter != c.AttachedCounter("drv") {
		t.Fatalf("got %v and %v, want the same attached volume", ofA, ofB)
	}
	if got := c.TakeRetold(); !slices.Equal(got, []types.UID{"a", "b"}) {
		t.Errorf("got %v to retell, want both", got)
	}
	c.UseCounter(compile.Attachment{Driver: "drv", Handle: "h"})
	if leaving, _ := c.Departure(a); len(leaving) != 1 || len(c.TakeRetold()) != 2 {
		t.Errorf("once its uses are counted: got %v, want one use", leaving)
	}
	c.Set(words{"node": "n", "attacher": "drv", "volume": "v"}.object("attachment", "x"))
	if _, ofA := c.Departure(a); len(ofA) > 0 || len(c.TakeRetold()) != 2 {
		t.Errorf("with a VolumeAttachment: got %v, want nothing in common", ofA)
	}
}

// shared is a cache with a volume and its claim, which pods use that are each on a node of their own and mount it so often.
func shared(pods, mounts int) *Cache {
	c := New(&registry{})
	c.Set(words{"class": "s", "csi": "drv/h", "phase": "Bound", "ref": "c"}.volume("v"))
	c.Set(words{"class": "s", "volume": "v", "complete": ""}.claim("c"))
	for i := range pods {
		p := podOf(fmt.Sprint(i), slices.Repeat([]string{"c"}, mounts))
		p.UID = types.UID(p.Name)
		c.PodAdded(p.Name, p)
	}
	return c
}

// A claim's events cost as much as there are pods that use it, however often they mount it, and nothing where they change
// what nobody looks at.
func TestAClaimIsCountedOnceForEachPod(t *testing.T) {
	c := shared(20, 300)
	for _, p := range c.usage.pods {
		if len(p.attachments) != 1 {
			t.Fatalf("a pod that mounts one claim 300 times has %d attachments, want 1", len(p.attachments))
		}
	}
	c.TakeRetold()
	version := c.Version()
	idle := c.Claim("default", "c").DeepCopy()
	metav1.SetMetaDataAnnotation(&idle.ObjectMeta, "mood", "new")
	if allocs := testing.AllocsPerRun(100, func() { c.Set(idle) }); allocs > 20 || c.Version() != version || c.Claim("default", "c") != idle {
		t.Errorf("an annotation that nobody reads: %v allocations, version moved by %d, want at most 20 and 0", allocs, c.Version()-version)
	}
	c.Set(words{"class": "s", "volume": "other", "complete": ""}.claim("c"))
	if got := c.TakeRetold(); len(got) != 20 || c.Version() == version {
		t.Errorf("another volume: got %d pods to retell, and version moved by %d", len(got), c.Version()-version)
	}
}

// What the rules read of a claim moves the version.
func TestAClaimThatReadsOtherwise(t *testing.T) {
	for name, change := range map[string]func(*v1.PersistentVolumeClaim){
		"volume":        func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "other" },
		"class":         func(c *v1.PersistentVolumeClaim) { c.Annotations[v1.BetaStorageClassAnnotation] = "" },
		"selected node": func(c *v1.PersistentVolumeClaim) { c.Annotations[storage.AnnSelectedNode] = "" },
		"not complete":  func(c *v1.PersistentVolumeClaim) { delete(c.Annotations, storage.AnnBindCompleted) },
		"lost":          func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimLost },
		"leaving":       func(c *v1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} },
		"another":       func(c *v1.PersistentVolumeClaim) { c.UID = "another" },
		"owner":         func(c *v1.PersistentVolumeClaim) { c.OwnerReferences = []metav1.OwnerReference{{UID: "u"}} },
		"access": func(c *v1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		},
	} {
		c := shared(1, 1)
		now, version := c.Claim("default", "c").DeepCopy(), c.Version()
		if change(now); now.Annotations == nil {
			t.Fatalf("%s: no annotations", name)
		}
		if c.Set(now); c.Version() == version {
			t.Errorf("%s: the version stands still", name)
		}
	}
}

// A volume is looked up by node: what one node's uses or VolumeAttachments change is no matter of the pods elsewhere.
func TestUsersOfAVolumeAreFoundByNode(t *testing.T) {
	c := shared(50, 1)
	c.TakeRetold()
	for node, h := range c.usage.attached[compile.Attachment{Driver: "drv", Handle: "h"}].on {
		if len(h.users) != 1 {
			t.Fatalf("node %s: looks at %d pods, want its own alone", node, len(h.users))
		}
	}
	c.Set(words{"node": "7", "attacher": "drv", "volume": "v"}.object("attachment", "x"))
	if got := c.TakeRetold(); !slices.Equal(got, []types.UID{"7"}) {
		t.Errorf("a VolumeAttachment on node 7: got %v to retell, want its pod", got)
	}
	c.UseCounter(compile.Attachment{Driver: "drv", Handle: "h"})
	if got := c.TakeRetold(); len(got) != 50 {
		t.Errorf("once its uses are counted: got %d pods to retell, want 50", len(got))
	}
}
