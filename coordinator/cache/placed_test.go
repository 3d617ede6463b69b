package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// modelBudgets are those that the model's pods count against: by their names.
func modelBudgets(p *v1.Pod) []uint32 {
	switch len(p.Name) % 3 {
	case 0:
		return []uint32{1}
	case 1:
		return []uint32{1, 2 + uint32(len(p.Labels))}
	}
	return nil
}

// modelDepartures are those of the model's pods.
type modelDepartures struct{}

func (modelDepartures) Departure(p *v1.Pod, nodeName string) ([]*pb.CounterValue, []*pb.SharedCount) {
	if p.DeletionTimestamp == nil {
		return nil, nil
	}
	return []*pb.CounterValue{{Counter: 3, Value: 1}}, []*pb.SharedCount{{Counter: 4, Token: uint64(len(nodeName))}}
}

// checkPlaced holds the pods of the tables against the model's.
func (m *machine) checkPlaced(t *rapid.T) {
	numbers := map[types.UID]uint64{}
	for uid := range m.pods {
		numbers[uid] = m.c.pods[uid].number
		if object, node := m.c.PodNumbered(numbers[uid]); object != m.pods[uid].object || node != m.pods[uid].node {
			t.Fatalf("pod %s has number %d, which is %v on %s", uid, numbers[uid], object, node)
		}
	}
	for i := range m.c.NumShards() {
		m.c.Table(i).Snapshot(func(row *pb.SnapshotRow) bool {
			var want []*pb.PlacedPod
			for p := range m.c.PodsOn(row.Node.Name) {
				x := &pb.PlacedPod{
					Number: numbers[p.UID], Priority: compile.Priority(p), Budgets: modelBudgets(p), Usage: m.withoutOpen(m.c.Counted(p.UID), Row{uint32(i), row.Row}),
				}
				if p.Status.StartTime != nil {
					x.StartMicros = p.Status.StartTime.UnixMicro()
				}
				x.Leaving, x.Shared = modelDepartures{}.Departure(p, row.Node.Name)
				want = append(want, x)
			}
			byNumber := func(a, b *pb.PlacedPod) int { return int(int64(a.Number) - int64(b.Number)) }
			slices.SortFunc(want, byNumber)
			slices.SortFunc(row.Pods, byNumber)
			for _, x := range row.Pods {
				x.Usage = m.withoutOpen(x.Usage, Row{uint32(i), row.Row})
			}
			if d := cmp.Diff(want, row.Pods, protocmp.Transform()); d != "" {
				t.Fatalf("pods of %s (-cache +table):\n%s", row.Node.Name, d)
			}
			return true
		})
	}
}

// Start sees that a pod was started.
func (m *machine) Start(t *rapid.T) {
	uid := m.drawPod(t)
	p := m.pods[uid].object.DeepCopy()
	p.Spec.NodeName = m.pods[uid].node
	p.Status.StartTime = &metav1.Time{Time: time.UnixMicro(rapid.Int64Range(1, 1000).Draw(t, "start"))}
	var old *v1.Pod
	if !m.pods[uid].assumed {
		old = m.pods[uid].object
	}
	number := m.c.pods[uid].number
	m.set(t, p, old)
	if got := m.c.pods[uid].number; got != number {
		t.Fatalf("pod %s had number %d, and now %d", uid, number, got)
	}
}

func TestBudgetsOfPods(t *testing.T) {
	c := New(1)
	if _, err := c.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}, Spec: v1.PodSpec{NodeName: "n"}}
	if _, err := c.SetPod(p); err != nil {
		t.Fatal(err)
	}
	budgets := func() (out []uint32) {
		c.Table(0).Snapshot(func(row *pb.SnapshotRow) bool {
			out = row.Pods[0].Budgets
			return true
		})
		return out
	}
	before := c.Table(0).Generation()
	c.SetBudgets(func(*v1.Pod) []uint32 { return []uint32{3, 5} })
	for range 2 { // the second time nothing is new
		if err := c.Retell("p"); err != nil {
			t.Fatal(err)
		}
	}
	if got := budgets(); !slices.Equal(got, []uint32{3, 5}) || c.Table(0).Generation() != before+1 {
		t.Errorf("got budgets %v after %d deltas, want 3 and 5 after one", got, c.Table(0).Generation()-before)
	}
	if err := c.Retell("nobody"); err != nil {
		t.Errorf("a pod that is not known: %v", err)
	}
}

// lateDepartures know of pods that leave only once a counter is in use.
type lateDepartures struct{ inUse bool }

func (d *lateDepartures) Departure(p *v1.Pod, nodeName string) ([]*pb.CounterValue, []*pb.SharedCount) {
	if !d.inUse {
		return nil, nil
	}
	return modelDepartures{}.Departure(p, nodeName)
}

// A counter comes into use while a pod that is being deleted is there, and its node is not yet.
func TestDepartureOfAPodBeforeItsNode(t *testing.T) {
	c, d := New(1), &lateDepartures{}
	c.UseDepartures(d)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}, Spec: v1.PodSpec{NodeName: "n"}}
	if _, err := c.SetPod(p); err != nil {
		t.Fatal(err)
	}
	d.inUse = true
	if err := c.FillCounters([]uint32{3}, true, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	c.Table(0).Snapshot(func(row *pb.SnapshotRow) bool {
		if got := row.Pods[0].Leaving; len(got) != 1 || got[0].Counter != 3 {
			t.Errorf("what leaves with the pod: got %v, want counter 3", got)
		}
		return true
	})
}
