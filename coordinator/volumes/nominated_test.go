package volumes

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// What a nominated pod attaches leaves the limits of a pod alone whose volumes are there already:
// as long as those who use them are.
func TestJoiningOnceAPodHasLeft(t *testing.T) {
	c := New(&registry{})
	for driver, name := range map[string]string{"one": "v", "two": "w"} {
		c.Set(words{"class": "s", "csi": driver + "/h", "phase": "Bound", "ref": name}.volume(name))
		c.Set(words{"class": "s", "volume": name, "complete": ""}.claim(name))
	}
	there, coming, beside := podOf("there", []string{"v"}), podOf("coming", []string{"w"}), podOf("beside", []string{"v"})
	there.UID, coming.UID, beside.UID = "there", "coming", "beside"
	c.PodAdded("n", there)
	c.CountDrivers(coming)
	c.UseCounter(compile.Attachment{Driver: "one", Handle: "h"})
	c.TakeChanges()
	list := []*v1.Pod{coming}
	if !c.Attaches(list) || c.Attaches([]*v1.Pod{podOf("plain", nil)}) {
		t.Error("the nominated pod attaches a volume, one without claims does not")
	}
	for _, x := range []struct {
		when string
		left []*v1.Pod
		want map[string]int64
	}{
		{"with the pod that uses it", nil, map[string]int64{"one": -unlimited, "two": 1}},
		{"without", []*v1.Pod{there}, map[string]int64{"two": 1}},
		{"without another", []*v1.Pod{coming}, map[string]int64{"one": -unlimited, "two": 1}},
	} {
		got := c.Joining("n", list, beside, x.left...)
		if len(got) != len(x.want) {
			t.Errorf("%s: got %v, want %v", x.when, got, x.want)
		}
		for driver, want := range x.want {
			for _, v := range got {
				if v.Counter == c.AttachedCounter(driver) && v.Value != want {
					t.Errorf("%s: driver %s: got %d, want %d", x.when, driver, v.Value, want)
				}
			}
		}
	}
}
