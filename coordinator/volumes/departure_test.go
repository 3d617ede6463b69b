package volumes

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
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
		for _, key := range mountedClaims(p) {
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
