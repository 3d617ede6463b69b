package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// wholeExponent matches a number that resource.ParseQuantity would take minutes
// for, such as 1e-2000000000: it must be found before the decoder meets it.
var wholeExponent = regexp.MustCompile(`^[+-]?[0-9.]+[eE][+-]?[0-9]{4,}$`)

// absurdQuantity finds one in the JSON of an object. A number of that look that
// stands where no quantity does, such as a label, is left alone.
func absurdQuantity(raw []byte) (problem, bool) {
	if !maybeAbsurd(raw) {
		return problem{}, false
	}
	var tree any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // a quantity may stand there without quotes
	if numbers.Decode(&tree) != nil {
		return problem{}, false
	}
	field, found := findAbsurd(tree, "", false)
	if !found {
		return problem{}, false
	}
	return problem{strings.TrimPrefix(field, "."), "a quantity's exponent has too many digits"}, true
}

// maybeAbsurd tells, quickly, whether four digits follow an e that follows a digit
// anywhere. An escaped digit is no digit to it, so any escape counts as well.
func maybeAbsurd(raw []byte) bool {
	digits, exponent := 0, false // digits since the e
	before := byte(0)
	for _, b := range raw {
		switch {
		case b|0x20 == 'e':
			exponent, digits = before == '.' || isDigit(before), 0
		case exponent && isDigit(b):
			if digits++; digits == 4 {
				return true
			}
		case exponent && digits == 0 && (b == '+' || b == '-'):
		case b == 'u' && before == '\\':
			return true
		default:
			exponent = false
		}
		before = b
	}
	return false
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func findAbsurd(v any, path string, quantity bool) (string, bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			inside := quantity || slices.Contains([]string{
				"requests", "limits", "capacity", "allocatable", "allocatedResources", "overhead", "sizeLimit", "divisor",
				"maximumVolumeSize", "hard", "used",
				"counters", "consumedCapacity",
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
	case json.Number:
		return path, quantity && wholeExponent.MatchString(v.String())
	}
	return "", false
}
