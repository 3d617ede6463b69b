package observe

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// The ring against a list of everything.
func TestHistoryRemembersTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := NewHistory(nil)
		var all []*remembered
		gone := map[uint64]bool{} // decisions of pods that were forgotten
		for seq := uint64(1); seq <= uint64(rapid.IntRange(1, 60).Draw(t, "decisions")); seq++ {
			uid := fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "pod"))
			if rapid.IntRange(0, 9).Draw(t, "forget") == 0 {
				h.Forget(types.UID(uid))
				for i, r := range all {
					if r.PastDecision == nil {
						gone[uint64(i)] = true
					}
				}
				continue
			}
			r := &remembered{PastDecision: &pb.PastDecision{Decision: &pb.Decision{Seq: seq, Uid: uid}}}
			h.add(r)
			all = append(all, r)
			if rapid.Bool().Draw(t, "trace") {
				h.Traced(types.UID(uid), seq, fmt.Sprint("t", seq))
			}
			for len(h.ring)-h.head > 20 {
				h.evict()
			}
		}
		want := map[string][]uint64{}
		bytes := 0
		for i := len(all) - 1; i >= max(0, len(all)-(len(h.ring)-h.head)); i-- {
			if r := all[i]; !gone[uint64(i)] {
				want[r.Decision.Uid] = append(want[r.Decision.Uid], r.Decision.Seq)
				bytes += r.bytes
			}
		}
		if h.bytes != bytes || len(h.newest) != len(want) {
			t.Fatalf("got %d bytes of %d pods, want %d of %d", h.bytes, len(h.newest), bytes, len(want))
		}
		for uid, seqs := range want {
			past := h.Past(types.UID(uid))
			if len(past) != min(len(seqs), shownHistory) {
				t.Fatalf("pod %s: got %d decisions, want %v", uid, len(past), seqs)
			}
			for i, p := range past {
				if p.Decision.Seq != seqs[i] || p.TraceId != "" && p.TraceId != fmt.Sprint("t", seqs[i]) {
					t.Errorf("pod %s: got %v, want decision %d", uid, p, seqs[i])
				}
			}
			if got := h.Last(types.UID(uid)); got.Seq != seqs[0] {
				t.Errorf("pod %s: got last decision %d, want %d", uid, got.Seq, seqs[0])
			}
		}
	})
}

func TestHistoryIsBounded(t *testing.T) {
	h := NewHistory(nil)
	for seq := range uint64(2*maxRemembered + 7) {
		h.add(&remembered{PastDecision: &pb.PastDecision{Decision: &pb.Decision{Seq: seq, Uid: fmt.Sprint(seq % 1000)}}})
	}
	if got := len(h.ring) - h.head; got != maxRemembered || cap(h.ring) > 4*maxRemembered {
		t.Errorf("got %d decisions remembered, room for %d; want %d", got, cap(h.ring), maxRemembered)
	}
	long := string(make([]byte, 1<<20))
	for seq := range uint64(200) {
		h.add(&remembered{PastDecision: &pb.PastDecision{Decision: &pb.Decision{Seq: seq, Uid: "long", Message: long}}})
	}
	if h.bytes > maxRememberedBytes {
		t.Errorf("got %d bytes, want at most %d", h.bytes, maxRememberedBytes)
	}
}

func TestScoresAreSpelledOutForSome(t *testing.T) {
	h, now, got := NewHistory(nil), time.Unix(1, 0), 0
	for range 3 * scoresBurst {
		if h.affordScores(now) {
			got++
		}
	}
	if got != scoresBurst {
		t.Errorf("got %d at once, want %d", got, scoresBurst)
	}
	if !h.affordScores(now.Add(time.Second)) {
		t.Error("got none a second later, want one")
	}
}

func TestScoresThatTakeLongAreSpelledOutForFewer(t *testing.T) {
	h, now, got := NewHistory(nil), time.Unix(1, 0), 0
	for range 10 * scoresPerSecond {
		now = now.Add(time.Second / scoresPerSecond)
		if h.affordScores(now) {
			h.scoresTook(10 * scoresWorth)
			got++
		}
	}
	if want := (scoresBurst + 10*scoresPerSecond) / 10; got < want-2 || got > want+2 {
		t.Errorf("got %d in ten seconds that take ten times their worth, want about %d", got, want)
	}
	h.scoresTook(time.Hour)
	if !h.affordScores(now.Add(2 * time.Second)) {
		t.Error("two seconds after one that took an hour: got none, want one")
	}
}

func TestVictimsCountAmongWhatIsRemembered(t *testing.T) {
	few := &pb.PastDecision{Decision: &pb.Decision{}}
	many := &pb.PastDecision{Decision: &pb.Decision{Nominated: "n", Victims: []string{"a/b", "a/c"}}}
	if got := rememberedBytes(many) - rememberedBytes(few); got != 1+2*(16+3) {
		t.Errorf("got %d bytes more, want 39", got)
	}
}

