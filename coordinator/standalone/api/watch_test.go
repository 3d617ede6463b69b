package api

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// reader is the client's end of a watch: reading decides when Send returns.
type reader struct {
	grpc.ServerStreamingServer[pb.WatchResponse]
	reading func()
	got     []*pb.WatchResponse
}

func (r *reader) Send(resp *pb.WatchResponse) error {
	r.reading()
	r.got = append(r.got, resp)
	return nil
}

func TestAWatcherThatDoesNotReadIsSentAway(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	ended := make(chan struct{})
	for name, tc := range map[string]struct {
		reading func()
		want    error
	}{
		"in time":  {func() { clk.Step(watchPatience - time.Nanosecond) }, nil},
		"too late": {func() { clk.Step(watchPatience) }, errSlow},
	} {
		w := watcher{stream: &reader{reading: tc.reading}, clock: clk, cancel: func() { close(ended) }}
		if err := w.tell(nil, 7); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	<-ended // the watch in etcd was ended, once
}

func TestEveryMessageHasARevisionToResumeAfter(t *testing.T) {
	big := make([]byte, maxWatchBytes/2+1) // so that each message holds one event
	var events []store.RawEvent
	for i, revision := range []int64{5, 5, 6, 9} {
		ref := objects.Ref{Kind: objects.KindNode, Name: fmt.Sprint(i)}
		events = append(events, store.RawEvent{Type: objects.Added, Item: store.Item{Ref: ref, Raw: big, Revision: revision}})
	}
	r := &reader{reading: func() {}}
	w := watcher{stream: r, clock: clocktesting.NewFakeClock(time.Now())}
	if err := w.tell(events, 9); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for _, resp := range r.got {
		got = append(got, resp.GetRevision())
	}
	// After the first message revision 5 is not complete yet.
	if want := "[4 5 6 9]"; fmt.Sprint(got) != want {
		t.Errorf("revisions: got %v, want %s", got, want)
	}
}
