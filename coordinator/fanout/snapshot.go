package fanout

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// errTooLarge means that a worker can not have a shard: a row is larger than a message may be, or the worker
// has no room for it.
var errTooLarge = errors.New("too large")

// snapshotter makes the snapshot of a shard at the newest generation, one chunk after the other:
// each is sent before the next is made. It errs with errRoundOver where the tables may not be
// read any more, and with errTooLarge.
type snapshotter func(shard uint32, send func(*pb.LoadSnapshotRequest) error) error

const (
	// counterChunk is how many rows of a counter stand together in a chunk: they take
	// about 4 bytes each, and never more than 11.
	counterChunk = 32 << 10
	// useChunk is how many uses of devices stand together: of some 100 bytes each, and more where capacities are.
	useChunk = 1 << 10
	// rowBudget is how large a row may be, which then has a chunk of its own: it leaves room for the
	// header.
	rowBudget = MaxMessageBytes - 64<<10
)

// chunks yields the messages of a snapshot stream: of about chunkBudget, or of one row that is
// larger. The table must not change between the first and the last, and is not read once yield has
// refused one.
func chunks(cluster string, term uint64, t *scorer.Table) iter.Seq2[*pb.LoadSnapshotRequest, error] {
	return func(yield func(*pb.LoadSnapshotRequest, error) bool) {
		c := &chunker{yield: yield, usages: map[*pb.PodUsage]uint32{}}
		c.chunk = &pb.LoadSnapshotRequest{Header: &pb.SnapshotHeader{
			Cluster: cluster, Term: term, Shard: t.Shard(), Generation: t.Generation(), Rules: scan.Rules(),
		}}
		ok := true
		t.Snapshot(func(row *pb.SnapshotRow) bool {
			ok = c.row(t.Shard(), row)
			return ok
		})
		if !ok {
			return
		}
		t.Counters(func(column *pb.CounterColumn) bool {
			ok = c.counter(column)
			return ok
		})
		if !ok {
			return
		}
		t.Devices(func(x *pb.RowDevices) bool {
			ok = c.devices(t.Shard(), x)
			return ok
		})
		if ok {
			yield(c.chunk, nil)
		}
	}
}

// chunker fills one chunk after the other. Its methods return false where no more is wanted.
type chunker struct {
	yield func(*pb.LoadSnapshotRequest, error) bool
	chunk *pb.LoadSnapshotRequest
	bytes int
	// usages numbers what was told of pods.
	usages map[*pb.PodUsage]uint32
}

// room begins another chunk where the message does not fit into this one.
func (c *chunker) room(size int) bool {
	if c.bytes > 0 && c.bytes+size > chunkBudget {
		if !c.yield(c.chunk, nil) {
			return false
		}
		c.chunk, c.bytes = &pb.LoadSnapshotRequest{}, 0
	}
	c.bytes += size
	return true
}

// row adds a row. Pods of equal usage share one message in the table, and on the wire.
func (c *chunker) row(shard uint32, row *pb.SnapshotRow) bool {
	for _, p := range row.GetPods() {
		ref, told := c.usages[p.GetUsage()]
		if !told {
			ref = uint32(len(c.usages) + 1)
			c.usages[p.GetUsage()] = ref
			if !c.room(proto.Size(p.GetUsage()) + 8) {
				return false
			}
			c.chunk.Usages = append(c.chunk.Usages, p.GetUsage())
		}
		p.Usage, p.UsageRef = nil, ref
	}
	size := proto.Size(row) + 8
	if size > rowBudget {
		c.yield(nil,
			fmt.Errorf("shard %d: node %s takes %d bytes, more than a message may: %w", shard, row.GetNode().GetName(), size, errTooLarge))
		return false
	}
	if !c.room(size) {
		return false
	}
	c.chunk.Rows = append(c.chunk.Rows, row)
	return true
}

// counter adds a counter, in parts.
func (c *chunker) counter(column *pb.CounterColumn) bool {
	for part := range slices.Chunk(column.GetRows(), counterChunk) {
		x := &pb.CounterColumn{Counter: column.GetCounter(), Rows: part, Values: column.Values[:len(part)]}
		column.Values = column.Values[len(part):]
		if !c.room(proto.Size(x) + 8) {
			return false
		}
		c.chunk.Counters = append(c.chunk.Counters, x)
	}
	return true
}

// devices adds devices of a row: a slice, or uses in parts.
func (c *chunker) devices(shard uint32, x *pb.RowDevices) bool {
	uses := x.GetUses().GetUses()
	if len(uses) == 0 {
		return c.add(shard, x)
	}
	for part := range slices.Chunk(uses, useChunk) {
		if !c.add(shard, &pb.RowDevices{Row: x.GetRow(), Shared: x.GetShared(), Uses: &pb.DeviceUses{Uses: part}}) {
			return false
		}
	}
	return true
}

func (c *chunker) add(shard uint32, x *pb.RowDevices) bool {
	size := proto.Size(x) + 8
	if size > rowBudget {
		c.yield(nil, fmt.Errorf("shard %d: devices of row %d take %d bytes, more than a message may: %w", shard, x.GetRow(), size, errTooLarge))
		return false
	}
	if !c.room(size) {
		return false
	}
	c.chunk.Devices = append(c.chunk.Devices, x)
	return true
}

// snapshot is the round's snapshotter. The tables do not change as long as the round is open, and
// are read for one chunk at a time: to wait for a worker holds nobody up.
func (r *round) snapshot(shard uint32, send func(*pb.LoadSnapshotRequest) error) error {
	next, stop := iter.Pull2(chunks(r.f.cfg.Cluster, r.f.cfg.Term, r.f.cfg.Shards.Table(int(shard))))
	defer stop()
	for {
		var chunk *pb.LoadSnapshotRequest
		var err error
		more := false
		if !r.reading(func() { chunk, err, more = next() }) {
			return errRoundOver
		}
		if err != nil || !more {
			return err
		}
		if err := send(chunk); err != nil {
			return err
		}
	}
}

// madeSnapshot is a snapshot that was made at once, to be sent while tables change.
type madeSnapshot struct {
	chunks []*pb.LoadSnapshotRequest
	err    error
}

func makeSnapshot(cluster string, term uint64, t *scorer.Table) (out madeSnapshot) {
	for chunk, err := range chunks(cluster, term, t) {
		if err != nil {
			return madeSnapshot{err: err}
		}
		out.chunks = append(out.chunks, chunk)
	}
	return out
}

// send sends it, and lets go of what is sent.
func (m *madeSnapshot) send(send func(*pb.LoadSnapshotRequest) error) error {
	for i, chunk := range m.chunks {
		if err := send(chunk); err != nil {
			return err
		}
		m.chunks[i] = nil
	}
	return m.err
}
