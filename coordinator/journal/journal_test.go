package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/lease"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// ledger is a Journal in memory that fails when it is told to.
type ledger struct {
	mu     sync.Mutex
	kept   map[types.UID]uint32 // attempts
	writes []string             // what each call brought
	bytes  int                  // of all entries that were written
	told   int                  // entries with a message
	fail   func() error
}

func newLedger() *ledger { return &ledger{kept: map[types.UID]uint32{}} }

func (l *ledger) SaveEntries(_ context.Context, put map[types.UID]*pb.QueueEntry, del []types.UID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, fmt.Sprintf("put %d, delete %d", len(put), len(del)))
	if l.fail != nil {
		if err := l.fail(); err != nil {
			return err
		}
	}
	for uid, e := range put {
		l.kept[uid] = e.GetAttempts()
		l.bytes += proto.Size(e) + entryBytes
		if e.GetMessage() != "" {
			l.told++
		}
	}
	for _, uid := range del {
		delete(l.kept, uid)
	}
	return nil
}

// quiet is a context whose logger says nothing.
func quiet() context.Context { return klog.NewContext(context.Background(), klog.Logger{}) }

func entry(attempts uint32) *pb.QueueEntry { return &pb.QueueEntry{Attempts: attempts} }

// elapse lets the clock of a synctest bubble go on, and everybody in it do what is due.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (l *ledger) want(t *testing.T, when string, want map[types.UID]uint32) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := cmp.Diff(want, l.kept); d != "" {
		t.Errorf("%s: entries (-want +got):\n%s", when, d)
	}
}

func TestTheLastChangeOfAnEntryWins(t *testing.T) {
	l := newLedger()
	j := New(l)
	l.kept["b"] = 7
	j.Put("a", entry(1))
	j.Put("b", entry(8))
	j.Put("a", entry(2))
	j.Put("b", nil)
	if j.Lag() != 2 {
		t.Errorf("lag before: got %d, want 2", j.Lag())
	}
	j.flush(quiet())
	l.want(t, "after", map[types.UID]uint32{"a": 2})
	if d := cmp.Diff([]string{"put 1, delete 1"}, l.writes); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
	if j.Lag() != 0 {
		t.Errorf("lag after: got %d, want 0", j.Lag())
	}
}

func TestWhatIsNotWrittenIsWrittenLater(t *testing.T) {
	for name, err := range map[string]error{"etcd is away": errors.New("away"), "deposed": lease.ErrDeposed} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			j := New(l)
			l.fail = func() error {
				j.Put("b", entry(5)) // comes while the write is under way, and is newer
				j.Put("c", nil)
				return err
			}
			j.Put("a", entry(1))
			j.Put("b", entry(2))
			j.Put("c", entry(3))
			j.flush(quiet())
			if j.Lag() != 3 {
				t.Errorf("lag after the failure: got %d, want 3", j.Lag())
			}
			l.fail = nil
			j.flush(quiet())
			l.want(t, "after all", map[types.UID]uint32{"a": 1, "b": 5})
		})
	}
}

func TestManyEntriesGoInGroups(t *testing.T) {
	l := newLedger()
	j := New(l)
	for i := range 2*group + 1 {
		j.Put(types.UID(fmt.Sprintf("%05d", i)), entry(1))
	}
	l.fail = func() error {
		if len(l.writes) == 2 {
			return errors.New("away")
		}
		return nil
	}
	j.flush(quiet())
	if got, want := j.Lag(), group+1; got != want {
		t.Errorf("left after the second of three writes failed: got %d, want %d", got, want)
	}
	j.flush(quiet())
	full, last := fmt.Sprintf("put %d, delete 0", group), "put 1, delete 0"
	if d := cmp.Diff([]string{full, full, full, last}, l.writes); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
	if len(l.kept) != 2*group+1 || j.Lag() != 0 {
		t.Errorf("got %d entries, lag %d; want %d, 0", len(l.kept), j.Lag(), 2*group+1)
	}
}

func TestTheJournalIsWrittenBehindTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		j := New(l)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		ended := make(chan struct{})
		go func() { j.Run(ctx); close(ended) }()
		j.Put("a", entry(1))
		synctest.Wait()
		l.want(t, "at once", map[types.UID]uint32{})
		elapse(every)
		l.want(t, "a moment later", map[types.UID]uint32{"a": 1})
		elapse(20 * every)
		cancel()
		<-ended
		if len(l.writes) != 1 {
			t.Errorf("writes: got %v, want one: nothing has changed since", l.writes)
		}
		j.Put("b", entry(1))
		elapse(20 * every)
		l.want(t, "after the end", map[types.UID]uint32{"a": 1})
	})
}

// Thousands of pods that fail with long messages all the time: no more is written a second than may be,
// messages go first, and each pod's entry is written all the same.
func TestTheJournalIsBoundedInBytesASecond(t *testing.T) {
	const pods, flushes = 20000, 100
	l := newLedger()
	j := New(l)
	message := strings.Repeat("x", 8<<10)
	for n := range uint32(flushes) {
		for i := range pods / 10 { // each pod once a second
			j.Put(types.UID(fmt.Sprintf("%05d", (int(n)*pods/10+i)%pods)), &pb.QueueEntry{Pod: "mallory/p", Attempts: n + 1, Message: message})
		}
		j.flush(quiet())
		if n == 0 && l.told == 0 {
			t.Error("the first entries: want their messages")
		}
	}
	if most := burst + bytesPerSecond*flushes/10 + 8<<10; l.bytes > most || l.bytes < most*9/10 {
		t.Errorf("got %d bytes in %d flushes, want up to %d, and the bound reached", l.bytes, flushes, most)
	}
	if len(l.kept) != pods {
		t.Errorf("got entries of %d pods, want all %d", len(l.kept), pods)
	}
	j.Farewell(quiet())
	if j.Lag() != 0 || l.kept["00000"] != flushes-9 {
		t.Errorf("at the end: got lag %d and %d attempts, want the last entry of each pod", j.Lag(), l.kept["00000"])
	}
}

func TestASchedulerWithoutAJournal(t *testing.T) {
	j := New(nil)
	j.Put("a", entry(1))
	j.Run(quiet())
	if j.Lag() != 0 {
		t.Errorf("lag: got %d, want 0", j.Lag())
	}
}

// Whatever fails on the way, the journal comes to hold each pod's last entry.
func TestJournalAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger()
		j := New(l)
		want := map[types.UID]uint32{}
		change := func(t *rapid.T) {
			uid := types.UID(rapid.StringMatching("[a-e]").Draw(t, "uid"))
			if n := rapid.Uint32Range(0, 9).Draw(t, "attempts"); n > 0 {
				j.Put(uid, entry(n))
				want[uid] = n
			} else {
				j.Put(uid, nil)
				delete(want, uid)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"change": change,
			"write":  func(*rapid.T) { j.flush(quiet()) },
			"fail": func(t *rapid.T) {
				l.fail = func() error { change(t); return errors.New("away") }
				j.flush(quiet())
				l.fail = nil
			},
			"": func(t *rapid.T) {
				if j.Lag() == 0 && !maps.Equal(l.kept, want) {
					t.Fatalf("nothing to write, but entries %v, want %v", l.kept, want)
				}
			},
		})
		j.flush(quiet())
		if j.Lag() != 0 || !maps.Equal(l.kept, want) {
			t.Fatalf("got entries %v, lag %d; want %v, 0", l.kept, j.Lag(), want)
		}
	})
}

// TestAnEtcdThatTakesNoWritesIsAskedNowAndThen counts the writes of ten minutes in which all fail, and what comes once they don't.
func TestAnEtcdThatTakesNoWritesIsAskedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		full := errors.New("full")
		l.fail = func() error { return full }
		j := New(l)
		ctx, cancel := context.WithCancel(quiet())
		defer cancel()
		go j.Run(ctx)
		j.Put("a", entry(1))
		elapse(10 * time.Minute)
		l.mu.Lock()
		tries := len(l.writes)
		l.fail = nil
		l.mu.Unlock()
		if tries < 60 || tries > 110 {
			t.Errorf("writes in ten minutes in which all fail: got %d, want one every 6.5 s, and a few more at first", tries)
		}
		elapse((longestRest + 2) * every)
		l.want(t, "once there is room", map[types.UID]uint32{"a": 1})
		j.Put("b", entry(2))
		elapse(2 * every)
		l.want(t, "and at once after that", map[types.UID]uint32{"a": 1, "b": 2})
		cancel()
		synctest.Wait()
	})
}
