package coordinator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/store"
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
)

// journalWriter gathers changes of queue entries and writes them behind the
// scheduling loop, which never waits for it. The last change of a pod wins.
//
// Differs from upstream: it writes a pod's status in the loop.
type journalWriter struct {
	journal Journal

	mu      sync.Mutex
	changed map[types.UID]*pb.QueueEntry // nil: delete
}

func newJournalWriter(j Journal) *journalWriter {
	return &journalWriter{journal: j, changed: map[types.UID]*pb.QueueEntry{}}
}

// put notes a pod's entry; nil deletes it.
func (j *journalWriter) put(uid types.UID, entry *pb.QueueEntry) {
	if j.journal == nil {
		return
	}
	j.mu.Lock()
	j.changed[uid] = entry
	j.mu.Unlock()
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
	j.flush(ctx)
}

func (j *journalWriter) flush(ctx context.Context) {
	j.mu.Lock()
	changed := j.changed
	j.changed = map[types.UID]*pb.QueueEntry{}
	j.mu.Unlock()
	for uids := range slices.Chunk(slices.Sorted(maps.Keys(changed)), journalGroup) {
		if err := j.save(ctx, changed, uids); err != nil {
			if ctx.Err() == nil && !errors.Is(err, store.ErrDeposed) {
				klog.FromContext(ctx).Error(err, "Queue journal is behind", "entries", len(changed))
			}
			j.putBack(changed)
			break
		}
		for _, uid := range uids {
			delete(changed, uid)
		}
	}
}

func (j *journalWriter) save(ctx context.Context, changed map[types.UID]*pb.QueueEntry, uids []types.UID) error {
	put := map[types.UID]*pb.QueueEntry{}
	var del []types.UID
	for _, uid := range uids {
		if e := changed[uid]; e != nil {
			put[uid] = e
		} else {
			del = append(del, uid)
		}
	}
	return j.journal.SaveEntries(ctx, put, del)
}

// putBack returns what was not written, unless a newer change has come meanwhile.
func (j *journalWriter) putBack(changed map[types.UID]*pb.QueueEntry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for uid, e := range changed {
		if _, newer := j.changed[uid]; !newer {
			j.changed[uid] = e
		}
	}
}
