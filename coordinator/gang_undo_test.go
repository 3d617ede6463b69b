package coordinator

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A gang that is tried and undone leaves no trace: before each decision of a batch some of the pods that are still to be decided are
// tried as one pod group, and all decisions are those of pods that are decided one by one, without any try. The tables and what the
// workers are told are those from before the try.
func TestATryThatIsUndoneLeavesNoTrace(t *testing.T) {
	held := 0
	for name, draw := range map[string]func(*rapid.T) scene{
		"pods of few kinds":      drawScene,
		"more keys than groups":  drawSpread,
		"devices":                drawDevices,
		"neighbours":             func(t *rapid.T) scene { return drawCrowd(t, 0, false) },
		"claims, and nominated ": func(t *rapid.T) scene { return drawCrowd(t, 15, true) },
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := draw(t)
				x := newTrial(t, SchedulerConfig{
					Shards:    rapid.IntRange(1, 5).Draw(t, "shards"),
					BatchSize: rapid.SampledFrom([]int{2, 7, 64}).Draw(t, "batch"),
				}, rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "candidates"))
				defer x.fanout.Close()
				x.Load(s.load(), nil)
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "tries"), 9))
				for range 10000 {
					x.inbox.drain(never)
					pods := x.queue.PopBatch(x.cfg.BatchSize, nil)
					if len(pods) == 0 {
						break
					}
					held += x.decideTrying(t, r, pods)
				}
				checkOneByOne(t, s, x)
			})
		})
	}
	if held == 0 {
		t.Error("no try has held anything")
	}
}

// decideTrying decides a batch as scheduleAll, with tries in between that are undone. It returns how many rows were held.
func (x *trial) decideTrying(t *rapid.T, r *rand.Rand, pods []*queue.Pod) (held int) {
	ctx := quiet()
	x.answers.SetDeciding(true)
	defer x.answers.SetDeciding(false)
	x.aside.BeginSearching()
	defer x.aside.EndSearching(epoch)
	attempts, err := x.prepareAll(pods)
	if err == nil {
		err = x.keepUp(ctx)
	}
	if err == nil {
		err = x.ask(ctx, attempts)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range attempts {
		if n := r.IntN(len(attempts) - i + 1); n > 0 && r.IntN(3) > 0 {
			held += x.tryAndUndo(t, attempts[i:i+n])
		}
		if !x.queue.Turn(attempts[i].Pod) || !x.decide(ctx, &attempts[i]) || x.batch.size.invalid {
			x.giveBack(ctx, attempts[i:], nil)
			break
		}
	}
	x.batch.size.end()
	x.dispatch()
	x.leaveBehind()
	x.batch.forget()
	return held
}

// tryAndUndo tries pods as one pod group, and undoes it; then once more, with all counters in use that the try has brought into use.
func (x *trial) tryAndUndo(t *rapid.T, attempts []attempt) (held int) {
	ctx := quiet()
	for range 2 {
		before, counted, version := x.rowsAsTold(), x.counted(), x.batch.size.invalid
		o := x.tryGang(ctx, anyGang(len(attempts)), attempts, unasked)
		held += len(o.held)
		if o.broken != nil || o.invalid != version {
			t.Fatalf("a try ends in %v, and has rows made anew: %v", o.broken, o.invalid)
		}
		o.undo(ctx)
		if d := cmp.Diff(before, x.rowsAsTold()); d != "" {
			t.Fatalf("rows after a try of %d pods that was undone (-before +after):\n%s", len(attempts), d)
		}
		now := x.counted()
		for counter := range now {
			if _, was := counted[counter]; !was {
				delete(now, counter)
			}
		}
		if d := cmp.Diff(counted, now); d != "" {
			t.Fatalf("counters after a try of %d pods that was undone (-before +after):\n%s", len(attempts), d)
		}
	}
	return held
}

// rowsAsTold are what the tables' rows add up to, and the numbers of their pods, by node. What a pod would take along where it leaves may
// have been told anew: the try may have brought counters into use.
func (x *trial) rowsAsTold() map[string]string {
	out := map[string]string{}
	for i := range x.state.NumShards() {
		x.state.Table(i).Snapshot(func(row *pb.SnapshotRow) bool {
			var pods []uint64
			for _, p := range row.GetPods() {
				pods = append(pods, p.GetNumber())
			}
			out[row.GetNode().GetName()] = fmt.Sprint(row.GetTotals(), pods)
			return true
		})
	}
	return out
}

// anyGang is a gang of so many pods.
func anyGang(minCount int) *groups.Group {
	all := groups.New(groups.All())
	all.Set(gangOfMin("gang", minCount))
	return all.Get(types.NamespacedName{Namespace: v1.NamespaceDefault, Name: "gang"})
}

// gangOfMin is a PodGroup of which at least so many members start, or none.
func gangOfMin(name string, minCount int) *v1alpha2.PodGroup {
	return &v1alpha2.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name, UID: types.UID("group-" + name)},
		Spec: v1alpha2.PodGroupSpec{
			SchedulingPolicy: v1alpha2.PodGroupSchedulingPolicy{Gang: &v1alpha2.GangSchedulingPolicy{MinCount: int32(minCount)}},
		},
	}
}
