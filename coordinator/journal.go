package coordinator

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

// Journal keeps what the queue knows of a pending pod beside its object, so that a
// new leader neither forgets nor stampedes.
type Journal interface {
	SaveEntries(ctx context.Context, put map[types.UID]*pb.QueueEntry, del []types.UID) error
}

const (
	// journalEvery is how long changes gather before they are written.
	journalEvery = 100 * time.Millisecond
	// journalFarewell is how long the last write may take.
	journalFarewell = time.Second
	// journalGroup is how many entries are written at once at the most.
	journalGroup = 1000
	// journalBytes is how many bytes are written a second, and journalBurst how many at once after a calm
	// time: whoever creates pods that fail must not fill etcd. An entry takes entryBytes beside its own.
	journalBytes = 1 << 20
	journalBurst = 4 * journalBytes
	entryBytes   = 128
)

// journalWriter gathers changes of queue entries and writes them behind the
// scheduling loop, which never waits for it. The last change of a pod wins. Where there are more than may be
// written, entries go without their messages, and later: the oldest first, and none is lost.
//
// Differs from upstream: it writes a pod's status in the loop.
type journalWriter struct {
	journal Journal

	room int // bytes that may be written now

	mu      sync.Mutex
	changed map[types.UID]*pb.QueueEntry // nil: delete
	order   []types.UID                  // those that changed, oldest first
}

func newJournalWriter(j Journal) *journalWriter {
	return &journalWriter{journal: j, room: journalBurst, changed: map[types.UID]*pb.QueueEntry{}}
}

// put notes a pod's entry; nil deletes it.
func (j *journalWriter) put(uid types.UID, entry *pb.QueueEntry) {
	if j.journal == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, waits := j.changed[uid]; !waits {
		j.order = append(j.order, uid)
	}
	j.changed[uid] = entry
}

// lag is the number of changes that are not written yet.
func (j *journalWriter) lag() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.changed)
}

// run writes until ctx ends.
func (j *journalWriter) run(ctx context.Context) {
	if j.journal == nil {
		return
	}
	tick := time.NewTicker(journalEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			j.flush(ctx)
		}
	}
}

// farewell writes what is left when the loop has come to its end: the fence still
// decides whether this leader may.
func (j *journalWriter) farewell(ctx context.Context) {
	if j.journal == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalFarewell)
	defer cancel()
	j.write(ctx, math.MaxInt, 0)
}

// flush writes what may be written in the time between two calls.
func (j *journalWriter) flush(ctx context.Context) {
	j.room = min(j.room+int(journalBytes*journalEvery/time.Second), journalBurst)
	j.room = j.write(ctx, j.room, j.room-journalBurst/2)
}

// write writes changes until so many bytes are used up, the first of them with their messages, and returns
// what is left. Changes that come meanwhile wait for the next time.
func (j *journalWriter) write(ctx context.Context, room, messages int) int {
	for n := j.lag(); n > 0 && room > 0; {
		g := j.take(min(n, journalGroup), room, messages)
		n, room, messages = n-len(g.uids), room-g.bytes, messages-g.bytes
		if err := j.journal.SaveEntries(ctx, g.put, g.del); err != nil {
			j.putBack(&g)
			if ctx.Err() == nil && !errors.Is(err, lease.ErrDeposed) {
				klog.FromContext(ctx).Error(err, "Queue journal is behind", "entries", j.lag())
			}
			break
		}
	}
	return room
}

// journalled is what is written at once.
type journalled struct {
	uids  []types.UID
	put   map[types.UID]*pb.QueueEntry
	del   []types.UID
	bytes int
}

// take takes the oldest changes, until room is used up.
func (j *journalWriter) take(n, room, messages int) journalled {
	g := journalled{put: map[types.UID]*pb.QueueEntry{}}
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

// putBack returns what was not written, unless a newer change has come meanwhile.
func (j *journalWriter) putBack(g *journalled) {
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
