package api_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestALeaderWithoutAStoreAnswersForTheScheduler(t *testing.T) {
	r := follower(t)
	r.fence = &fence{}
	r.server.SetLeading(nil, r.fence, r.sched)
	about := map[string]bool{"Apply": true, "Delete": true, "ListObjects": true, "Watch": true}
	for what, err := range r.calls(t) {
		if !about[what] {
			wantCode(t, what, err, codes.OK)
			continue
		}
		wantCode(t, what, err, codes.FailedPrecondition)
		s := status.Convert(err)
		want := "objects are the API server's: use kubectl"
		if d := s.Details(); s.Message() != want || len(d) != 1 || !proto.Equal(d[0].(proto.Message), &pb.NotKept{}) {
			t.Errorf("%s: got %q with details %v, want %q with the detail that they are not kept", what, s.Message(), d, want)
		}
	}
	got, err := r.GetLeader(t.Context(), &pb.GetLeaderRequest{})
	if want := (&pb.GetLeaderResponse{Leader: self, IsSelf: true}); err != nil || !proto.Equal(got, want) {
		t.Errorf("GetLeader: got %v, %v, want %v", got, err, want)
	}
	r.fence.expired.Store(true)
	for what, err := range r.calls(t) {
		wantNotLeader(t, what+" when the lease ran out", err, nil)
	}
}
