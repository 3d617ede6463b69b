package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// longExponent matches a number that resource.ParseQuantity would take minutes
// for, such as 1e-2000000000: found before the decoder meets it.
var longExponent = regexp.MustCompile(`[0-9.][eE][+-]?[0-9]{4,}`)

// wholeExponent matches a text that is nothing but such a number.
var wholeExponent = regexp.MustCompile(`^[+-]?[0-9.]+[eE][+-]?[0-9]{4,}$`)

// absurdQuantity finds one in the JSON of an object. A number of that look that
// stands where no quantity does, such as a label, is left alone.
func absurdQuantity(raw []byte) (problem, bool) {
	if !longExponent.Match(raw) {
		return problem{}, false
	}
	var tree any
	if unmarshal(raw, &tree) != nil {
		return problem{}, false
	}
	field, found := findAbsurd(tree, "", false)
	if !found {
		return problem{}, false
	}
	return problem{strings.TrimPrefix(field, "."), "a quantity's exponent has too many digits"}, true
}

func findAbsurd(v any, path string, quantity bool) (string, bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			inside := quantity || slices.Contains([]string{
				"requests", "limits", "capacity", "allocatable", "allocatedResources", "overhead", "sizeLimit", "divisor", "hard", "used",
			}, key)
			if p, found := findAbsurd(child, path+keyStep(key), inside); found {
				return p, true
			}
		}
	case []any:
		for i, child := range v {
			if p, found := findAbsurd(child, fmt.Sprintf("%s[%d]", path, i), quantity); found {
				return p, true
			}
		}
	case string:
		return path, quantity && wholeExponent.MatchString(v)
	}
	return "", false
}
