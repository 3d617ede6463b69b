package cli

import (
	"strings"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestAnExplanationTellsOfDevices(t *testing.T) {
	refused := &pb.RefusedNode{
		Node: "n1", Plugin: "DynamicResources", Reasons: []string{"cannot allocate all claims"},
		Shortfalls: []string{"claim shop/c, request gpu: 1 of 2 devices"},
		Devices: &pb.DeviceShortage{Claim: "shop/c", Requests: []*pb.RequestShortage{{
			Request: "gpu", Class: "gpu.example.com", Wanted: 2, Found: 1, Devices: 3, InClass: 2,
			Nearest: []*pb.MissedDevice{
				{Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0", Cause: "in use by claim shop/other (pod shop/web)"},
				{Driver: "gpu.example.com", Pool: "rack", Cause: "the pool is being updated: not all of its slices are there"},
			},
		}}},
	}
	var b strings.Builder
	err := renderExplanation(&b, "shop/web-0", &pb.ExplainResponse{
		Queue: "unschedulable", Attempts: 1, Nodes: 2, Closest: []*pb.RefusedNode{refused},
		Shortages: []*pb.ShortageCount{{Claim: "shop/c", Request: "gpu", Cause: "in use", Nodes: 2, Devices: 5}},
		Verdicts: []*pb.NodeVerdict{
			{Node: "n1", Refused: refused},
			{Node: "n2", Refused: &pb.RefusedNode{Node: "n2", Devices: &pb.DeviceShortage{Note: "the search was given up"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `Pod shop/web-0 is pending: queue unschedulable, 1 attempt
Now 0 of 2 nodes pass every filter.

What keeps devices from its claims:
  NODES   DEVICES   CLAIM    REQUEST   CAUSE
  2       5         shop/c   gpu       in use

Nodes that come closest:
  NODE   REFUSED BY         REASONS                      WHAT IS MISSING
  n1     DynamicResources   cannot allocate all claims   claim shop/c, request gpu: 1 of 2 devices

Devices, node by node:
  n1: 1 of 2 for request gpu of claim shop/c; class gpu.example.com selects 2 of the node's 3
    gpu.example.com/n1/gpu-0: in use by claim shop/other (pod shop/web)
    gpu.example.com/rack/*: the pool is being updated: not all of its slices are there
  n2: the search was given up

Node by node, now:
`
	if got := b.String(); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant it to begin with\n%s", got, want)
	}
}
