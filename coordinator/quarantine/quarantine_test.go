package quarantine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

var errBug = errors.New("a bug")

// A suspect is released once its time is over, and no other with it.
func TestASuspectIsReleasedInTime(t *testing.T) {
	now := time.Unix(0, 0)
	s := NewSuspects(func() time.Time { return now })
	class, pod := Suspect{Class: 1}, Suspect{Pod: "p"}
	err := s.Add(class, errBug)
	now = now.Add(Time - 1)
	s.Add(pod, errBug)
	if why := s.Why(class); !errors.Is(why, errBug) || why != err {
		t.Errorf("within its time: got %v, want %v", why, err)
	}
	now = now.Add(1)
	if why := s.Why(class); why != nil || s.Len() != 1 {
		t.Errorf("after its time: got %v and %d suspects, want none and the pod alone", why, s.Len())
	}
	if s.Why(pod) == nil {
		t.Error("the pod is released, want it held for its own time")
	}
}

// There are never more suspects than the bound.
func TestSuspectsAreBounded(t *testing.T) {
	s := NewSuspects(func() time.Time { return time.Unix(0, 0) })
	most := 0
	for i := range MaxSuspects + 10 {
		s.Add(Suspect{Pod: types.UID(fmt.Sprint(i))}, errBug)
		most = max(most, s.Len())
	}
	if most != MaxSuspects || s.Len() != 10 {
		t.Errorf("got %d at the most and %d in the end, want %d and 10", most, s.Len(), MaxSuspects)
	}
}

// A node stays out for its own sake, its CSINode's or a pod's on it, and is to be tried again when that ends.
func TestWhatKeepsANodeOut(t *testing.T) {
	node := build.Node("n").Obj()
	pod := build.Pod("p").UID("p").Node("n").Obj()
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	o := NewObjects()
	if o.KeepsOut(node) || len(o.Notes(pod)) != 0 {
		t.Error("an empty list keeps a node out, or tells of something")
	}
	if !o.Add(pod, errBug) || o.Add(pod, errBug) || o.Met() != 2 {
		t.Errorf("the same pod twice: want it to be new once, and met twice; got %d", o.Met())
	}
	if o.KeepsOut(node) {
		t.Error("a pod whose requests are known keeps its node out")
	}
	o.Unknown(pod)
	o.Add(csi, errBug)
	o.LeaveOut(node)
	o.Add(node, errBug)
	if notes := strings.Join(o.Notes(pod), "; "); !strings.Contains(notes, "could not be taken in as a whole: a bug") ||
		!strings.Contains(notes, "left out: 1, one of them n: a bug") {
		t.Errorf("notes: got %q, want those of the pod and the node", notes)
	}
	for _, c := range []struct {
		what      string
		end       func() (bool, string)
		ended     bool
		on        string
		keeps     bool
		leftOut   bool
		remaining []string
	}{
		{"the pod", func() (bool, string) { return o.End(pod) }, true, "n", true, true, []string{"CSINode", "Node"}},
		{"the pod again", func() (bool, string) { return o.End(pod) }, false, "", true, true, []string{"CSINode", "Node"}},
		{"the CSINode", func() (bool, string) { return o.End(csi) }, true, "n", false, true, []string{"Node"}},
		{"the node", func() (bool, string) { return o.End(node) }, true, "", false, false, nil},
	} {
		ended, on := c.end()
		var kinds []string
		for ref := range o.Why() {
			kinds = append(kinds, string(ref.Kind))
		}
		slices.Sort(kinds)
		if ended != c.ended || on != c.on || o.KeepsOut(node) != c.keeps || (o.LeftOut("n") != nil) != c.leftOut || !slices.Equal(kinds, c.remaining) {
			t.Errorf("%s ends: got %t on %q, keeps out %t, left out %v, %q in quarantine; want %+v",
				c.what, ended, on, o.KeepsOut(node), o.LeftOut("n") != nil, kinds, c)
		}
	}
}
