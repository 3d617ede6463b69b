package leader

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Without Kubernetes a PodGroup has its condition, too: before it is tried, once it has started, and no other after that.
func TestPodGroupsHaveConditionsInTheStore(t *testing.T) {
	f := newFleet(t)
	watch, stop := context.WithCancel(f.ctx)
	defer stop()
	conditions := make(chan metav1.Condition, 100)
	go func() {
		_ = store.New(f.own, "test").Watch(watch, 0, func(events []objects.Event) error {
			for i := range events {
				if g, ok := events[i].Object.(*v1alpha2.PodGroup); ok {
					if c := meta.FindStatusCondition(g.Status.Conditions, v1alpha2.PodGroupScheduled); c != nil {
						conditions <- *c
					}
				}
			}
			return nil
		})
	}()
	wants := func(status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		select {
		case c := <-conditions:
			if c.Status != status || c.Reason != reason || !strings.HasPrefix(c.Message, message) || c.LastTransitionTime.IsZero() {
				t.Errorf("got condition %+v, want %s, %s: %s…", c, status, reason, message)
			}
		case <-f.ctx.Done():
			t.Fatalf("no condition, want %s, %s", status, reason)
		}
	}
	a := f.join("a")
	a.waitTerm(true)
	a.apply(someNodes(1, "2")...)
	gang := build.Gang("g", 2).Obj()
	gang.UID = ""
	member := func(name string) objects.Object { return build.Pod(name).UID("").CPU("1").Member("g").Obj() }
	a.apply(gang, member("p0"))
	wants(metav1.ConditionFalse, "SchedulingGated", "waiting for minCount pods from a gang to appear in scheduling queue: 1 of 2 needed exist")
	a.apply(member("p1"))
	wants(metav1.ConditionTrue, "Scheduled", "")
	a.apply(member("p2")) // finds no room
	select {
	case c := <-conditions:
		t.Errorf("got condition %+v of a gang that runs", c)
	case <-time.After(10 * tellEvery): // whoever writes has had the time to
	}
}