// Pods that are gone can be told of for a while; of many the last.
func TestPodsThatAreGoneAreToldOfForAWhile(t *testing.T) {
	h, now := NewHistory(nil), time.Unix(1000, 0)
	gone := func(name string) *pb.ExplainResponse {
		return h.tellGone(types.NamespacedName{Namespace: "default", Name: name}, now, time.Time{})
	}
	for i := range maxDeparted + 2 {
		p := build.Pod(fmt.Sprint("p", i)).Obj()
		h.Remember(&pb.Decision{Seq: uint64(i), Uid: string(p.UID), Node: "n"}, now, 1, Circumstances{})
		why := ""
		if i == maxDeparted {
			why = "preempted by pod default/vip"
		}
		h.Depart(p, "n", why, now)
	}
	h.Depart(build.Pod("nobody").Obj(), "", "", now)
	if gone("p0") != nil || gone("p1") != nil || gone("nobody") != nil || len(h.left) != maxDeparted || len(h.gone) != maxDeparted ||
		len(h.newest) != maxDeparted {
		t.Errorf("got %d pods that are gone, %d with decisions, p0 %v; want %d, the last", len(h.left), len(h.newest), gone("p0"), maxDeparted)
	}
	for name, want := range map[string]string{
		"p2": "it was deleted, or has ended, on node n", fmt.Sprint("p", maxDeparted): "preempted by pod default/vip",
	} {
		if out := gone(name); out.GetNote() != want || len(out.GetHistory()) != 1 || !out.GetGone().AsTime().Equal(now) {
			t.Errorf("%s: got %v, want %q and its decision", name, out, want)
		}
	}
	if now = now.Add(keptDeparted + 1); gone("p2") != nil {
		t.Error("after ten minutes it is still told of")
	}
	p := build.Pod("late").Obj()
	h.Remember(&pb.Decision{Uid: string(p.UID)}, now, 1, Circumstances{})
	if h.Depart(p, "", "", now); len(h.left) != 1 || len(h.newest) != 1 {
		t.Errorf("got %d pods, decisions of %d; want the last alone", len(h.left), len(h.newest))
	}
}

// keeper passes on what a leader keeps, through bytes as etcd would.
type keeper struct{ pb.HistoryChunk }

func (k *keeper) Decided(d *pb.PastDecision, _ int) { k.Decisions = append(k.Decisions, d) }
func (k *keeper) Departed(d *pb.Departure)          { k.Departures = append(k.Departures, d) }
func (k *keeper) Traced(t *pb.KeptTrace)            { k.Traces = append(k.Traces, t) }

func (k *keeper) pass(t *testing.T, leader string) *pb.HistoryChunk {
	t.Helper()
	k.Leader = leader
	raw, err := proto.Marshal(&k.HistoryChunk)
	if err != nil {
		t.Fatal(err)
	}
	c := &pb.HistoryChunk{}
	if err := proto.Unmarshal(raw, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// The next leader tells what the one before remembered, behind what it has decided itself.
func TestHistoryOutlivesItsLeader(t *testing.T) {
	k, now := &keeper{}, time.Unix(1000, 0)
	first := NewHistory(k)
	name := func(p string) types.NamespacedName { return types.NamespacedName{Namespace: "default", Name: p} }
	for i, p := range []string{"stays", "moves", "deleted", "preempted", "missed"} {
		first.Remember(&pb.Decision{Seq: uint64(i), Pod: "default/" + p, Uid: string(build.Pod(p).Obj().UID), Node: "n", Score: 7}, now, 2,
			Circumstances{Top: []*pb.ScoredNode{{Node: "n", Score: 7, Plugins: []*pb.PluginScore{{Plugin: "P", Normalised: 7, Weight: 1}}}}})
	}
	first.Traced(build.Pod("stays").Obj().UID, 0, "t0")
	first.Depart(build.Pod("deleted").Obj(), "n", "", now)
	first.Depart(build.Pod("preempted").Obj(), "n", "preempted by pod default/vip", now)

	earlier := NewHistory(nil)
	earlier.Take(k.pass(t, "vm_a"))
	second, since := NewHistory(nil), now.Add(time.Minute)
	second.Recall(earlier)
	second.Remember(&pb.Decision{Seq: 1, Uid: string(build.Pod("moves").Obj().UID), Node: "m"}, since, 3, Circumstances{})

	stays := second.Past(build.Pod("stays").Obj().UID)
	if len(stays) != 1 || stays[0].GetDecidedBy() != "vm_a" || stays[0].GetTraceId() != "t0" || stays[0].GetAttempt() != 2 ||
		stays[0].GetTop()[0].GetPlugins()[0].GetPlugin() != "P" {
		t.Errorf("got %v, want the decision of vm_a with its scores and its trace", stays)
	}
	moves := second.Past(build.Pod("moves").Obj().UID)
	if len(moves) != 2 || moves[0].GetDecidedBy() != "" || moves[1].GetDecidedBy() != "vm_a" || second.Last(build.Pod("moves").Obj().UID).GetNode() != "m" {
		t.Errorf("got %v, want the own decision, then that of vm_a", moves)
	}
	for p, want := range map[string]string{
		"deleted": "it was deleted, or has ended, on node n", "preempted": "preempted by pod default/vip",
		"missed": "it was deleted, or has ended, about when this leader began to lead",
	} {
		if out := second.tellGone(name(p), since, since); out.GetNote() != want || len(out.GetHistory()) != 1 {
			t.Errorf("%s: got %v, want %q and a decision", p, out, want)
		}
		if out := second.tellGone(name(p), since.Add(keptDeparted+1), since); out != nil {
			t.Errorf("%s, ten minutes later: got %v, want nothing", p, out)
		}
	}
	if out := second.tellGone(name("nobody"), since, since); out != nil {
		t.Errorf("got %v of a pod that nobody knows", out)
	}
}
