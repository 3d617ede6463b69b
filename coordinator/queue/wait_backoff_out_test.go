package queue

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWaitBackoffOut: a pod that waits a backoff out is popped when that is over and no earlier, and the
// queue says when that is. Without, it is popped at once.
func TestWaitBackoffOut(t *testing.T) {
	for _, wait := range []bool{false, true} {
		now := time.Unix(1000, 0)
		q := newOf(Config{Now: func() time.Time { return now }, WaitBackoffOut: wait})
		q.Add(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}})
		p := popOne(t, q)
		q.Unschedulable(p, []string{"NodeUnschedulable"}, "cordoned")
		q.Move(NodeAdded(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
		if p.Place() != Backoff {
			t.Fatalf("after an event: want the pod in Backoff, got %v", p.Place())
		}
		early := len(q.PopBatch(1, nil)) == 1
		if early == wait {
			t.Errorf("waits its backoff out: %v; popped before it is over: %v", wait, early)
		}
		if !wait {
			continue
		}
		wake := q.NextWake()
		if !wake.After(now) {
			t.Errorf("wake: want a time after %s, got %s", now, wake)
		}
		now = wake
		if popped := q.PopBatch(1, nil); len(popped) != 1 {
			t.Errorf("after its backoff: want the pod, got %d", len(popped))
		}
	}
}
