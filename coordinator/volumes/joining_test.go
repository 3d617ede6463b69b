package volumes

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// simplyJoining is Joining by looking at each volume for each.
func simplyJoining(c *Cache, node string, pods []*v1.Pod, beside *v1.Pod, left []*v1.Pod) []*pb.CounterValue {
	var joining []compile.Attachment
	for _, p := range pods {
		for _, as := range compile.Attachments(p, c) {
			if !slices.Contains(joining, as) {
				joining = append(joining, as)
			}
		}
	}
	users := func(as compile.Attachment) (n int) {
		for _, p := range c.usage.pods {
			gone := slices.ContainsFunc(left, func(x *v1.Pod) bool { return x.UID == p.pod.UID })
			if p.node == node && !gone && slices.Contains(p.attachments, as) {
				n++
			}
		}
		return n
	}
	values := map[uint32]int64{}
	own := compile.Attachments(beside, c)
	for _, as := range joining {
		driver, a := c.usage.drivers[as.Driver], c.usage.attached[as]
		if a == nil || users(as) == 0 && a.on[node].attachments == 0 {
			values[driver]++
		}
		if a != nil && a.counter != 0 {
			values[a.counter]++
		} else if slices.Contains(own, as) {
			values[driver]--
		}
	}
	for _, as := range own {
		brings := slices.ContainsFunc(own, func(x compile.Attachment) bool {
			return x.Driver == as.Driver && !slices.Contains(joining, x) && users(x) == 0
		})
		if len(joining) > 0 && !brings {
			values[c.usage.drivers[as.Driver]] -= unlimited
		}
	}
	var out []*pb.CounterValue
	for id, v := range values {
		if v != 0 {
			out = append(out, &pb.CounterValue{Counter: id, Value: v})
		}
	}
	slices.SortFunc(out, func(a, b *pb.CounterValue) int { return int(a.Counter) - int(b.Counter) })
	return out
}

// attachable is a claim's volume.
func (c *Cache) attachable(driver, name string) {
	c.Set(words{"class": "s", "csi": driver + "/" + name, "phase": "Bound", "ref": name}.volume(name))
	c.Set(words{"class": "s", "volume": name, "complete": ""}.claim(name))
}

func TestJoiningIsWhatEachVolumeOfEachPodSays(t *testing.T) {
	told := 0
	rapid.Check(t, func(t *rapid.T) {
		c := New(&registry{})
		var names []string
		for i := range 8 {
			names = append(names, fmt.Sprint("v", i))
			c.attachable(fmt.Sprint("driver-", i%3), names[i])
		}
		draw := func(kind string, most int) (pods []*v1.Pod) {
			for i := range rapid.IntRange(0, most).Draw(t, kind) {
				pods = append(pods, podOf(fmt.Sprint(kind, i), rapid.SliceOfN(rapid.SampledFrom(names), 1, 5).Draw(t, "volumes")))
			}
			return pods
		}
		there, elsewhere, coming := draw("there", 4), draw("elsewhere", 2), draw("coming", 3)
		beside := podOf("beside", rapid.SliceOfN(rapid.SampledFrom(names), 0, 5).Draw(t, "beside"))
		for _, p := range there {
			c.PodAdded("n", p)
		}
		for _, p := range elsewhere {
			c.PodAdded("m", p)
		}
		for i, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 3).Draw(t, "attached") {
			c.Set(&storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("a", i)},
				Spec:       storagev1.VolumeAttachmentSpec{Attacher: "driver-1", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
			})
		}
		for _, p := range append(coming, beside) {
			c.CountDrivers(p)
		}
		for _, as := range compile.Attachments(beside, c) {
			if rapid.Bool().Draw(t, "counted") {
				c.UseCounter(as)
			}
		}
		left := append(there[:rapid.IntRange(0, len(there)).Draw(t, "left")], elsewhere...)
		got := c.Joining("n", coming, beside, left...)
		if d := cmp.Diff(simplyJoining(c, "n", coming, beside, left), got, protocmp.Transform()); d != "" {
			t.Fatalf("changes (-simply +got):\n%s", d)
		}
		told += len(got)
	})
	if told == 0 {
		t.Error("got no changes, want some")
	}
}

// A step for each pair of volumes, let alone for three of them, would take hours.
func TestJoiningOfManyVolumes(t *testing.T) {
	const n = 20000
	c := New(&registry{})
	var there, coming []string
	for i := range n {
		there, coming = append(there, fmt.Sprint("v", i)), append(coming, fmt.Sprint("w", i))
		c.attachable("one", there[i])
		c.attachable("one", coming[i])
	}
	first, second := podOf("first", there), podOf("second", coming)
	c.PodAdded("n", first)
	c.CountDrivers(second)
	got := c.Joining("n", []*v1.Pod{second}, podOf("beside", there))
	if want := int64(n - n*unlimited); len(got) != 1 || got[0].Value != want {
		t.Errorf("got %v, want %d", got, want)
	}
}
