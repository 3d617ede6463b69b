package record

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protodelim"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// DefaultBuffer is how many entries wait to be written at the most.
const DefaultBuffer = 1 << 17

// Why a record stops.
const (
	tooSlow  = "the disk is too slow for the scheduler"
	limitHit = "the record has reached its limit"
)

// Config is what a Writer is made of.
type Config struct {
	// Version is that of the program.
	Version string
	// Limit is how many bytes are written at the most; 0: any number.
	Limit int64
	// Buffer is how many entries wait to be written at the most; 0: DefaultBuffer.
	Buffer int
	// Now is the clock; nil: the real one.
	Now func() time.Time
	// Registerer receives the metrics; nil: nowhere.
	Registerer prometheus.Registerer
}

// Writer writes a record. Its methods but Run and Close are the scheduling loop's: they never
// wait. Of a nil Writer they do nothing.
type Writer struct {
	cfg     Config
	metrics *metrics
	ready   chan struct{} // holds a token while there is something to take
	ended   chan error    // Run's result

	mu      sync.Mutex
	queued  []entry
	dropped bool // since the last Begin
	closed  bool

	// The rest belongs to Run.
	out     *bufio.Writer
	closer  io.Closer
	written int64
	full    bool
	err     error
}

// NewWriter makes a writer, which closes w in the end. Run has to be called.
func NewWriter(w io.WriteCloser, cfg Config) *Writer {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Buffer == 0 {
		cfg.Buffer = DefaultBuffer
	}
	return &Writer{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), ready: make(chan struct{}, 1), ended: make(chan error, 1),
		out: bufio.NewWriterSize(w, 1<<18), closer: w,
	}
}

// Begin opens a term that starts with these objects.
func (w *Writer) Begin(cluster string, term uint64, all *objects.Snapshot) {
	w.put(entry{begin: &pb.RecordBegin{Format: pb.RecordFormat, Cluster: cluster, Term: term}, all: all})
}

// Change notes that an object is new, changed or gone. own says that the loop changed it.
func (w *Writer) Change(obj objects.Object, gone, own bool) {
	w.put(entry{changed: obj, gone: gone, own: own})
}

// Decision notes a decision, and volumes and claims as they are assumed to be.
func (w *Writer) Decision(d *pb.Decision, failed bool, assumed []objects.Object) {
	w.put(entry{decision: d, failed: failed, objects: assumed})
}

// Bound notes that a decision was committed, and claims of devices as they were written for it.
func (w *Writer) Bound(d *pb.Decision, latest []objects.Object) {
	w.put(entry{bound: d, objects: latest})
}

// TakenBack notes that a decision was not committed, whether its pod waits in the queue again,
// and how volumes and claims count that were assumed.
func (w *Writer) TakenBack(d *pb.Decision, err error, waits bool, latest []objects.Object) {
	w.put(entry{back: d, err: err, waits: waits, objects: latest})
}

// Released notes that a pod is not assumed on its node any more, whatever becomes of its bind.
func (w *Writer) Released(uid types.UID, node string) {
	w.put(entry{released: &pb.RecordReleased{Uid: string(uid), Node: node}})
}

// Nominated notes that a pod is nominated to a node, "": to none, which neither its status nor a decision of the term tells.
func (w *Writer) Nominated(uid types.UID, node string) {
	w.put(entry{nominated: &pb.RecordNominated{Uid: string(uid), Node: node}})
}

// Judgement notes what would have been decided. Nobody may change it any more.
func (w *Writer) Judgement(j *pb.RecordJudgement) { w.put(entry{judgement: j}) }

// put queues an entry. One that there is no room for ends the record, until the next Begin.
func (w *Writer) put(e entry) {
	if w == nil {
		return
	}
	e.at = w.cfg.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return
	case e.begin != nil:
		w.dropped = false
	case w.dropped:
		return
	case len(w.queued) >= w.cfg.Buffer:
		w.dropped = true
		e = entry{at: e.at, end: tooSlow}
	}
	w.queued = append(w.queued, e)
	w.wake()
}

func (w *Writer) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// Close writes what is queued, and ends Run.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	again := w.closed
	if !again {
		w.closed = true
		w.queued = append(w.queued, entry{at: w.cfg.Now(), last: true})
		w.wake()
	}
	w.mu.Unlock()
	if again {
		return nil
	}
	if err := <-w.ended; err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

// Run writes until Close is called. The error that it comes to is Close's.
func (w *Writer) Run(ctx context.Context) {
	var list []entry
	for last := false; !last; {
		<-w.ready
		w.mu.Lock()
		list, w.queued = w.queued, list[:0]
		w.mu.Unlock()
		for i := range list {
			w.write(ctx, &list[i])
			last = last || list[i].last
		}
		clear(list)
		if !w.full && w.err == nil {
			w.fail(ctx, w.out.Flush())
		}
	}
	w.ended <- errors.Join(w.err, w.closer.Close())
}

// write writes an entry, and after its limit one thing more: that this is the end.
func (w *Writer) write(ctx context.Context, e *entry) {
	switch {
	case w.full || w.err != nil:
		return
	case e.end != "":
		w.stop(ctx, e.end)
	case e.begin != nil:
		w.metrics.stopped.Set(0)
		e.begin.Version = w.cfg.Version
	}
	for r, err := range e.records() {
		if err == nil && w.cfg.Limit > 0 && w.written >= w.cfg.Limit {
			w.full = true
			w.stop(ctx, limitHit)
			r = &pb.Record{Time: r.Time, What: &pb.Record_End{End: &pb.RecordEnd{Reason: limitHit}}}
		}
		if err == nil {
			var n int
			n, err = protodelim.MarshalTo(w.out, r)
			w.written += int64(n)
			w.metrics.bytes.Add(float64(n))
		}
		if err == nil && w.full {
			err = w.out.Flush()
		}
		if w.fail(ctx, err); w.full || err != nil {
			return
		}
	}
}

// fail ends the record with an error.
func (w *Writer) fail(ctx context.Context, err error) {
	if err != nil && w.err == nil {
		w.err = err
		klog.FromContext(ctx).Error(err, "Flight recorder stops")
		w.metrics.stopped.Set(1)
	}
}

// stop tells that the record is no longer whole.
func (w *Writer) stop(ctx context.Context, why string) {
	klog.FromContext(ctx).Info("Flight recorder stops", "reason", why, "bytes", w.written)
	w.metrics.stopped.Set(1)
}
