package coordinator

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/scorer"
)

// CELReadsPods tells the queue whether an expression of the profile's CELFilter reads what the
// pods of a node add up to.
func (h hintProfiles) CELReadsPods(p *v1.Pod) bool {
	prof := h.profiles[p.Spec.SchedulerName]
	return prof != nil && prof.CELReadsPods()
}

// expressionFailures tells why expressions failed on a row that CELFilter refused.
func (x *explainer) expressionFailures(t *scorer.Table, row uint32, plugin string) (list []string) {
	if plugin != rules.CELFilter {
		return nil
	}
	for _, o := range x.s.eval().Expressions(t, row, nil, x.class.Scorer) {
		if why, failed := strings.CutPrefix(o.Outcome, "failed: "); failed && o.Plugin == plugin {
			list = append(list, fmt.Sprintf("%s: %s", o.Name, why))
		}
	}
	return list
}
