package worker

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// LoadSnapshot implements pb.WorkerServiceServer.
func (s *Server) LoadSnapshot(stream grpc.ClientStreamingServer[pb.LoadSnapshotRequest, pb.LoadSnapshotResponse]) error {
	start := s.clock.Now()
	resp, err := s.loadSnapshot(stream)
	if err == nil {
		err = stream.SendAndClose(resp)
	}
	err = toStatus(err)
	s.metrics.request("LoadSnapshot", err, s.clock.Since(start))
	return err
}

// loadSnapshot builds a table of the chunks as they come, and then exchanges the shard.
func (s *Server) loadSnapshot(
	stream grpc.ClientStreamingServer[pb.LoadSnapshotRequest, pb.LoadSnapshotResponse],
) (*pb.LoadSnapshotResponse, error) {
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil, invalid(io.ErrUnexpectedEOF, "snapshot without a header")
	}
	if err != nil {
		return nil, err
	}
	header := first.GetHeader()
	if header == nil {
		return nil, invalid(errors.New("the first chunk has none"), "snapshot header")
	}
	if err := sameRules(header.GetRules()); err != nil {
		return nil, err
	}
	if err := header.Validate(); err != nil {
		return nil, invalid(err, "snapshot header")
	}
	if err := s.terms.fits(header.GetCluster()); err != nil {
		return nil, err
	}
	if err := s.admit(stream.Context(), header.GetTerm()); err != nil {
		return nil, err
	}
	table, err := s.receive(stream, first)
	if err != nil {
		return nil, err
	}
	if err := s.admit(stream.Context(), header.GetTerm()); err != nil {
		return nil, err
	}
	held := newHeldShard(header.GetTerm(), table)
	bytes := held.bytes // afterwards it is the cache's
	s.shards.put(header.GetShard(), held)
	s.metrics.snapshots.Inc()
	return &pb.LoadSnapshotResponse{TableBytes: uint64(bytes)}, nil
}

// receive builds the table of all chunks, of which the first has come.
func (s *Server) receive(stream grpc.ClientStreamingServer[pb.LoadSnapshotRequest, pb.LoadSnapshotResponse],
	chunk *pb.LoadSnapshotRequest) (*scorer.Table, error) {
	header := chunk.GetHeader()
	loader := scorer.NewLoader(header.GetShard(), header.GetGeneration())
	room := &draft{building: &s.building, shard: header.GetShard(), loader: loader}
	defer func() { s.building.bytes.Add(-room.bytes) }()
	var usages []*pb.PodUsage
	last := -1 // the last row
	for n := 0; ; n++ {
		if n > 0 && chunk.GetHeader() != nil {
			return nil, invalid(errors.New("a header in mid-stream"), "snapshot chunk %d", n)
		}
		if err := chunk.Validate(); err != nil {
			return nil, invalid(err, "snapshot chunk %d", n)
		}
		if err := room.take(chunk); err != nil {
			return nil, err
		}
		usages = append(usages, chunk.GetUsages()...)
		if err := resolveUsages(chunk.GetRows(), usages); err != nil {
			return nil, invalid(err, "snapshot chunk %d", n)
		}
		if rows := chunk.GetRows(); len(rows) > 0 {
			if int(rows[0].GetRow()) <= last {
				return nil, invalid(fmt.Errorf("row %d after row %d", rows[0].GetRow(), last), "snapshot")
			}
			last = int(rows[len(rows)-1].GetRow())
		}
		if err := loader.Add(chunk.GetRows(), chunk.GetCounters(), chunk.GetDevices()); err != nil {
			return nil, invalid(err, "snapshot of shard %d", header.GetShard())
		}
		if err := room.resize(loader.MemoryBytes() + room.usages); err != nil {
			return nil, err
		}
		var err error
		if chunk, err = stream.Recv(); errors.Is(err, io.EOF) {
			return loader.Table(), nil
		} else if err != nil {
			return nil, err
		}
	}
}

// resolveUsages gives pods the usages that they refer to.
func resolveUsages(rows []*pb.SnapshotRow, usages []*pb.PodUsage) error {
	for _, r := range rows {
		for _, p := range r.GetPods() {
			ref := p.GetUsageRef()
			if ref == 0 {
				continue
			}
			if uint64(ref) > uint64(len(usages)) {
				return fmt.Errorf("pod %d of row %d has usage %d of %d", p.GetNumber(), r.GetRow(), ref, len(usages))
			}
			p.Usage, p.UsageRef = usages[ref-1], 0
		}
	}
	return nil
}
