package console

import (
	"strings"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func waitingGang() *pb.PodGroupStatus {
	return &pb.PodGroupStatus{
		Namespace: "ml", Name: "train", Policy: "Gang", MinCount: 16, State: "unschedulable", Exist: 16, Fit: 8, Domain: "rack=r7", DomainFits: 8,
		Verdict: "pod group is unschedulable: 8 of 16 needed fit (16 exist)", Since: at(40),
		Reasons: []*pb.ReasonCount{{Reason: "Insufficient nvidia.com/gpu", Nodes: 300}},
	}
}

func TestThePageOfPodGroupsTellsWhyTheyWait(t *testing.T) {
	s := &scheduler{podGroups: &pb.ListPodGroupsResponse{
		PodGroups: []*pb.PodGroupStatus{waitingGang(), {Namespace: "ml", Name: "done", Policy: "Basic", State: "scheduled", Exist: 2, Scheduled: 2, Fit: 2}},
		States:    []*pb.PodGroupStateCount{{State: "unschedulable", PodGroups: 1}, {State: "scheduled", PodGroups: 1}},
	}}
	got := text(t, newConsole(t, s), "podgroups?namespace=ml")
	for _, want := range []string{"1 of 2 pod groups wait.", "ml/train", "8 of 16 needed fit (16 exist)", "shardsched get podgroups -n ml"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q: %s", want, got)
		}
	}
	s.podGroups = &pb.ListPodGroupsResponse{Note: "PodGroups are not read: the feature gate GenericWorkload is off"}
	if got := text(t, newConsole(t, s), "podgroups"); !strings.Contains(got, "the feature gate GenericWorkload is off.") {
		t.Errorf("the page does not say why there is none: %s", got)
	}
}

func TestThePageOfAPodGroupTellsItsMembers(t *testing.T) {
	s := &scheduler{
		podGroup: &pb.ExplainPodGroupResponse{
			Status: waitingGang(), TopologyKey: "rack", DoNotFit: 8, HeldBack: 8, Members: []*pb.PodGroupMember{
				{Name: "train-8", State: "does not fit", Queue: "unschedulable", Message: "0/512 nodes are available", Attempts: 3},
				{Name: "train-0", State: "held back by mates", Queue: "unschedulable"},
			},
		},
		explanation: &pb.ExplainResponse{PodGroup: waitingGang(), MemberState: "held back by mates"},
	}
	c := newConsole(t, s)
	got := text(t, c, "podgroup?namespace=ml&name=train")
	for _, want := range []string{"8 of 16 needed fit", "rack=r7 fits 8", "Insufficient nvidia.com/gpu 300", "ml/train-8 does not fit", "held back by mates"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q: %s", want, got)
		}
	}
	if got := text(t, c, "podgroup"); !strings.Contains(got, "Which pod group?") {
		t.Errorf("without a name the page asks for none: %s", got)
	}
	if w := ask(c, "GET", Path+"pod?namespace=ml&name=train-0"); !strings.Contains(w.Body.String(), `href="podgroup?name=train&amp;namespace=ml"`) {
		t.Errorf("the page of a member leads to no pod group: %s", w.Body)
	}
	if got := text(t, c, "pod?namespace=ml&name=train-0"); !strings.Contains(got, "In its pod group held back by mates") {
		t.Errorf("the page of a member does not tell where it stands: %s", got)
	}
}
