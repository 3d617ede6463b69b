package aside

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// fixture is an Aside over a queue of pods, with a clock that stands.
type fixture struct {
	*Aside
	now     time.Time
	decided uint64
}

func newFixture(pods int) (*fixture, []*queue.Pod) {
	f := &fixture{now: time.Unix(1e9, 0)}
	clock := func() time.Time { return f.now }
	q := queue.New(queue.Config{Now: clock})
	eval := scorer.NewEvaluator(nil)
	f.Aside = New(Config{
		State: state.New(1), Queue: q, Evaluator: func() *scorer.Evaluator { return eval }, Now: clock,
		Over: func(took, most time.Duration) bool { return took > most }, Decided: func() uint64 { return f.decided },
	})
	for i := range pods {
		q.Add(build.Pod(fmt.Sprint(i)).UID(fmt.Sprint(i)).Namespace(fmt.Sprint(i)).Obj())
	}
	return f, q.PopBatch(pods, nil)
}

func class(id uint64) *compile.Class { return &compile.Class{Query: &pb.Query{ClassId: id}} }

// Batches of pods that wait for devices take turns with those of others, and the same class goes on until something of it is decided.
func TestSlicesTakeTurnsWithOtherBatches(t *testing.T) {
	f, pods := newFixture(2)
	f.ForDevices(pods[0], class(1))
	f.ForDevices(pods[1], class(2))
	var got []string
	for turn := range 6 {
		list := f.Pop(9, nil)
		if len(list) == 0 {
			got = append(got, "others")
			continue
		}
		got = append(got, list[0].Obj.Name)
		if !f.IsSlice() {
			t.Errorf("turn %d: the batch is no slice", turn)
		}
		f.BeginSearching()
		if turn == 2 {
			f.decided++ // another pod of the class: it is the next namespace's turn
		}
		f.ForDevices(list[0], class(uint64(1+(list[0].Obj.Name[0]-'0'))))
	}
	if want := "[0 others 0 others 1 others]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// After a batch that has searched for long the loop rests, until its time is over; then the next slice may be popped.
func TestSearchingRests(t *testing.T) {
	f, pods := newFixture(1)
	begun := f.now
	f.BeginSearching()
	if !f.NoteUnfinished(1, scorer.ErrUnfinished) || f.NoteUnfinished(2, "a bug") {
		t.Error("a search that was stopped, and nothing else, leaves a class unfinished")
	}
	if !f.HasUnfinished(class(1)) || f.HasUnfinished(class(2)) {
		t.Error("not all is found for class 1 alone")
	}
	f.now = f.now.Add(10 * time.Millisecond)
	f.EndSearching(begun)
	f.ForDevices(pods[0], class(1))
	rest := searchRest * 10 * time.Millisecond
	if d, any := f.Until(); !any || d != rest || f.MayGoOn() || len(f.Pop(9, nil)) > 0 {
		t.Errorf("the loop may wait for %v (%v), want %v and no slice", d, any, rest)
	}
	f.now = f.now.Add(rest)
	if list := f.Pop(9, nil); len(list) != 1 || !f.IsSlice() {
		t.Errorf("after its rest: popped %d pods, want the slice of one", len(list))
	}
}
