package journal

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Store keeps the entries.
type Store interface {
	SaveEntries(ctx context.Context, put map[types.UID]*pb.QueueEntry, del []types.UID) error
}

const (
	// every is how long changes gather before they are written: many pods then share one write.
	every = 100 * time.Millisecond
	// lastWrite is how long the last write may take: this leader resigns after it, and the next one waits for that.
	lastWrite = time.Second
	// group is how many entries one write has at the most, which bounds a request to etcd.
	group = 1000
	// bytesPerSecond is how many bytes are written a second, and burst how many at once after an idle
	// time: whoever creates pods that fail must not fill etcd. An entry costs entryBytes beside its own bytes, for its key.
	bytesPerSecond = 1 << 20
	burst          = 4 * bytesPerSecond
	entryBytes     = 128
	// longestRest is how many times every nothing is written after writes that failed, so that an etcd that is full or away is
	// asked, and the log told, every few seconds.
	longestRest = 64
)

// Writer gathers changes of queue entries and writes them on a goroutine of its own. The
// scheduling loop never waits for it. The last change of a pod wins. Where more entries change than may be
// written, they are written without their messages, and later: the oldest first, and none is lost.
//
// Differs from upstream: it writes a pod's status in the loop.
type Writer struct {
	store Store

	room int // how many bytes may be written now: a token bucket

	mu      sync.Mutex
	changed map[types.UID]*pb.QueueEntry // nil: delete
	order   []types.UID                  // the pods of changed, the oldest change first
}

// New makes a Writer; store may be nil: nothing is kept.
func New(store Store) *Writer {
	return &Writer{store: store, room: burst, changed: map[types.UID]*pb.QueueEntry{}}
}

// Put notes a pod's entry; nil deletes it.
func (j *Writer) Put(uid types.UID, entry *pb.QueueEntry) {
	if j.store == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, waits := j.changed[uid]; !waits {
		j.order = append(j.order, uid)
	}
	j.changed[uid] = entry
}

// Lag is the number of changes that are not written yet.
func (j *Writer) Lag() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.changed)
}

// Run writes until ctx ends.
func (j *Writer) Run(ctx context.Context) {
	if j.store == nil {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for rest, left := 0, 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if left--; left >= 0 {
			continue
		}
		rest = min(max(2*rest, 1), longestRest)
		if j.flush(ctx) {
			rest = 0
		}
		left = rest
	}
}

// Farewell writes the changes that are left when the loop has ended. The fence still
// decides whether this leader may write.
func (j *Writer) Farewell(ctx context.Context) {
	if j.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	j.write(ctx, math.MaxInt, 0)
}

// flush fills the token bucket for one every, and writes as much as it holds. It returns false where a write failed.
func (j *Writer) flush(ctx context.Context) (ok bool) {
	j.room = min(j.room+int(bytesPerSecond*every/time.Second), burst)
	j.room, ok = j.write(ctx, j.room, j.room-burst/2)
	return ok
}

// write writes changes until room bytes are used up, and returns the room that is left. Messages are written within the
// first messages bytes. Changes that come meanwhile wait for the next call.
func (j *Writer) write(ctx context.Context, room, messages int) (left int, ok bool) {
	for n := j.Lag(); n > 0 && room > 0; {
		g := j.take(min(n, group), room, messages)
		n, room, messages = n-len(g.uids), room-g.bytes, messages-g.bytes
		if err := j.store.SaveEntries(ctx, g.put, g.del); err != nil {
			j.putBack(&g)
			if ctx.Err() == nil && !errors.Is(err, lease.ErrDeposed) {
				klog.FromContext(ctx).Error(err, "Queue journal is behind", "entries", j.Lag())
			}
			return room, false
		}
	}
	return room, true
}

// batch is one write.
type batch struct {
	uids  []types.UID
	put   map[types.UID]*pb.QueueEntry
	del   []types.UID
	bytes int
}

// take takes the oldest n changes, or fewer where room is used up.
func (j *Writer) take(n, room, messages int) batch {
	g := batch{put: map[types.UID]*pb.QueueEntry{}}
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(g.uids) < n && g.bytes < room {
		uid := j.order[0]
		entry := j.changed[uid]
		j.order = j.order[1:]
		delete(j.changed, uid)
		g.uids = append(g.uids, uid)
		g.bytes += entryBytes
		if entry == nil {
			g.del = append(g.del, uid)
			continue
		}
		if g.bytes+proto.Size(entry) > messages {
			entry.Message = ""
		}
		g.put[uid] = entry
		g.bytes += proto.Size(entry)
	}
	return g
}

// putBack returns changes that were not written, but for pods with a newer change.
func (j *Writer) putBack(g *batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var again []types.UID
	for _, uid := range g.uids {
		if _, newer := j.changed[uid]; !newer {
			j.changed[uid] = g.put[uid]
			again = append(again, uid)
		}
	}
	j.order = append(again, j.order...)
}
