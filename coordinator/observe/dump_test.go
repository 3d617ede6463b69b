package observe

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/queue"
)

func TestDifference(t *testing.T) {
	for name, tc := range map[string]struct{ actual, cached, missed, redundant []string }{
		"none":             {[]string{"b", "a"}, []string{"a", "b"}, []string{}, []string{}},
		"one is missed":    {[]string{"c", "a", "b"}, []string{"b", "a"}, []string{"c"}, []string{}},
		"one is redundant": {[]string{"a"}, []string{"b", "a"}, []string{}, []string{"b"}},
		"both":             {[]string{"a", "c"}, []string{"b", "c", "d"}, []string{"a"}, []string{"b", "d"}},
		"nothing at all":   {nil, nil, []string{}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			missed, redundant := difference(tc.actual, tc.cached)
			if d := cmp.Diff([][]string{tc.missed, tc.redundant}, [][]string{missed, redundant}); d != "" {
				t.Errorf("missed and redundant (-want +got):\n%s", d)
			}
		})
	}
}

// many is a cluster of so many nodes, and a queue of so many pods.
type many struct {
	Cluster
	Queue
	nodes, pods int
}

func (m many) Dump() iter.Seq[cache.NodeDump] {
	return slices.Values(slices.Repeat([]cache.NodeDump{{Name: "n"}}, m.nodes))
}

func (m many) All() iter.Seq[*queue.Pod] {
	return slices.Values(slices.Repeat([]*queue.Pod{{Obj: &v1.Pod{}}}, m.pods))
}

func (m many) NominatedNodes() []string { return nil }
func (m many) Lens() map[string]int     { return nil }

// stepped are reads of a loop that does nothing else until it ends; turns counts its turns.
func stepped(turns *int, ends *bool) *Reads {
	var r *Reads
	await := func(ctx context.Context, done <-chan struct{}) error {
		for {
			select {
			case <-done:
				return nil
			default:
			}
			switch *turns++; {
			case *ends:
				r.End()
				return context.Canceled
			case ctx.Err() != nil:
				r.Next() // nobody waits any more
				return ctx.Err()
			}
			r.Next()
		}
	}
	r = NewReads(func(f func()) { f() }, await, NewBugs(NewMeters(nil, 1)))
	return r
}

// A dump of many nodes and pods is read in steps.
func TestDumpsAreTakenInSteps(t *testing.T) {
	turns, ends := 0, false
	m := many{nodes: 2*nodesAtOnce + 1, pods: 2*podsAtOnce + 1}
	d, err := Debugger{Reads: stepped(&turns, &ends), Cluster: m, Queue: m}.dump(t.Context())
	if err != nil || len(d.nodes) != m.nodes || len(d.pending) != m.pods {
		t.Errorf("got %d nodes, %d pods, %v; want %d, %d", len(d.nodes), len(d.pending), err, m.nodes, m.pods)
	}
	if want := 5; turns != want { // the third ends the nodes and begins with the pods
		t.Errorf("got %d turns, want %d", turns, want)
	}
}

// A read that nobody waits for, or that the loop's end cuts off, leaves nothing running.
func TestAReadThatIsCutOffEnds(t *testing.T) {
	for name, loopEnds := range map[string]bool{"nobody waits for it": false, "the loop ends": true} {
		t.Run(name, func(t *testing.T) {
			turns, ends, taken := 0, false, 0
			stopped, ended := false, false
			endless := func(yield func(int) bool) {
				defer func() { stopped = true }()
				for i := 0; yield(i); i++ {
				}
			}
			var w walk[int]
			ctx, leave := context.WithCancel(t.Context())
			err := stepped(&turns, &ends).Read(ctx, Read{End: func() { w.end(); ended = true }, Step: func() bool {
				if taken++; loopEnds {
					ends = true
				} else {
					leave()
				}
				return w.some(endless, 5, func(int) {})
			}})
			leave()
			if taken != 1 || !ended || !stopped || !errors.Is(err, context.Canceled) {
				t.Errorf("got %d steps, ended %v, stopped %v, %v; want 1, both, and that it was cancelled", taken, ended, stopped, err)
			}
		})
	}
}
