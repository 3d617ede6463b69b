package queue

import (
	"testing"
	"time"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

func newFixed() *Queue {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return newOf(Config{Now: func() time.Time { return now }})
}

// turns tells which of the popped pods have their turn.
func turns(q *Queue, popped []*Pod) (out []bool) {
	for _, p := range popped {
		out = append(out, q.Turn(p))
	}
	return out
}

func TestAPodThatCameSinceHasItsTurnFirst(t *testing.T) {
	q := newFixed()
	q.Add(build.Pod("low").Priority(1).Obj())
	popped := q.PopBatch(10, nil)
	if got := turns(q, popped); !got[0] {
		t.Fatalf("alone: got %v, want its turn", got)
	}
	q.Add(build.Pod("lower").Priority(0).Obj())
	if got := turns(q, popped); !got[0] {
		t.Errorf("a lower one came: got %v, want its turn", got)
	}
	q.Add(build.Pod("high").Priority(2).Obj())
	if got := turns(q, popped); got[0] {
		t.Errorf("a higher one came: got %v, want no turn", got)
	}
}

func TestAPodFromBackoffGoesBackThere(t *testing.T) {
	q := newFixed()
	q.Add(build.Pod("p").Obj())
	p := q.PopBatch(1, nil)[0]
	q.Unschedulable(p, []string{"NodeResourcesFit"}, "")
	q.Activate(p.Obj.UID)
	if p.place == Active {
		p = q.PopBatch(1, nil)[0]
		q.Unschedulable(p, []string{"NodeResourcesFit"}, "")
		q.Move(NodeAdded(build.Node("n").CPU("1").Obj()))
	}
	if p.place != Backoff {
		t.Fatalf("got the pod in %s, want it to back off", p.place)
	}
	popped := q.PopBatch(1, nil)
	q.Add(build.Pod("new").Obj())
	if got := turns(q, popped); got[0] {
		t.Errorf("an active one came: got %v, want no turn", got)
	}
	q.GiveBack(p)
	if p.place != Backoff {
		t.Errorf("given back: got %s, want backoff", p.place)
	}
}

// What happened before a pod's turn its attempt has seen; what comes after, it has not.
func TestEventsBeforeTheTurnDoNotCount(t *testing.T) {
	for _, before := range []bool{true, false} {
		q := newFixed()
		q.Add(build.Pod("p").Obj())
		p := q.PopBatch(1, nil)[0]
		event := func() { q.Move(NodeAdded(build.Node("n").CPU("1").Pods("10").Obj())) }
		if before {
			event()
		}
		q.Turn(p)
		if !before {
			event()
		}
		q.Unschedulable(p, []string{"NodeUnschedulable"}, "")
		if got, want := p.place == Unschedulable, before; got != want {
			t.Errorf("event before its turn %t: got the pod in %s", before, p.place)
		}
	}
}
