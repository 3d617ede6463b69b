package cache

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// termless is the part of Counters that is about pods' terms, for pods without.
type termless struct{}

func (termless) Carry(*v1.Pod) *count.Carried { return nil }
func (termless) Release(*count.Carried)       {}

// inUse counts pods with one counter, from the moment that it is in use.
type inUse struct {
	termless
	yes bool
}

func (c *inUse) Contributions(*v1.Pod) []*pb.CounterValue {
	if !c.yes {
		return nil
	}
	return []*pb.CounterValue{{Counter: 1, Value: 1}}
}

// A counter that comes into use while a pod is off its node does not count the pod, and
// counts it once when it is back; also where the pod's node is not there.
func TestCounterThatComesIntoUseMeanwhile(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"default"}} {
		c, counters := New(1), &inUse{}
		c.UseCounters(counters)
		if _, err := c.SetNode(build.Node("n").CPU("4").Obj()); err != nil {
			t.Fatal(err)
		}
		for _, p := range []*v1.Pod{build.Pod("a").Node("n").Obj(), build.Pod("b").Node("n").Obj(), build.Pod("c").Node("gone").Obj()} {
			if _, err := c.SetPod(p); err != nil {
				t.Fatal(err)
			}
		}
		value := func() int64 {
			row, _ := c.RowOf("n")
			return c.Table(0).Counter(1, row.Index)
		}
		var back []func() error
		for _, pod := range []string{"a", "c"} {
			put, err := c.Without(build.Pod(pod).Obj().UID)
			if err != nil {
				t.Fatal(err)
			}
			back = append(back, put)
		}
		counters.yes = true
		if err := c.FillCounters([]uint32{1}, namespaces == nil, namespaces); err != nil {
			t.Fatal(err)
		}
		if got := value(); got != 1 {
			t.Errorf("without the pod: got %d, want 1", got)
		}
		for _, put := range back {
			if err := put(); err != nil {
				t.Fatal(err)
			}
		}
		if got := value(); got != 2 {
			t.Errorf("with the pod: got %d, want 2", got)
		}
	}
}
