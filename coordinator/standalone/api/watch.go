package api

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// maxWatchBytes keeps a message of changes below 4 MiB.
	maxWatchBytes = 3 << 20
	// watchPatience is how long a watcher may leave a message unread. What etcd sends
	// meanwhile piles up in this process.
	watchPatience = 30 * time.Second
)

// errSlow ends the watch of a client that does not read.
var errSlow = errors.New("the watcher reads too slowly")

// Watch streams the changes of a kind from a revision on. A watch "from now on" begins
// with a message that tells the revision; others have one when there is something to tell.
func (s *Server) Watch(req *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	t, err := s.beginStored(req)
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
		w := watcher{stream: stream, clock: s.clock, cancel: cancel}
		err = t.store.WatchRaw(ctx, selector(req.GetKind(), req.GetNamespace()), after, w.tell)
	}
	switch {
	case stream.Context().Err() != nil:
		return statusOf(stream.Context(), err)
	case t.ctx.Err() != nil:
		return notLeader(s.now().leader)
	case errors.Is(err, errSlow):
		return newStatus(codes.Unavailable, err.Error())
	}
	return statusOf(stream.Context(), err)
}

// watcher is one client's watch.
type watcher struct {
	stream grpc.ServerStreamingServer[pb.WatchResponse]
	clock  clock.WithDelayedExecution
	cancel context.CancelFunc // of the watch in etcd
}

// send sends one message. Where the client does not take it in time, the watch in etcd ends at
// once, so that nothing more piles up, and the client's when it reads or hangs up.
func (w *watcher) send(resp *pb.WatchResponse) error {
	patience := w.clock.AfterFunc(watchPatience, w.cancel)
	err := w.stream.Send(resp)
	if !patience.Stop() {
		return errSlow
	}
	return err
}

// tell sends changes in as many messages as they need. Each carries a revision that a client
// may resume after, also when it gets no further message.
func (w *watcher) tell(events []store.RawEvent, revision int64) error {
	resp := &pb.WatchResponse{}
	size := 0
	for i := range events {
		e := &events[i]
		n := len(e.Item.Raw) + len(e.Item.Ref.Name) + len(e.Item.Ref.Namespace)
		if size+n > maxWatchBytes && len(resp.Events) > 0 {
			resp.Revision = resumable(events, i)
			if err := w.send(resp); err != nil {
				return err
			}
			resp, size = &pb.WatchResponse{}, 0
		}
		size += n
		resp.Events = append(resp.Events, &pb.WatchEvent{Type: eventType(e.Type), Object: object(&e.Item)})
	}
	resp.Revision = uint64(revision)
	return w.send(resp)
}

// resumable is the newest revision all of whose changes are among events[:n], n > 0.
func resumable(events []store.RawEvent, n int) uint64 {
	last := events[n-1].Item.Revision
	if events[n].Item.Revision == last {
		last--
	}
	return uint64(last)
}

func eventType(t objects.EventType) pb.WatchEventType {
	switch t {
	case objects.Added:
		return pb.WatchEventType_WATCH_EVENT_TYPE_ADDED
	case objects.Modified:
		return pb.WatchEventType_WATCH_EVENT_TYPE_MODIFIED
	case objects.Deleted:
		return pb.WatchEventType_WATCH_EVENT_TYPE_DELETED
	}
	return pb.WatchEventType_WATCH_EVENT_TYPE_UNSPECIFIED
}
