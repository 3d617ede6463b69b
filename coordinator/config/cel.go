package config

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/expression"
)

// The plugins that are ours. They take arguments of our own group.
//
// Differs from upstream: it refuses their names.
const (
	celFilter = "CELFilter"
	celScore  = "CELScore"
)

// versionOfArgs is the version of a plugin's arguments.
func versionOfArgs(plugin string) schema.GroupVersion {
	if plugin == celFilter || plugin == celScore {
		return compile.CELGroupVersion
	}
	return configv1.SchemeGroupVersion
}

func completeCELFilter(a *compile.CELFilterArgs) {
	for i := range a.Expressions {
		orEmpty(&a.Expressions[i].FailurePolicy, compile.FailurePolicyFail)
	}
}

func completeCELScore(a *compile.CELScoreArgs) {
	orEmpty(&a.Normalize, compile.NormalizeNone)
	for i := range a.Expressions {
		orElse(&a.Expressions[i].Weight, 1)
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
