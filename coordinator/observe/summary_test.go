package observe

import "testing"

func TestWithoutCounts(t *testing.T) {
	for name, x := range map[string]struct{ message, want string }{
		"one reason":                    {"0/3 nodes are available: 3 Insufficient cpu.", "Insufficient cpu"},
		"sorted anew":                   {"0/9 nodes are available: 1 node(s) were unschedulable, 8 Insufficient cpu.", "Insufficient cpu, node(s) were unschedulable"},
		"the same once":                 {"0/9 nodes are available: 10 x, 2 x.", "x"},
		"a prefilter's, which has none": {"0/9 nodes are available: pod affinity terms conflict.", "pod affinity terms conflict"},
		"other numbers stay":            {"0/9 nodes are available: 3 too old, 4 of 5 gone.", "of 5 gone, too old"},
		"an error":                      {"bind pod a/b to n: changed meanwhile", "bind pod a/b to n: changed meanwhile"},
		"no node at all":                {"no nodes available to schedule pods", "no nodes available to schedule pods"},
		"not helped by preemption": {
			"0/40 nodes are available: 7 Insufficient memory, 40 Insufficient cpu. no new claims to deallocate, preemption: 0/40 nodes are available: " +
				"19 Preemption is not helpful for scheduling, 21 No preemption victims found for incoming pod.",
			"Insufficient cpu, Insufficient memory",
		},
		"not to be helped": {
			"0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
			"Insufficient cpu; preemption: not eligible due to preemptionPolicy=Never",
		},
		"no reason at all": {"0/9 nodes are available:", "nodes are refused without a reason"},
		"no reason, and no preemption": {
			"0/9 nodes are available: no new claims to deallocate, preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling.",
			"nodes are refused without a reason",
		},
		"nothing": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := withoutCounts(x.message); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

func TestDecilesOfUse(t *testing.T) {
	var u use
	for _, x := range [][2]int64{{100, 0}, {100, 9}, {100, 10}, {100, 55}, {100, 99}, {100, 100}, {100, 250}, {0, 0}, {0, 7}, {-5, 1}} {
		u.add(x[0], x[1])
	}
	want := use{allocatable: 700, requested: 523, deciles: [10]uint32{2, 1, 0, 0, 0, 1, 0, 0, 0, 3}}
	if u != want {
		t.Errorf("got %+v, want %+v", u, want)
	}
}
