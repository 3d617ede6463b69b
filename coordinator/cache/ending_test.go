package cache

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// The pods that end first are those that say so, as they and their nodes are now.
func TestPodsThatEndFirst(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	listed := 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		c := New(2)
		for i := range 3 {
			if _, err := c.SetNode(build.Node(fmt.Sprint("n-", i)).CPU("64").Pods("500").Obj()); err != nil {
				t.Fatal(err)
			}
		}
		there := map[types.UID]*v1.Pod{}
		for step := range 400 {
			uid := types.UID(fmt.Sprint("p-", rng.IntN(60)))
			switch rng.IntN(20) {
			case 0:
				if _, err := c.RemoveNode("n-2"); err != nil {
					t.Fatal(err)
				}
			case 1:
				if _, err := c.SetNode(build.Node(fmt.Sprint("n-", 2+rng.IntN(2))).CPU("64").Pods("500").Obj()); err != nil {
					t.Fatal(err)
				}
			}
			if rng.IntN(4) == 0 {
				delete(there, uid)
				if _, _, err := c.RemovePod(uid); err != nil {
					t.Fatal(err)
				}
			} else {
				p := build.Pod(string(uid)).UID(string(uid)).CPU(fmt.Sprint(1 + rng.IntN(2))).Node(fmt.Sprint("n-", rng.IntN(4))).Obj()
				if was := there[uid]; was != nil && rng.IntN(2) == 0 {
					p.Spec.NodeName = was.Spec.NodeName
				}
				if rng.IntN(4) > 0 {
					p.Spec.ActiveDeadlineSeconds = new(int64(rng.IntN(1000)))
				}
				if rng.IntN(10) == 0 {
					p.Spec.ActiveDeadlineSeconds = new([]int64{-1 << 62, longestKept, longestKept + 1, 1 << 62}[rng.IntN(4)])
				}
				if rng.IntN(2) == 0 {
					p.Status.StartTime = &metav1.Time{Time: begin.Add(time.Duration(rng.IntN(500)) * time.Second)}
				}
				if rng.IntN(5) == 0 {
					p.DeletionTimestamp = &metav1.Time{Time: begin.Add(time.Duration(rng.IntN(1500)) * time.Second)}
				}
				there[uid] = p
				if _, err := c.SetPod(p); err != nil {
					t.Fatal(err)
				}
			}
			if step%20 != 0 {
				continue
			}
			now := begin.Add(time.Duration(step) * time.Second)
			var want []string
			for _, p := range there {
				var at []time.Time
				if d := p.Spec.ActiveDeadlineSeconds; d != nil && *d <= longestKept {
					from := now.Truncate(time.Minute)
					if s := p.Status.StartTime; s != nil {
						from = s.Time
					}
					at = append(at, from.Add(time.Duration(max(*d, 0))*time.Second).Truncate(time.Minute))
				}
				if p.DeletionTimestamp != nil {
					at = append(at, time.Unix(0, 0))
				}
				if len(at) > 0 && c.Node(p.Spec.NodeName) != nil {
					want = append(want, fmt.Sprint(slices.MinFunc(at, time.Time.Compare).Unix(), p.Spec.NodeName, p.Spec.Containers[0].Resources.Requests.Cpu().Value()))
				}
			}
			listed += len(want)
			var got []string
			all := c.FirstToEnd(now, 100)
			for _, e := range all {
				got = append(got, fmt.Sprint(e.At.Unix(), c.Table(int(e.Shard)).Name(e.Index), e.Usage.GetRequests().GetMilliCpu()/1000))
			}
			if !slices.IsSortedFunc(all, func(a, b Ending) int { return cmp.Compare(a.At.Unix(), b.At.Unix()) }) {
				t.Fatalf("seed %d, step %d: got %v, want them by their end", seed, step, got)
			}
			slices.Sort(got)
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: got %v, want %v", seed, step, got, want)
			}
			if most := len(all) / 2; most > 0 {
				if few := c.FirstToEnd(now, most); len(few) > most || !slices.EqualFunc(few, all[:len(few)], func(a, b Ending) bool { return a.At.Equal(b.At) }) {
					t.Fatalf("seed %d, step %d: got %v, want %d at the most of %v", seed, step, few, most, all)
				}
			}
		}
		for uid := range there {
			if _, _, err := c.RemovePod(uid); err != nil {
				t.Fatal(err)
			}
		}
		if len(c.endings) > 0 {
			t.Fatalf("seed %d: got %v of no pods", seed, c.endings)
		}
	}
	if listed == 0 {
		t.Error("no pod ended")
	}
}
