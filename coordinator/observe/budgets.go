package observe

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Budgets are the PodDisruptionBudgets in force, by numbers.
type Budgets interface {
	// Of are the numbers of those that count a pod, Allowed how many pods each lets go.
	Of(*v1.Pod) []uint32
	Allowed() []scorer.Budget
	// NameOf is the name of one; empty: the number stands for more than are told apart.
	NameOf(number uint32) types.NamespacedName
	// Counts tells how many pods one that has a name counts, and how many of them are healthy.
	Counts(number uint32) (expected, healthy int)
}

// Preempting tells whom a pod pushes out, and which budgets pay; nil: nobody.
func Preempting(by *v1.Pod, victims []*v1.Pod, budgets Budgets) *pb.Preemption {
	if len(victims) == 0 {
		return nil
	}
	out := &pb.Preemption{Priority: compile.Priority(by)}
	uses := map[uint32]*pb.BudgetUse{}
	for _, v := range victims {
		out.Victims = append(out.Victims, &pb.PreemptedPod{
			Pod: v.Namespace + "/" + v.Name, Uid: string(v.UID), Priority: compile.Priority(v),
		})
		for _, number := range budgets.Of(v) {
			if uses[number] == nil {
				uses[number] = &pb.BudgetUse{Budget: budgetName(budgets, number)}
			}
			uses[number].Victims++
		}
	}
	for _, allowed := range budgets.Allowed() {
		if use := uses[allowed.ID]; use != nil {
			use.Allowed = allowed.Allowed
			out.Budgets = append(out.Budgets, use)
		}
	}
	slices.SortFunc(out.Budgets, func(a, b *pb.BudgetUse) int { return strings.Compare(a.Budget, b.Budget) })
	return out
}

// budgetName is namespace/name; empty: more budgets than are told apart.
func budgetName(budgets Budgets, number uint32) string {
	if name := budgets.NameOf(number); name.Name != "" {
		return name.String()
	}
	return ""
}

// tellBudgets writes the budgets that count a pod.
func (x *Explainer) tellBudgets(out *pb.ExplainResponse, p *v1.Pod) {
	numbers := x.Budgets.Of(p)
	if len(numbers) == 0 {
		return
	}
	for _, b := range x.Budgets.Allowed() {
		if !slices.Contains(numbers, b.ID) {
			continue
		}
		told := &pb.DisruptionBudget{Budget: budgetName(x.Budgets, b.ID), Allowed: b.Allowed}
		if told.Budget != "" {
			expected, healthy := x.Budgets.Counts(b.ID)
			told.Expected, told.Healthy = uint32(expected), uint32(healthy)
		}
		out.Budgets = append(out.Budgets, told)
	}
	slices.SortFunc(out.Budgets, func(a, b *pb.DisruptionBudget) int { return strings.Compare(a.Budget, b.Budget) })
}
