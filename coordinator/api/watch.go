package api

import (
	"context"

	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/coordinator/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxWatchBytes keeps a message of changes below 4 MiB.
const maxWatchBytes = 3 << 20

// Watch streams the changes of a kind from a revision on. A watch "from now on" begins
// with a message that tells the revision; others have one when there is something to tell.
func (s *Server) Watch(req *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	t, err := s.begin(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	stop := context.AfterFunc(t.ctx, cancel)
	defer stop()

	after := int64(req.GetAfterRevision())
	if after == 0 {
		if after, err = t.store.Revision(ctx); err == nil {
			err = stream.Send(&pb.WatchResponse{Revision: uint64(after)})
		}
	}
	if err == nil {
		err = t.store.WatchRaw(ctx, selector(req.GetKind(), req.GetNamespace()), after, func(events []store.RawEvent, revision int64) error {
			return send(stream, events, revision)
		})
	}
	if t.ctx.Err() != nil && stream.Context().Err() == nil {
		return notLeader(s.now().leader)
	}
	return statusOf(stream.Context(), err)
}

// send tells of changes in as many messages as they need. Each carries a revision that a client
// may resume after, also when it gets no further message.
func send(stream grpc.ServerStreamingServer[pb.WatchResponse], events []store.RawEvent, revision int64) error {
	resp := &pb.WatchResponse{}
	size := 0
	for i := range events {
		e := &events[i]
		n := len(e.Item.Raw) + len(e.Item.Ref.Name) + len(e.Item.Ref.Namespace)
		if size+n > maxWatchBytes && len(resp.Events) > 0 {
			resp.Revision = resumable(events, i)
			if err := stream.Send(resp); err != nil {
				return err
			}
			resp, size = &pb.WatchResponse{}, 0
		}
		size += n
		resp.Events = append(resp.Events, &pb.WatchEvent{Type: eventType(e.Type), Object: object(&e.Item)})
	}
	resp.Revision = uint64(revision)
	return stream.Send(resp)
}

// resumable is the newest revision all of whose changes are among events[:n], n > 0.
func resumable(events []store.RawEvent, n int) uint64 {
	last := events[n-1].Item.Revision
	if events[n].Item.Revision == last {
		last--
	}
	return uint64(last)
}

func eventType(t store.EventType) pb.WatchEventType {
	switch t {
	case store.Added:
		return pb.WatchEventType_WATCH_EVENT_TYPE_ADDED
	case store.Modified:
		return pb.WatchEventType_WATCH_EVENT_TYPE_MODIFIED
	case store.Deleted:
		return pb.WatchEventType_WATCH_EVENT_TYPE_DELETED
	}
	return pb.WatchEventType_WATCH_EVENT_TYPE_UNSPECIFIED
}
