package journal

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// HistoryStore keeps the parts of the history, each in a slot.
type HistoryStore interface {
	// SaveHistory writes parts by slot.
	SaveHistory(ctx context.Context, put map[int][]byte) error
	// LoadHistory reads the parts, that which was written last as the last.
	LoadHistory(ctx context.Context) (iter.Seq2[int, []byte], error)
}

const (
	// historyEvery is how often what has come is written: a leader that is killed takes so much with it.
	historyEvery = time.Second
	// historySlots of partBytes each, before they are compressed, bound what is kept: 32 MiB, some 100,000 decisions, which take 6 MiB
	// compressed. Who leads writes the part that is not full yet again and again, so parts are small.
	historySlots = 512
	partBytes    = 64 << 10
	// maxEntryBytes is what one decision may take; a larger one is not kept.
	maxEntryBytes = partBytes / 4
	// historyBytesPerSecond is how many bytes are written a second, and historyBurst how many at once after an idle time: the compressed
	// summaries of some 2,000 decisions. etcd keeps what is overwritten until it compacts.
	historyBytesPerSecond = 128 << 10
	historyBurst          = 4 << 20
	// maxHistoryLag is how many bytes of memory may wait to be written, about. Beyond it the oldest are left out.
	maxHistoryLag = 16 << 20
	// partsAtOnce is how many parts one write has at the most: half of what a request to etcd may have.
	partsAtOnce = 8
)

// History writes what a leader remembers of decisions on a goroutine of its own, for the next one: in a ring of slots, of which the
// oldest is overwritten. The scheduling loop never waits for it.
//
//	loop ──> waiting ──> part, part, part ──> store       a full part is written once, the last
//	         oldest left out    slot n, n+1 …             again whenever there is more of it
type History struct {
	store  HistoryStore
	leader string

	mu      sync.Mutex // guards what is below
	waiting []kept
	lag     int // bytes of waiting

	// What follows belongs to Run, and to Farewell after it.
	parts []*part // to be written; the last is not full
	room  int     // how many bytes may be written now: a token bucket
	fails bool    // the last write did
	flate *flate.Writer
}

// kept is a decision, a departure or a trace, and about how many bytes of memory it takes.
type kept struct {
	decision  *pb.PastDecision
	departure *pb.Departure
	trace     *pb.KeptTrace
	bytes     int
}

// part is what a slot holds: a HistoryChunk as bytes. dirty: the slot does not hold all of it yet.
type part struct {
	slot  int
	raw   []byte
	dirty bool
}

// NewHistory makes one that keeps what leader remembers; store may be nil: nothing is kept.
func NewHistory(store HistoryStore, leader string) *History {
	return &History{store: store, leader: leader, room: historyBurst}
}

// Decided keeps a decision, which is not changed any more, and takes about so many bytes.
func (h *History) Decided(d *pb.PastDecision, bytes int) { h.keep(kept{decision: d, bytes: bytes}) }

// Departed keeps that a pod has left.
func (h *History) Departed(d *pb.Departure) { h.keep(kept{departure: d, bytes: maxEntryBytes / 64}) }

// Traced keeps the trace of a decision that was kept before.
func (h *History) Traced(t *pb.KeptTrace) { h.keep(kept{trace: t, bytes: maxEntryBytes / 64}) }

func (h *History) keep(k kept) {
	if h.store == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting, h.lag = append(h.waiting, k), h.lag+k.bytes
	if h.lag <= maxHistoryLag {
		return
	}
	n := 0
	for h.lag > maxHistoryLag/2 {
		h.lag -= h.waiting[n].bytes
		n++
	}
	h.waiting = append([]kept(nil), h.waiting[n:]...)
}

