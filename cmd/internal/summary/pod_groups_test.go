package summary

import (
	"strings"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestPodGroupsOfASimulation(t *testing.T) {
	s := &pb.Summary{PodGroups: []*pb.PodGroupOutcome{
		{Status: &pb.PodGroupStatus{Namespace: "ml", Name: "big", State: "unschedulable", Verdict: "pod group is\nunschedulable"}},
		{
			Status:  &pb.PodGroupStatus{Namespace: "ml", Name: "train", State: "scheduled", Verdict: "pod group is scheduled"},
			Nodes:   []*pb.PodGroupNode{{Node: "a", Domain: "r1", Members: 2}, {Node: "b", Domain: "r1", Members: 1}, {Node: "c", Members: 1}},
			Victims: []string{"ns/p", "ns/q"},
		},
	}}
	var b strings.Builder
	if err := Render(&b, s, Style{}); err != nil {
		t.Fatal(err)
	}
	want := `
Pod groups
ml/big does not start: pod group is?unschedulable
ml/train starts: pod group is scheduled
  3 members on 2 nodes in r1: a (2), b (1); 1 member on 1 node: c (1)
  2 pods to leave for it: ns/p, ns/q
`
	if !strings.Contains(b.String(), want) {
		t.Errorf("got\n%s\nwant it to have\n%s", b.String(), want)
	}
}
