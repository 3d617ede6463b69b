package plainjson

import (
	"encoding/json"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestMarshal(t *testing.T) {
	got, err := Marshal(&pb.GetSummaryResponse{Summary: &pb.Summary{
		Nodes: 1 << 60, Deciding: durationpb.New(1500 * time.Millisecond), DecidedPerSecond: 0.5,
		Utilisation: []*pb.Utilisation{{Resource: "a\"b", NodesByDecile: []uint32{1, 2}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]map[string]any
	if err := json.Unmarshal(got, &tree); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, got)
	}
	s := tree["summary"]
	for name, want := range map[string]any{
		"nodes": float64(1 << 60), "decidingSeconds": 1.5, "bindingSeconds": nil, "decidedPerSecond": 0.5, "idle": false, "submitToBound": nil,
	} {
		if value, there := s[name]; !there || value != want {
			t.Errorf("%s: got %v (there: %v), want %v", name, value, there, want)
		}
	}
}

func TestMarshalTimesAndEnums(t *testing.T) {
	got, err := Marshal(&pb.QueueEntry{Pod: "a/b", Queued: timestamppb.New(time.Unix(0, 500).UTC())})
	if err != nil {
		t.Fatal(err)
	}
	var entry map[string]any
	if err := json.Unmarshal(got, &entry); err != nil {
		t.Fatal(err)
	}
	if got, want := entry["queued"], "1970-01-01T00:00:00.0000005Z"; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	got, err = Marshal(&pb.ApplyResponse{Outcomes: []pb.ApplyOutcome{pb.ApplyOutcome_APPLY_OUTCOME_CREATED, 99}})
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"outcomes\": [\n    \"APPLY_OUTCOME_CREATED\",\n    99\n  ],\n  \"revision\": 0\n}\n"
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
