package rules

import (
	"cmp"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/expression"
)

// CELFilter is a plugin of ours: expressions that must be true of a node.
//
// Differs from upstream: it refuses the names of CELFilter and CELScore.
const CELFilter = "CELFilter"

func celFilter() *Rule {
	return &Rule{
		Name: CELFilter,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_CEL_FILTER,
			FilterAsks: func(q *pb.Query) bool { return len(q.GetCel().GetFilters()) > 0 },
		},
		Points: []framework.Point{framework.Filter},
		Ours:   true,
		Arguments: ours(completeCELFilter, validateCELFilter,
			func(c *compile.ProfileConfig) *compile.CELFilterArgs { return &c.CELFilter }),
		Hints: expressionHints,
		Words: expressionWords(),
	}
}

func completeCELFilter(a *compile.CELFilterArgs) {
	for i := range a.Expressions {
		a.Expressions[i].FailurePolicy = cmp.Or(a.Expressions[i].FailurePolicy, compile.FailurePolicyFail)
	}
}

func validateCELFilter(path *field.Path, a *compile.CELFilterArgs) field.ErrorList {
	list := path.Child("expressions")
	errs := numberOfExpressions(list, len(a.Expressions))
	names := sets.Set[string]{}
	policies := []string{compile.FailurePolicyFail, compile.FailurePolicyIgnore}
	for i, e := range a.Expressions {
		at := list.Index(i)
		errs = append(errs, validateExpression(at, e.Name, e.Expression, expression.Filter, names)...)
		if !sets.New(policies...).Has(e.FailurePolicy) {
			errs = append(errs, field.NotSupported(at.Child("failurePolicy"), e.FailurePolicy, policies))
		}
		const most = 512
		if len(e.Message) > most {
			errs = append(errs, field.TooLong(at.Child("message"), e.Message, most))
		} else if strings.ContainsAny(e.Message, "\r\n") {
			errs = append(errs, field.Invalid(at.Child("message"), e.Message, "must be one line"))
		}
	}
	return errs
}

func numberOfExpressions(path *field.Path, n int) field.ErrorList {
	switch {
	case n == 0:
		return field.ErrorList{field.Required(path, "at least one expression must be specified")}
	case n > pb.MaxCelExpressions:
		return field.ErrorList{field.TooMany(path, n, pb.MaxCelExpressions)}
	}
	return nil
}

// validateExpression checks what both plugins have. names are those before it.
func validateExpression(path *field.Path, name, text string, kind expression.Kind, names sets.Set[string]) field.ErrorList {
	var errs field.ErrorList
	const most = 63
	switch at := path.Child("name"); {
	case name == "":
		errs = append(errs, field.Required(at, "an expression is told by its name"))
	case len(name) > most:
		errs = append(errs, field.TooLong(at, name, most))
	case strings.ContainsAny(name, "\r\n\""):
		errs = append(errs, field.Invalid(at, name, "must be one line without quotes"))
	case names.Has(name):
		errs = append(errs, field.Duplicate(at, name))
	}
	names.Insert(name)
	at := path.Child("expression")
	if strings.TrimSpace(text) == "" {
		return append(errs, field.Required(at, "an expression of the Common Expression Language"))
	}
	if _, err := expression.Compile(text, kind); err != nil {
		errs = append(errs, field.Invalid(at, shortened(text), err.Error()))
	}
	return errs
}

// shortened is an expression as an error quotes it, so that what is wrong with it is told too.
func shortened(text string) string {
	const most = 160
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s…", strings.ToValidUTF8(text[:most], ""))
}

// expressionReader is what Profiles may tell of a profile's expressions besides.
type expressionReader interface {
	// CELReadsPods tells whether an expression of CELFilter reads what the pods of a node add up
	// to.
	CELReadsPods(pod *v1.Pod) bool
}

// expressionHints waits for nodes that changed, for the pod itself to change, and where an expression
// reads what the pods of a node add up to, for pods to go or to shrink. What an expression reads
// of a node's images, nobody waits for: they change all the time.
func expressionHints(profiles queue.Profiles) queue.Plugin {
	reader, _ := profiles.(expressionReader)
	readsPods := func(p *queue.Pod) bool { return reader == nil || reader.CELReadsPods(p.Obj) }
	return queue.Plugin{Local: true, Events: []queue.Registration{
		{Resource: queue.Node, Actions: queue.Add | queue.UpdateNodeAllocatable | queue.UpdateNodeLabel | queue.UpdateNodeTaint |
			queue.UpdateNodeAnnotation},
		{Resource: queue.AnyPod, Actions: queue.Delete, If: queue.FreesRoom, Helps: func(p *queue.Pod, _ *queue.Event) bool {
			return readsPods(p)
		}},
		{Resource: queue.AnyPod, Actions: queue.AnyPodUpdate, Helps: func(p *queue.Pod, e *queue.Event) bool {
			return queue.IsOwn(p, e) || e.Resource() == queue.AssignedPod && e.Action() == queue.UpdatePodScaleDown && readsPods(p)
		}},
	}}
}

// How the plugin's reasons begin, and go on before the name of the expression.
const (
	saysNever      = "pod didn't match " // it is false whatever the node
	saysFalse      = "node(s) didn't match "
	saysFailed     = "node(s) failed "
	saysCostly     = "node(s) exceeded the cost limit of "
	saysExpression = "CEL expression "
)

func expressionWords() *Words {
	return &Words{
		Says: []string{
			saysFalse + saysExpression, saysFailed + saysExpression, saysCostly + saysExpression, saysNever + saysExpression, saysExpression,
		},
		Lacks: func(r *Refused) []string {
			for _, o := range r.Row.Expressions() {
				if o.Plugin != CELFilter || o.Outcome == "true" {
					continue
				}
				text := fmt.Sprintf("%s: %s is %s", o.Name, short(expressionText(r, o.Name)), o.Outcome)
				if why, failed := strings.CutPrefix(o.Outcome, "failed: "); failed {
					text = fmt.Sprintf("%s: %s: %s", o.Name, why, short(expressionText(r, o.Name)))
				}
				if len(o.Saw) > 0 {
					text += " (" + strings.Join(o.Saw, ", ") + ")"
				}
				return []string{text}
			}
			return nil
		},
		Wants: func(a *Asked) []Want {
			var out []Want
			for _, reason := range a.Reasons {
				w := Want{Cause: reason, Help: "nodes for which it is true, or another expression"} // a message of its own
				if says, name, ok := strings.Cut(reason, saysExpression); ok {
					w.Cause = saysExpression + name + map[string]string{
						saysFalse: " is false", saysNever: " is false", saysFailed: " fails", saysCostly: " costs too much",
					}[says]
				}
				out = append(out, w)
			}
			return out
		},
	}
}

// expressionText is an expression of the class by its name.
func expressionText(r *Refused, name string) string {
	for _, e := range r.Class.Query.GetCel().GetFilters() {
		if e.GetName() == name {
			return strings.Join(strings.Fields(e.GetText()), " ")
		}
	}
	return ""
}
