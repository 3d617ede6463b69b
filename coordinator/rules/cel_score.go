package rules

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/expression"
)

// CELScore is a plugin of ours: a node scores the weighted mean of expressions.
const CELScore = "CELScore"

func celScore() *Rule {
	return &Rule{
		Name: CELScore,
		Part: compile.Part{
			Plugin:    pb.Plugin_PLUGIN_CEL_SCORE,
			ScoreAsks: func(q *pb.Query) bool { return len(q.GetCel().GetScores()) > 0 },
		},
		Points:    []framework.Point{framework.Score},
		Ours:      true,
		Arguments: ours(completeCELScore, validateCELScore, func(c *compile.ProfileConfig) *compile.CELScoreArgs { return &c.CELScore }),
	}
}

func completeCELScore(a *compile.CELScoreArgs) {
	a.Normalize = cmp.Or(a.Normalize, compile.NormalizeNone)
	for i := range a.Expressions {
		orElse(&a.Expressions[i].Weight, 1)
	}
}

func validateCELScore(path *field.Path, a *compile.CELScoreArgs) field.ErrorList {
	list := path.Child("expressions")
	errs := numberOfExpressions(list, len(a.Expressions))
	names := sets.Set[string]{}
	for i, e := range a.Expressions {
		at := list.Index(i)
		errs = append(errs, validateExpression(at, e.Name, e.Expression, expression.Score, names)...)
		errs = append(errs, between(at.Child("weight"), *e.Weight, 1, 100)...)
	}
	ways := []string{compile.NormalizeNone, compile.NormalizeHighest, compile.NormalizeLowest}
	if !sets.New(ways...).Has(a.Normalize) {
		errs = append(errs, field.NotSupported(path.Child("normalize"), a.Normalize, ways))
	}
	return errs
}
