package coordinator

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// journalEvery is how often the journal writes.
const journalEvery = 100 * time.Millisecond

// ledger is the store of the journal, in memory.
type ledger struct {
	mu   sync.Mutex
	kept map[types.UID]uint32 // attempts
}

func newLedger() *ledger { return &ledger{kept: map[types.UID]uint32{}} }

func (l *ledger) SaveEntries(_ context.Context, put map[types.UID]*pb.QueueEntry, del []types.UID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, e := range put {
		l.kept[uid] = e.GetAttempts()
	}
	for _, uid := range del {
		delete(l.kept, uid)
	}
	return nil
}

// attempts are those of a pod's entry; 0: there is none.
func (l *ledger) attempts(uid types.UID) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept[uid]
}

func (l *ledger) want(t *testing.T, when string, want map[types.UID]uint32) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := cmp.Diff(want, l.kept); d != "" {
		t.Errorf("%s: entries (-want +got):\n%s", when, d)
	}
}
