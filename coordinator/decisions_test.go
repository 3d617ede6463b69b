package coordinator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// What was decided is listed: who went where, who nowhere, and who pushed out whom against which budget.
func TestDecisionsAreListed(t *testing.T) {
	all := clusterOf(nodesOf("4", "n"), build.Pod("low").CPU("3").Label("app", "few").Node("n").Priority(1).Obj())
	none := intstr.FromInt32(0)
	all.Cluster = append(all.Cluster, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: build.Selector("app=few")},
	})
	runScenarioWith(t, func(cfg *SchedulerConfig) { cfg.Profiles, cfg.Evictor = withPreemption(), &fakeEvictor{} }, all, nil, func(x *scenario) {
		for _, p := range []*build.PodBuilder{
			build.Pod("fits").CPU("1"), build.Pod("huge").CPU("9"), build.Pod("vip").CPU("3").Priority(5),
		} {
			x.deliver(objects.Added, p.Obj())
		}
		page, err := x.Decisions(x.ctx, &pb.ListDecisionsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, d := range page.Decisions {
			got[d.Decision.Pod] = observe.OutcomeOf(d.Decision) + " " + d.Decision.Node + d.Decision.Nominated + " " + d.Kind + " " + d.Workload
		}
		want := map[string]string{
			"default/fits": "placed n Pod fits", "default/huge": "nowhere  Pod huge", "default/vip": "preempting n Pod vip",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		page, err = x.Decisions(x.ctx, &pb.ListDecisionsRequest{Outcome: pb.OutcomePreempting})
		if err != nil || len(page.Decisions) != 1 {
			t.Fatalf("got %v, %v", page, err)
		}
		preemption := &pb.Preemption{
			Priority: 5, Budgets: []*pb.BudgetUse{{Budget: "default/few", Victims: 1}},
			Victims: []*pb.PreemptedPod{{Pod: "default/low", Uid: string(all.Pods[0].UID), Priority: 1}},
		}
		if d := cmp.Diff(preemption, page.Decisions[0].Preemption, protocmp.Transform()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if _, err := x.Decisions(x.ctx, &pb.ListDecisionsRequest{After: "?"}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a token that is none: got %v", err)
		}
	})
}
