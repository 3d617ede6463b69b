package plugins

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// story is something that happens to some pods. Pods have names that no other story has.
type story struct {
	// name is a sentence.
	name string
	// happens ends when all has happened to the pods that is to happen.
	happens func(*side)
	// slots adds a node for each side, named as the story's pods begin, with so many slots (see
	// side.slot); empty: none.
	slots, node string
	// before is done before it happens to either.
	before func(*testing.T)
	// ends compares where pods are in the end, and nothing else.
	ends bool
	// without are the points whose calls may differ from run to run, later those whose calls may once a pod is tried again.
	without, later []string
	// nominees has calls count that come of nominated pods. A pod is one from PreBind on until the
	// scheduler has heard that it is bound: whether another sees it is up to chance.
	nominees bool
	// retries says that it is up to chance how often pods try again: calls of the first attempt
	// count, and what is not said of failures.
	retries bool
	// wants are lines that the outcome has at least, in this order.
	wants []string
}

// settle is how long what is seen of the two may differ: events come after the fact.
const settle = testbed.Patience

// tell has a story happen to both, and compares what can be seen.
func (p *pair) tell(t *testing.T, st story) {
	t.Run(st.name, func(t *testing.T) {
		if st.before != nil {
			st.before(t)
		}
		if st.slots != "" {
			for _, s := range []*side{p.theirs, p.ours} {
				n := build.Node(st.node+"-"+s.name).CPU("8").Memory("32Gi").Pods("100").Resource(s.slot(), st.slots).Obj()
				p.Create(n)
				t.Cleanup(func() { p.removeNode(n.Name) })
			}
		}
		var sides []*side
		t.Run("both", func(t *testing.T) {
			for _, of := range []*side{p.theirs, p.ours} {
				s := &side{name: of.name, run: of.run}
				sides = append(sides, s)
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					s.Cluster = &testbed.Cluster{Bed: p.Bed, T: t}
					if st.slots != "" {
						s.knows(st.node)
					}
					st.happens(s)
				})
			}
		})
		if !t.Failed() {
			p.compare(t, st, sides[0], sides[1])
		}
		for _, s := range sides {
			s.Cluster = &testbed.Cluster{Bed: p.Bed, T: t}
			s.clear()
		}
	})
}

// clear deletes the story's pods.
func (s *side) clear() {
	s.T.Helper()
	keys := make([]string, len(s.pods))
	for i, name := range s.pods {
		keys[i] = s.key(name)
	}
	s.Delete(keys...)
}

func (p *pair) compare(t *testing.T, st story, want, got *side) {
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	var a, b []string
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (same bool, err error) {
		if a, err = want.outcome(t.Context()); err != nil {
			return false, err
		}
		if b, err = got.outcome(t.Context()); err != nil {
			return false, err
		}
		a, b = st.cut(a), st.cut(b)
		return slices.Equal(a, b) && missing(a, st.wants) == "", nil
	})
	if err == nil {
		return
	}
	t.Errorf("theirs (<) and ours (>) differ:\n%s", strings.Join(difference(a, b), "\n"))
	if line := missing(a, st.wants); line != "" {
		t.Errorf("theirs: got\n%s\nwant a line %q after those before it", strings.Join(a, "\n"), line)
	}
}

// cut takes out what does not count.
func (st story) cut(lines []string) []string {
	attempts := map[string]int{}
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		pod, said, _ := strings.Cut(line, ": ")
		call, ok := strings.CutPrefix(said, "call: ")
		if !ok {
			return st.ends && !strings.HasPrefix(said, "pod: ") || st.retries && strings.Contains(said, "FailedScheduling")
		}
		if strings.HasPrefix(call, "PreFilter A ") {
			attempts[pod]++
		}
		// Whether a pod gets as far as to be put back once more is chance as well.
		late := attempts[pod] > 1 || point(call) == "PreEnqueue"
		nominee := point(call) == "AddPod" || point(call) == "Filter" && !strings.Contains(call, " adds 0:")
		return st.ends || slices.Contains(st.without, point(call)) || late && slices.Contains(st.later, point(call)) || nominee && !st.nominees || late && st.retries
	})
}

// missing is the first of the lines that is not there in its turn; empty: all are.
func missing(lines, wants []string) string {
	for _, line := range lines {
		if len(wants) > 0 && strings.HasPrefix(line, wants[0]) {
			wants = wants[1:]
		}
	}
	if len(wants) == 0 {
		return ""
	}
	return wants[0]
}

// difference shows the lines of both, those of one alone marked, as diff does.
func difference(a, b []string) (out []string) {
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, "  "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "< "+a[i])
			i++
		default:
			out = append(out, "> "+b[j])
			j++
		}
	}
	return around(out)
}

// around leaves out what is the same on both and far from what is not.
func around(lines []string) (out []string) {
	const context = 4
	for i, line := range lines {
		near := lines[max(0, i-context):min(len(lines), i+context+1)]
		if slices.ContainsFunc(near, func(line string) bool { return line[0] != ' ' }) {
			out = append(out, line)
		}
	}
	return out
}
