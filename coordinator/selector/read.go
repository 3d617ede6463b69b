package selector

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// read reads a selector that is there and valid; false where it may not be. Thousands of values are read ten times
// as fast as apimachinery reads them, which holds each against regular expressions.
func read(s *metav1.LabelSelector) (list []requirement, valid bool) {
	if s == nil {
		return nil, false
	}
	list = make([]requirement, 0, len(s.MatchLabels)+len(s.MatchExpressions))
	for k, v := range s.MatchLabels {
		if !isKey(k) || !isValue(v) {
			return nil, false
		}
		list = append(list, newRequirement(k, in, []string{v}))
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		op, wantsValues, known := operatorOf(e.Operator)
		if !known || wantsValues != (len(e.Values) > 0) || !isKey(e.Key) || slices.ContainsFunc(e.Values, isNoValue) {
			return nil, false
		}
		list = append(list, newRequirement(e.Key, op, slices.Clone(e.Values)))
	}
	return list, true
}

func operatorOf(o metav1.LabelSelectorOperator) (op operator, wantsValues, known bool) {
	switch o {
	case metav1.LabelSelectorOpIn:
		return in, true, true
	case metav1.LabelSelectorOpNotIn:
		return notIn, true, true
	case metav1.LabelSelectorOpExists:
		return exists, false, true
	case metav1.LabelSelectorOpDoesNotExist:
		return doesNotExist, false, true
	}
	return 0, false, false
}

// isKey tells whether a text is a qualified name: a name, behind a DNS subdomain and a slash or not.
func isKey(s string) bool {
	if prefix, name, found := strings.Cut(s, "/"); found {
		return isSubdomain(prefix) && name != "" && isValue(name)
	}
	return s != "" && isValue(s)
}

// isValue tells whether a text is a label's value.
func isValue(s string) bool {
	return len(s) <= validation.LabelValueMaxLength && isWord(s, func(c byte) bool {
		return isLower(c) || 'A' <= c && c <= 'Z'
	}, "-_.")
}

func isNoValue(s string) bool { return !isValue(s) }

func isSubdomain(s string) bool {
	if s == "" || len(s) > validation.DNS1123SubdomainMaxLength {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || !isWord(part, isLower, "-") {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// isWord tells whether a text is of some letters, and of some marks, not at either end.
func isWord(s string, isLetter func(byte) bool, marks string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || i == len(s)-1 || strings.IndexByte(marks, s[i]) < 0) {
			return false
		}
	}
	return true
}
