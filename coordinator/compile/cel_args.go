package compile

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CELGroupVersion is that of the arguments of CELFilter and CELScore.
var CELGroupVersion = schema.GroupVersion{Group: "shardsched.io", Version: "v1"}

// What becomes of a node on which an expression of CELFilter fails.
const (
	// FailurePolicyFail refuses it.
	FailurePolicyFail = "Fail"
	// FailurePolicyIgnore takes the expression for true.
	FailurePolicyIgnore = "Ignore"
)

// What becomes of the scores of CELScore.
const (
	// NormalizeNone takes them as they are, from 0 to 100.
	NormalizeNone = "None"
	// NormalizeHighest makes the highest of the feasible nodes 100.
	NormalizeHighest = "Highest"
	// NormalizeLowest makes the highest 0: the lowest is the best.
	NormalizeLowest = "Lowest"
)

// CELFilterArgs are the arguments of CELFilter. Every expression has to be true of a node.
type CELFilterArgs struct {
	metav1.TypeMeta `json:",inline"`
	Expressions     []CELFilterExpression `json:"expressions"`
}

// CELFilterExpression is one expression of CELFilter.
type CELFilterExpression struct {
	// Name is in reasons; each once.
	Name       string `json:"name"`
	Expression string `json:"expression"`
	// Message is why a node is refused; empty: a text with the name.
	Message string `json:"message,omitempty"`
	// FailurePolicy is Fail (the default) or Ignore.
	FailurePolicy string `json:"failurePolicy,omitempty"`
}

// CELScoreArgs are the arguments of CELScore. The score is the weighted mean of the
// expressions.
type CELScoreArgs struct {
	metav1.TypeMeta `json:",inline"`
	Expressions     []CELScoreExpression `json:"expressions"`
	// Normalize is None (the default), Highest or Lowest.
	Normalize string `json:"normalize,omitempty"`
}

// CELScoreExpression is one expression of CELScore.
type CELScoreExpression struct {
	// Name is in what explains a score; each once.
	Name       string `json:"name"`
	Expression string `json:"expression"`
	// Weight is 1 (the default) to 100.
	Weight *int32 `json:"weight,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (a *CELFilterArgs) DeepCopyObject() runtime.Object {
	out := *a
	out.Expressions = slices.Clone(a.Expressions)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (a *CELScoreArgs) DeepCopyObject() runtime.Object {
	out := *a
	out.Expressions = slices.Clone(a.Expressions)
	for i, e := range out.Expressions {
		if e.Weight != nil {
			w := *e.Weight
			out.Expressions[i].Weight = &w
		}
	}
	return &out
}
