package journal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// shelf is a HistoryStore in memory that fails when it is told to.
type shelf struct {
	mu     sync.Mutex
	slots  map[int][]byte
	order  []int // by when they were written last
	bytes  int   // that were written
	writes int
	fail   error
}

func newShelf() *shelf { return &shelf{slots: map[int][]byte{}} }

func (s *shelf) SaveHistory(_ context.Context, put map[int][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.writes++
	for slot := range historySlots + 1 { // by slot
		raw, ok := put[slot]
		if !ok {
			continue
		}
		for i, other := range s.order {
			if other == slot {
				s.order = append(s.order[:i:i], s.order[i+1:]...)
				break
			}
		}
		s.slots[slot], s.order, s.bytes = raw, append(s.order, slot), s.bytes+len(raw)
	}
	return nil
}

func (s *shelf) LoadHistory(context.Context) (iter.Seq2[int, []byte], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	order := append([]int(nil), s.order...)
	return func(yield func(int, []byte) bool) {
		for _, slot := range order {
			if !yield(slot, s.slots[slot]) {
				return
			}
		}
	}, nil
}

func (s *shelf) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// lead has a leader keep what it is given, and returns when it has ended; the numbers of the decisions that it recalled.
func lead(s *shelf, name string, during func(h *History)) (recalled []uint64) {
	h := NewHistory(s, name)
	ctx, end := context.WithCancel(quiet())
	var ran sync.WaitGroup
	ran.Go(func() {
		h.Run(ctx, func(c *pb.HistoryChunk) {
			for _, d := range c.GetDecisions() {
				recalled = append(recalled, d.GetDecision().GetSeq())
			}
		}, func() {})
	})
	synctest.Wait()
	if during != nil {
		during(h)
	}
	end()
	ran.Wait()
	return recalled
}

// decided is a decision whose text can not be compressed.
func decided(seq uint64, text int) *pb.PastDecision {
	random := rand.New(rand.NewPCG(seq, 0))
	var b strings.Builder
	for range text {
		b.WriteByte(byte(' ' + random.IntN(95)))
	}
	return &pb.PastDecision{Decision: &pb.Decision{Seq: seq, Uid: fmt.Sprint(seq), Message: b.String()}, Time: timestamppb.New(time.Unix(1, 0))}
}

// wantLast checks that the last decisions up to a number are there, each once, and tells how many.
func wantLast(t *testing.T, got []uint64, last uint64) {
	t.Helper()
	for i, seq := range got {
		if want := last - uint64(len(got)-1-i); seq != want {
			t.Fatalf("decision %d of %d recalled: got %d, want %d", i, len(got), seq, want)
		}
	}
}

func TestALeaderThatIsKilledLosesASecondOfItsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		// The context of a process that is killed ends no write: nothing is written after the last tick.
		lead(s, "a", func(h *History) {
			for seq := uint64(1); seq <= 10; seq++ {
				h.Decided(decided(seq, 100), 500)
				elapse(historyEvery)
			}
			h.Departed(&pb.Departure{Uid: "3", Time: timestamppb.Now()})
			h.Traced(&pb.KeptTrace{Uid: "3", Seq: 3, TraceId: "t"})
			elapse(historyEvery)
			h.Decided(decided(11, 100), 500)
		})
		got := lead(s, "b", nil)
		if wantLast(t, got, 10); len(got) != 10 {
			t.Errorf("got %d decisions, want 10", len(got))
		}
		chunk, err := unseal(s.slots[0])
		if err != nil || chunk.GetLeader() != "a" || len(chunk.GetDepartures()) != 1 || len(chunk.GetTraces()) != 1 {
			t.Errorf("got %v, %v; want what a kept", chunk, err)
		}
		// Nobody overwrites what the leader before has written.
		lead(s, "c", func(h *History) {
			h.Decided(decided(11, 100), 500)
			elapse(historyEvery)
		})
		if got = lead(s, "d", nil); len(got) != 11 {
			t.Errorf("got %d decisions, want 11 of two leaders", len(got))
		}
		wantLast(t, got, 11)
	})
}

func TestHistoryIsARing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		const text, each, all = 8 << 10, 40, 6000 // some 47 MB, more than the ring has
		var last uint64
		for _, name := range []string{"a", "b"} { // the second goes on where the first ended
			lead(s, name, func(h *History) {
				for range all / each / 2 {
					for range each {
						last++
						h.Decided(decided(last, text), text)
					}
					elapse(4 * historyEvery)
				}
			})
		}
		got := lead(s, "c", nil)
		wantLast(t, got, last)
		sum := 0
		for _, raw := range s.slots {
			sum += len(raw)
		}
		if most := historySlots * partBytes; len(s.slots) != historySlots || sum > most || len(got) < historySlots*5 {
			t.Errorf("got %d decisions in %d slots of %d bytes, want the last in %d slots of %d bytes at the most", len(got), len(s.slots), sum, historySlots, most)
		}
	})
}

func TestHistoryIsWrittenWithinABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		const text, seconds = 1 << 10, 60
		var last uint64
		lead(s, "a", func(h *History) {
			for range seconds {
				for range 500 { // four times the bound
					last++
					h.Decided(decided(last, text), text)
				}
				elapse(historyEvery)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.lag > maxHistoryLag || h.lag < maxHistoryLag/4 {
				t.Errorf("%d bytes wait, want the last %d at the most", h.lag, maxHistoryLag)
			}
		})
		if most := historyBurst + seconds*historyBytesPerSecond + partsAtOnce*partBytes; s.bytes > most || s.bytes < most/2 {
			t.Errorf("got %d bytes written, want at most %d, and half of it", s.bytes, most)
		}
	})
}

func TestHistoryWaitsForAStoreThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		lead(s, "a", func(h *History) {
			h.Decided(decided(1, 100), 500)
			elapse(historyEvery)
			s.setFail(errors.New("no space"))
			for seq := uint64(2); seq <= 1000; seq++ {
				h.Decided(decided(seq, 1000), 1400)
				elapse(historyEvery / 10)
			}
			s.setFail(nil)
			elapse(10 * historyEvery)
		})
		got := lead(s, "b", nil)
		if wantLast(t, got, 1000); len(got) != 1000 {
			t.Errorf("got %d decisions, want 1000", len(got))
		}
		// A leader that could read nothing yet keeps what comes until it can.
		s.setFail(errors.New("away"))
		lead(s, "c", func(h *History) {
			h.Decided(decided(1001, 100), 500)
			elapse(3 * historyEvery)
			s.setFail(nil)
			elapse(3 * historyEvery)
		})
		if got = lead(s, "d", nil); len(got) != 1001 {
			t.Errorf("got %d decisions, want 1001", len(got))
		}
	})
}

func TestALeaderThatResignsWritesTheRestOfItsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newShelf(), (*History)(nil)
		lead(s, "a", func(x *History) { h = x; h.Decided(decided(1, 100), 500) })
		h.Farewell(quiet())
		if got := lead(s, "b", nil); len(got) != 1 {
			t.Errorf("got %d decisions, want 1", len(got))
		}
		idle := s.writes
		lead(s, "c", func(*History) { elapse(time.Hour) })
		if s.writes != idle {
			t.Errorf("got %d writes of a leader that decides nothing, want none", s.writes-idle)
		}
	})
}

func TestADecisionThatCanNotBeKeptIsLeftOutAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		lead(s, "a", func(h *History) {
			h.Decided(decided(1, maxEntryBytes), maxEntryBytes)
			h.Decided(&pb.PastDecision{Decision: &pb.Decision{Seq: 2, Uid: "2", Message: "\xff"}}, 500)
			h.Decided(decided(3, maxEntryBytes/2), 500)
			elapse(historyEvery)
		})
		if got := lead(s, "b", nil); len(got) != 1 || got[0] != 3 {
			t.Errorf("got %d, want the third alone", got)
		}
		s.slots[0] = []byte("no part")
		if got := lead(s, "c", nil); len(got) != 0 {
			t.Errorf("got %d, want none of a part that can't be read", got)
		}
	})
}

var golden = flag.String("golden", "", "write a part as this build stores it into testdata/history, as that of a release: v1.2.3")

// TestStoredByEachRelease reads a part that each release has written, byte by byte as that release wrote it.
func TestStoredByEachRelease(t *testing.T) {
	all := &pb.HistoryChunk{
		Leader: "vm_a",
		Decisions: []*pb.PastDecision{{
			Decision: &pb.Decision{
				Seq: 7, Pod: "shop/web", Uid: "u1", Profile: "default-scheduler", Node: "n1", Score: 623, Feasible: 4990, Nodes: 5000,
				Message: "0/1 nodes are available", Nominated: "n2", Victims: []string{"shop/a"},
				Claims: []*pb.ClaimDevices{{Claim: "shop/gpu", Devices: []string{"r/d/p/1"}}},
			},
			Time: timestamppb.New(time.Unix(1, 2)), Attempt: 3, TraceId: "t",
			Top:     []*pb.ScoredNode{{Node: "n1", Score: 623, Chosen: true, Plugins: []*pb.PluginScore{{Plugin: "P", Raw: 1, Normalised: 2, Weight: 3}}}},
			Reviews: []*pb.Review{{Reviewer: "plugin M", Score: proto.Int64(4), LeftOut: 1, Refusals: []*pb.Refusal{{Reason: "no", Nodes: 2, Examples: []string{"n3"}}}}},
		}},
		Departures: []*pb.Departure{{Namespace: "shop", Name: "a", Uid: "u2", Time: timestamppb.New(time.Unix(3, 4)), Node: "n2", Why: "preempted by pod shop/web"}},
		Traces:     []*pb.KeptTrace{{Uid: "u1", Seq: 7, TraceId: "t2"}},
	}
	if *golden != "" {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(all)
		if err == nil {
			err = os.WriteFile(filepath.Join("testdata/history", *golden), NewHistory(newShelf(), "").seal(raw), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("testdata/history/v*")
	if err != nil || len(files) == 0 {
		t.Fatalf("got golden files %q, %v; want one of each release", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := unseal(raw); err != nil || !proto.Equal(got, all) {
			t.Errorf("%s: got %v, %v; want %v", file, got, err, all)
		}
	}
}

func FuzzUnseal(f *testing.F) {
	h := NewHistory(newShelf(), "a")
	raw, err := proto.Marshal(&pb.HistoryChunk{Leader: "a", Decisions: []*pb.PastDecision{decided(1, 10)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(h.seal(raw))
	f.Add(h.seal(make([]byte, 4<<20))) // a few KiB that become 4 MiB
	f.Fuzz(func(t *testing.T, b []byte) {
		chunk, err := unseal(b)
		if n := proto.Size(chunk); err == nil && n > 2*partBytes {
			t.Errorf("got %d bytes, want a bound", n)
		}
	})
}
