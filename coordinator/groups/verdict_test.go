package groups

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var at = time.Date(2026, 11, 28, 13, 5, 9, 0, time.UTC)

func TestLine(t *testing.T) {
	for name, c := range map[string]struct {
		verdict Verdict
		want    string
	}{
		"fewer exist than are needed": {
			Verdict{State: Gated, Base: "waiting for minCount pods from a gang to appear in scheduling queue", Exist: 14, Need: 16, Since: at},
			"waiting for minCount pods from a gang to appear in scheduling queue: 14 of 16 needed exist; waits for 2 more pods; " +
				"since 2026-11-28T13:05:09Z",
		},
		"there is no PodGroup": {
			Verdict{State: Gated, Base: `waiting for pods's pod group "a" to appear in scheduling queue`, Exist: 1, Waits: "PodGroup a"},
			`waiting for pods's pod group "a" to appear in scheduling queue: 1 exist; waits for PodGroup a`,
		},
		"not tried yet": {
			Verdict{State: Waiting, Exist: 16, Need: 16, Since: at},
			"pod group is not tried yet: 16 of 16 needed exist; waits for its turn; since 2026-11-28T13:05:09Z",
		},
		"too few fit, in domains": {
			Verdict{State: Unschedulable, Exist: 16, Need: 16, Fit: 8, Domain: "rack=r7", DomainFits: 8, Nodes: 512, Since: at,
				Reasons: map[string]int{"Insufficient nvidia.com/gpu": 300, "node(s) didn't match Pod's node affinity/selector": 212}},
			"pod group is unschedulable: 8 of 16 needed fit (16 exist); best domain rack=r7 fits 8; 512 nodes: 300 Insufficient nvidia.com/gpu, " +
				"212 node(s) didn't match Pod's node affinity/selector; waits for room for 8 more in rack=r7; since 2026-11-28T13:05:09Z",
		},
		"some run, more than five reasons": {
			Verdict{State: Unschedulable, Exist: 4, Need: 4, Scheduled: 3, Fit: 3, Nodes: 8,
				Reasons: map[string]int{"a": 1, "b": 2, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}},
			"pod group is unschedulable: 3 of 4 needed fit (4 exist, 3 have nodes); 8 nodes: 2 b, 1 a, 1 c, 1 d, 1 e, 2 more reasons; " +
				"waits for room for 1 more",
		},
		"basic, nothing fits": {
			Verdict{State: Unschedulable, Exist: 3, Nodes: 1, Reasons: map[string]int{"Insufficient cpu": 1}},
			"pod group is unschedulable: 0 fit (3 exist); 1 node: 1 Insufficient cpu; waits for room for 1 more",
		},
		"preempting": {
			Verdict{State: Preempting, Exist: 2, Need: 2, Fit: 1, Waits: "preemption of 3 pods"},
			"pod group is unschedulable, pod group is waiting for preemption to complete: 1 of 2 needed fit (2 exist); " +
				"waits for preemption of 3 pods",
		},
		"an error of several lines": {
			Verdict{State: Failed, Base: "failed to schedule other pod from a pod group: a\nb", Exist: 2, Need: 2},
			"failed to schedule other pod from a pod group: a b: 0 of 2 needed fit (2 exist)",
		},
		"given up": {
			Verdict{State: GivenUp, Exist: 2, Need: 2, Fit: 1, Since: at},
			"pod group is given up: 1 of 2 needed fit (2 exist); since 2026-11-28T13:05:09Z",
		},
		"scheduled": {
			Verdict{State: Scheduled, Exist: 3, Need: 2, Scheduled: 2, Fit: 2, Domain: "rack=r7", DomainFits: 2, Waits: "nothing",
				Nodes: 4, Reasons: map[string]int{"Insufficient cpu": 4}},
			"pod group is scheduled: 2 of 2 needed have nodes (3 exist)",
		},
		"scheduled, and a late member waits": {
			Verdict{State: Scheduled, Base: "pod group is unschedulable", Exist: 3, Need: 2, Scheduled: 2, Fit: 2, Domain: "rack=r7", DomainFits: 2,
				Waits: "preemption of 1 pods", Nodes: 4, Reasons: map[string]int{"Insufficient cpu": 4}},
			"pod group is scheduled: 2 of 2 needed have nodes (3 exist); others wait: pod group is unschedulable; best domain rack=r7 fits 2; " +
				"4 nodes: 4 Insufficient cpu; waits for preemption of 1 pods",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.verdict.Line(); got != c.want {
				t.Errorf("the line is\n%s\nand not\n%s", got, c.want)
			}
		})
	}
}

// Whatever is written in names, labels and errors, a verdict is one line, of a length that an event's note has room for.
func TestLineIsBounded(t *testing.T) {
	long := strings.Repeat("é\n\u2028", 100_000)
	v := Verdict{
		State: Unschedulable, Exist: math.MaxInt32, Need: math.MaxInt32, Scheduled: 1, Fit: math.MaxInt32 - 1, Domain: long, DomainFits: 7,
		Nodes: math.MaxInt32, Reasons: map[string]int{}, Waits: long, Base: long, Since: at,
	}
	for i := range 1000 {
		v.Reasons[fmt.Sprint(i, long)] = math.MaxInt32
	}
	got := v.Line()
	if len(got) > 1000 || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\u2028") {
		t.Errorf("a line of %d bytes: %q", len(got), got)
	}
	for _, want := range []string{"of 2147483647 needed fit", "fits 7", "2147483647 nodes: ", "; waits for ", "; since 2026-11-28T13:05:09Z"} {
		if !strings.Contains(got, want) {
			t.Errorf("the line lacks %q: %s", want, got)
		}
	}
}

func TestFollow(t *testing.T) {
	first := &Verdict{State: Unschedulable, Exist: 16, Need: 16, Fit: 8, Nodes: 10, Reasons: map[string]int{"a": 10}}
	if !first.Follow(nil, at) || first.Since != at {
		t.Errorf("the first verdict stands since %v", first.Since)
	}
	same := &Verdict{State: Unschedulable, Exist: 17, Need: 16, Fit: 8, Nodes: 11, Reasons: map[string]int{"a": 11}}
	if same.Follow(first, at.Add(time.Minute)) || same.Since != at {
		t.Errorf("other numbers of nodes are a change, since %v", same.Since)
	}
	other := &Verdict{State: Unschedulable, Exist: 16, Need: 16, Fit: 9}
	if !other.Follow(same, at.Add(time.Minute)) || other.Since != at.Add(time.Minute) {
		t.Errorf("another number of members that fit is no change, since %v", other.Since)
	}
}

func TestBeside(t *testing.T) {
	for m, want := range map[MemberState][2]string{
		DoesNotFit: {"0/5 nodes are available: 5 Insufficient cpu. Member of pod group g: does not fit.", "odd; member of pod group g: does not fit"},
		HeldBack:   {"0/5 nodes are available: 5 Insufficient cpu. Member of pod group g: held back by mates.", "odd; member of pod group g: held back by mates"},
		NotTried:   {"0/5 nodes are available: 5 Insufficient cpu. Member of pod group g: not tried.", "odd; member of pod group g: not tried"},
		Fits:       {"0/5 nodes are available: 5 Insufficient cpu.", "odd"},
	} {
		if got := [2]string{m.Beside("0/5 nodes are available: 5 Insufficient cpu.", "g"), m.Beside("odd", "g")}; got != want {
			t.Errorf("a member that is %v is told %q", m, got)
		}
	}
}
