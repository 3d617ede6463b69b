package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"

	"github.com/shardsched/shardsched/cmd/internal/serving"
)

// scheduler answers what a test sets, and counts its calls.
type scheduler struct {
	pb.UnimplementedSchedulerServiceServer
	err     error
	leader  *pb.GetLeaderResponse
	summary *pb.Summary
	workers []*pb.WorkerStatus
	shards  []*pb.ShardStatus
	plugins *pb.ListPluginsResponse

	configuration *pb.GetConfigurationResponse
	// hold is waited for by GetSummary; nil: it does not wait.
	hold  chan struct{}
	calls atomic.Int64 // of GetSummary

	explained *pb.ExplainRequest
	// What is explained, pending, decided and traced; nil: nothing.
	explanation *pb.ExplainResponse
	pending     *pb.ListPendingResponse
	decisions   *pb.ListDecisionsResponse
	podGroups   *pb.ListPodGroupsResponse
	podGroup    *pb.ExplainPodGroupResponse
	decided     *pb.ListDecisionsRequest // the last
	traces      *pb.ListTracesResponse

	nodeMap       *pb.GetNodeMapResponse // nil: of no node
	mapErr        error
	mapped        *pb.GetNodeMapRequest
	fragmentation *pb.GetFragmentationResponse
	node          *pb.ExplainNodeResponse
	devices       []*pb.DeviceStatus
}

func (s *scheduler) GetNodeMap(_ context.Context, r *pb.GetNodeMapRequest) (*pb.GetNodeMapResponse, error) {
	s.mapped = r
	if s.nodeMap == nil {
		return &pb.GetNodeMapResponse{}, s.mapErr
	}
	return s.nodeMap, s.mapErr
}

func (s *scheduler) GetFragmentation(context.Context, *pb.GetFragmentationRequest) (*pb.GetFragmentationResponse, error) {
	if s.fragmentation == nil {
		return &pb.GetFragmentationResponse{}, s.err
	}
	return s.fragmentation, s.err
}

func (s *scheduler) ExplainNode(_ context.Context, r *pb.ExplainNodeRequest) (*pb.ExplainNodeResponse, error) {
	if s.node == nil {
		return &pb.ExplainNodeResponse{Node: r.GetName()}, s.err
	}
	return s.node, s.err
}

func (s *scheduler) ListDevices(context.Context, *pb.ListDevicesRequest) (*pb.ListDevicesResponse, error) {
	return &pb.ListDevicesResponse{Devices: s.devices}, s.err
}

func (s *scheduler) GetLeader(context.Context, *pb.GetLeaderRequest) (*pb.GetLeaderResponse, error) {
	if s.leader == nil {
		return &pb.GetLeaderResponse{}, nil
	}
	return s.leader, nil
}

func (s *scheduler) GetSummary(context.Context, *pb.GetSummaryRequest) (*pb.GetSummaryResponse, error) {
	s.calls.Add(1)
	if s.hold != nil {
		<-s.hold
	}
	return &pb.GetSummaryResponse{Summary: s.summary}, s.err
}

func (s *scheduler) ListWorkers(context.Context, *pb.ListWorkersRequest) (*pb.ListWorkersResponse, error) {
	return &pb.ListWorkersResponse{Workers: s.workers}, s.err
}

func (s *scheduler) ListShards(context.Context, *pb.ListShardsRequest) (*pb.ListShardsResponse, error) {
	return &pb.ListShardsResponse{Shards: s.shards}, s.err
}

func (s *scheduler) ListPlugins(context.Context, *pb.ListPluginsRequest) (*pb.ListPluginsResponse, error) {
	if s.plugins == nil {
		return &pb.ListPluginsResponse{}, s.err
	}
	return s.plugins, s.err
}

func (s *scheduler) GetConfiguration(context.Context, *pb.GetConfigurationRequest) (*pb.GetConfigurationResponse, error) {
	if s.configuration == nil {
		return &pb.GetConfigurationResponse{}, s.err
	}
	return s.configuration, s.err
}

func (s *scheduler) ListPending(context.Context, *pb.ListPendingRequest) (*pb.ListPendingResponse, error) {
	if s.pending == nil {
		return &pb.ListPendingResponse{}, s.err
	}
	return s.pending, s.err
}

func (s *scheduler) ListPodGroups(context.Context, *pb.ListPodGroupsRequest) (*pb.ListPodGroupsResponse, error) {
	if s.podGroups == nil {
		return &pb.ListPodGroupsResponse{}, s.err
	}
	return s.podGroups, s.err
}

func (s *scheduler) ExplainPodGroup(context.Context, *pb.ExplainPodGroupRequest) (*pb.ExplainPodGroupResponse, error) {
	if s.podGroup == nil {
		return &pb.ExplainPodGroupResponse{}, s.err
	}
	return s.podGroup, s.err
}

func (s *scheduler) ListDecisions(_ context.Context, r *pb.ListDecisionsRequest) (*pb.ListDecisionsResponse, error) {
	if s.decided = r; s.decisions == nil {
		return &pb.ListDecisionsResponse{}, s.err
	}
	return s.decisions, s.err
}

func (s *scheduler) ListTraces(context.Context, *pb.ListTracesRequest) (*pb.ListTracesResponse, error) {
	if s.traces == nil {
		return &pb.ListTracesResponse{}, s.err
	}
	return s.traces, s.err
}

func (s *scheduler) Explain(_ context.Context, r *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	s.explained = r
	if s.explanation != nil {
		return s.explanation, s.err
	}
	return &pb.ExplainResponse{}, s.err
}

// noon is what the clock of tests says.
var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func newConsole(t testing.TB, s *scheduler) *Console {
	t.Helper()
	c, err := New(Config{
		Conn: (&serving.Guard{}).Within(&pb.SchedulerService_ServiceDesc, s, 4<<20), Version: "v9", Flags: "--address h:1",
		Now:    func() time.Time { return noon },
		WhatIf: &WhatIf{Answer: func(context.Context, *Question) ([]byte, string, error) { return nil, "", errors.New("asked") }, Copy: hostile},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request; headers are names and values in turn.
func ask(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(""))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