// Run reads what earlier leaders have written, hands it to recall part by part, the oldest first, then calls recalled,
// and writes until ctx ends.
func (h *History) Run(ctx context.Context, recall func(*pb.HistoryChunk), recalled func()) {
	if h.store == nil {
		return
	}
	tick := time.NewTicker(historyEvery)
	defer tick.Stop()
	for {
		switch {
		case h.parts != nil:
			h.room = min(h.room+int(historyBytesPerSecond*historyEvery/time.Second), historyBurst)
			h.flush(ctx)
		case h.load(ctx, recall):
			recalled()
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Farewell writes what is left when the loop has ended. The fence still decides whether this leader may write.
func (h *History) Farewell(ctx context.Context) {
	if h.store == nil || h.parts == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	h.room = historyBurst
	h.flush(ctx)
}

// load reads what is there, and finds the slot to begin with.
func (h *History) load(ctx context.Context, recall func(*pb.HistoryChunk)) bool {
	all, err := h.store.LoadHistory(ctx)
	if err != nil {
		h.failed(ctx, err, "History of earlier leaders is not read")
		return false
	}
	last := -1
	for slot, raw := range all {
		last = slot
		chunk, err := unseal(raw)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Part of the history is left out", "slot", slot)
			continue
		}
		recall(chunk)
	}
	h.fails = false
	h.begin(last + 1)
	return true
}

// begin begins a part.
func (h *History) begin(slot int) {
	p := &part{slot: max(slot, 0) % historySlots}
	p.add(&pb.HistoryChunk{Leader: h.leader})
	p.dirty = false
	h.parts = append(h.parts, p)
}

// flush writes while there is something to write, and room.
func (h *History) flush(ctx context.Context) {
	for h.room > 0 && h.fill() {
		put := map[int][]byte{}
		for _, p := range h.parts {
			if p.dirty {
				put[p.slot] = h.seal(p.raw)
			}
		}
		if err := h.save(ctx, put); err != nil {
			h.failed(ctx, err, "History is not written")
			return
		}
		h.fails = false
		for _, p := range h.parts {
			p.dirty = false
		}
		h.parts = h.parts[len(h.parts)-1:]
		if last := h.parts[0]; last.full() {
			h.parts = nil
			h.begin(last.slot + 1)
		}
	}
}

// save writes parts. A write that etcd does not answer is given up, and tried again with what has come meanwhile.
func (h *History) save(ctx context.Context, put map[int][]byte) error {
	for _, raw := range put {
		h.room -= len(raw) + entryBytes
	}
	ctx, cancel := context.WithTimeout(ctx, 5*historyEvery)
	defer cancel()
	return h.store.SaveHistory(ctx, put)
}

// fill moves what waits into parts, as much as one write may have. Parts that are written together have slots that follow each other, so
// that the highest is the last. It tells whether there is something to write.
func (h *History) fill() bool {
	last := h.parts[len(h.parts)-1]
	for {
		if last.full() {
			if len(h.parts) == partsAtOnce || last.slot == historySlots-1 {
				return true
			}
			h.begin(last.slot + 1)
			last = h.parts[len(h.parts)-1]
		}
		next, ok := h.take()
		if !ok {
			return h.parts[0].dirty || last.dirty
		}
		last.add(next.chunk())
	}
}

// take takes the oldest that waits.
func (h *History) take() (oldest kept, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting) == 0 {
		return kept{}, false
	}
	oldest = h.waiting[0]
	h.lag -= oldest.bytes
	if h.waiting = h.waiting[1:]; len(h.waiting) == 0 {
		h.waiting = nil
	}
	return oldest, true
}

// chunk makes a message of it.
func (k *kept) chunk() *pb.HistoryChunk {
	switch {
	case k.decision != nil:
		return &pb.HistoryChunk{Decisions: []*pb.PastDecision{k.decision}}
	case k.departure != nil:
		return &pb.HistoryChunk{Departures: []*pb.Departure{k.departure}}
	}
	return &pb.HistoryChunk{Traces: []*pb.KeptTrace{k.trace}}
}

// add adds a chunk, where it is small enough and its texts are UTF-8: bytes of messages one after the other are those of all in one.
func (p *part) add(c *pb.HistoryChunk) {
	raw, err := proto.MarshalOptions{}.MarshalAppend(p.raw, c)
	if err == nil && len(raw)-len(p.raw) <= maxEntryBytes {
		p.raw, p.dirty = raw, true
	}
}

// full tells whether not everything fits that may be kept.
func (p *part) full() bool { return len(p.raw) > partBytes-maxEntryBytes }

// failed logs the first of failures in a row: where etcd is full, this leader goes on without.
func (h *History) failed(ctx context.Context, err error, message string) {
	if !h.fails && ctx.Err() == nil && !errors.Is(err, lease.ErrDeposed) {
		klog.FromContext(ctx).Error(err, message)
	}
	h.fails = true
}

// seal compresses a part.
func (h *History) seal(raw []byte) []byte {
	var out bytes.Buffer
	if h.flate == nil {
		h.flate, _ = flate.NewWriter(&out, flate.BestSpeed) // no error: the level exists
	}
	h.flate.Reset(&out)
	_, _ = h.flate.Write(raw) // nor here: a buffer takes all
	_ = h.flate.Close()
	return out.Bytes()
}

// unseal is the inverse of seal. It reads no more than what seal may have written, however well it is compressed.
func unseal(raw []byte) (*pb.HistoryChunk, error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), partBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(plain) > partBytes:
		return nil, fmt.Errorf("expected at most %d bytes, got more", partBytes)
	}
	chunk := &pb.HistoryChunk{}
	if err := proto.Unmarshal(plain, chunk); err != nil {
		return nil, err
	}
	return chunk, chunk.Validate()
}
