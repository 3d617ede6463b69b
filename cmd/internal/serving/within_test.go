package serving

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// inner answers calls of its own process.
type inner struct {
	pb.UnimplementedSchedulerServiceServer
}

func (inner) Explain(_ context.Context, r *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	switch r.GetName() {
	case "bug":
		panic("a bug")
	case "large":
		return &pb.ExplainResponse{Note: strings.Repeat("x", 2000)}, nil
	case "standby":
		s, _ := status.New(codes.FailedPrecondition, "not the leader").WithDetails(&pb.NotLeader{Holder: "b"})
		return nil, s.Err()
	}
	return &pb.ExplainResponse{Note: r.GetName()}, nil
}

func TestAProcessCallsItself(t *testing.T) {
	g := &Guard{}
	r := prometheus.NewRegistry()
	g.CountRefusals(r, klog.Background())
	c := pb.NewSchedulerServiceClient(g.Within(&pb.SchedulerService_ServiceDesc, inner{}, 1000))
	if got, err := c.Explain(t.Context(), &pb.ExplainRequest{Name: "a"}); err != nil || got.GetNote() != "a" {
		t.Errorf("got %v, %v, want the answer", got, err)
	}
	for name, want := range map[string]codes.Code{
		"bug": codes.Internal, "large": codes.ResourceExhausted, strings.Repeat("x", 2000): codes.ResourceExhausted, "standby": codes.FailedPrecondition,
	} {
		_, err := c.Explain(t.Context(), &pb.ExplainRequest{Name: name})
		if status.Code(err) != want {
			t.Errorf("%.10s: got %v, want %v", name, err, want)
		}
		if want == codes.FailedPrecondition && len(status.Convert(err).Details()) != 1 {
			t.Errorf("%s: got no detail", name)
		}
	}
	if got, err := testutil.GatherAndCount(r, "shardsched_refused_calls_total"); err != nil || got == 0 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := c.Watch(t.Context(), &pb.WatchRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a stream: got %v, want unimplemented", err)
	}
	if _, err := c.GetSummary(t.Context(), &pb.GetSummaryRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("what the service lacks: got %v, want unimplemented", err)
	}
}
