package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// What callers can make a worker hold at a time. A coordinator has one connection, and on it a call for each
// round that it has under way, a few for rounds in which it stands in for others, and one for standby shards.
const (
	maxConnections = 32
	maxStreams     = 32 // of a connection
	maxHeaderBytes = 64 << 10
	// maxHandshake is how long a connection may take until it is one.
	maxHandshake = 10 * time.Second
	// maxCall is how far in the future a call's deadline may be. Coordinators give up long before.
	maxCall = 10 * time.Minute
	// leastRowBytes is less than what any row takes, also one that holds no node: a table is as long as its
	// last row's number.
	leastRowBytes = 100
	// usageBytes and usageFactor are what a usage that pods may refer to takes while a snapshot is read.
	usageBytes, usageFactor = 128, 8
)

// tooLargeError is a table for which the budget for shards has no room.
type tooLargeError struct {
	shard         uint32
	bytes, budget int64
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("shard %d takes %d bytes or more, there is room for %d", e.shard, e.bytes, e.budget)
}

// building is the memory of the tables that are being made of snapshots, all together no more than the
// budget for shards.
type building struct {
	budget int64
	bytes  atomic.Int64
}

// draft is one such table.
type draft struct {
	*building
	shard  uint32
	loader *scorer.Loader
	usages int64
	bytes  int64 // of those of building
}

// take refuses a chunk for which there is no room, before it is made part of the table.
func (d *draft) take(chunk *pb.LoadSnapshotRequest) error {
	for _, u := range chunk.GetUsages() {
		d.usages += usageBytes + usageFactor*int64(proto.Size(u))
	}
	last := int64(0)
	if rows := chunk.GetRows(); len(rows) > 0 {
		last = int64(rows[len(rows)-1].GetRow()) + 1
	}
	return d.resize(max(d.loader.MemoryBytes(), last*leastRowBytes) + d.usages)
}

// resize notes what the draft takes now.
func (d *draft) resize(bytes int64) error {
	more := bytes - d.bytes
	d.bytes = bytes
	if all := d.building.bytes.Add(more); more > 0 && all > d.budget {
		return &tooLargeError{d.shard, all, d.budget}
	}
	return nil
}

// bounded refuses calls of the worker's service that could wait for ever: without a deadline, or with one
// that is too far away. Health is asked as long as the asker likes.
func bounded(ctx context.Context, method string) error {
	if !strings.HasPrefix(method, "/"+pb.WorkerService_ServiceDesc.ServiceName+"/") {
		return nil
	}
	end, ok := ctx.Deadline()
	if left := time.Until(end); !ok || left > maxCall {
		return toStatus(invalid(errors.New("expected one within "+maxCall.String()), "deadline"))
	}
	return nil
}

func boundedUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := bounded(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func boundedStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := bounded(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, stream)
}

// checkRows refuses deltas that would make a table longer than the budget has room for.
func checkRows(d *pb.ShardDeltas, budget int64) error {
	longest := min(budget/leastRowBytes, math.MaxUint32)
	for _, x := range d.GetDeltas() {
		if int64(x.GetRow()) >= max(longest, 1) {
			return &tooLargeError{d.GetShard(), int64(x.GetRow()) * leastRowBytes, budget}
		}
	}
	return nil
}
