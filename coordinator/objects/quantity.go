package objects

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"

	"k8s.io/apimachinery/pkg/api/resource"
)

// errExponent refuses what ParseQuantity would spend minutes on: 1e-2000000000.
var errExponent = errors.New("a quantity's exponent has too many digits")

const (
	// exponentDigits is how long an exponent may be.
	exponentDigits = 3
	// tokenBytes bounds a number in protobuf; longer ones have a longer length prefix.
	tokenBytes = 100
	// maxDepth bounds how deep checkQuantities looks.
	maxDepth = 64
)

// hugeExponent returns where the first number with a long exponent begins, or -1. It is
// a quick look over raw bytes: what it finds need not be a quantity, but may as well
// be a label such as "5e12345".
func hugeExponent(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		if raw[i]|0x20 != 'e' || !isNumeric(raw[i-1]) {
			continue
		}
		j := i + 1
		if j < len(raw) && (raw[j] == '+' || raw[j] == '-') {
			j++
		}
		digits := j
		for j < len(raw) && raw[j] >= '0' && raw[j] <= '9' {
			j++
		}
		if j-digits > exponentDigits {
			begin := i
			for begin > 0 && (isNumeric(raw[begin-1]) || raw[begin-1] == '-' || raw[begin-1] == '+') {
				begin--
			}
			return begin
		}
	}
	return -1
}

func isNumeric(b byte) bool { return b >= '0' && b <= '9' || b == '.' }

// protobufQuantityAt tells whether a long exponent from begin on, or one that follows, is
// that of a Quantity message: tag and length of the message's only field, a string, right before it.
func protobufQuantityAt(raw []byte, begin int) bool {
	for {
		end := begin
		for end < len(raw) && (isNumeric(raw[end]) || raw[end] == '-' || raw[end] == '+' || raw[end]|0x20 == 'e') {
			end++
		}
		n := end - begin
		if n > tokenBytes {
			return true
		}
		if begin >= 3 && raw[begin-2] == 0x0a && int(raw[begin-1]) >= n && int(raw[begin-3]) == int(raw[begin-1])+2 {
			return true
		}
		next := hugeExponent(raw[end:])
		if next < 0 {
			return false
		}
		begin = end + next
	}
}

// checkQuantities parses every quantity in a JSON object and names the first that is
// not one. It is the slow way, taken when something is wrong already.
func checkQuantities(raw []byte) error {
	var tree map[string]any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber()
	if err := numbers.Decode(&tree); err != nil {
		return fmt.Errorf("JSON: %w", err)
	}
	return walkQuantities(tree, "", false, 0)
}

func walkQuantities(v any, path string, inside bool, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: nested too deep", path)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if !inside && (key == "parameters" || key == "data") {
				continue // a driver's own
			}
			if err := walkQuantities(v[key], joinPath(path, key, inside), inside || holdsQuantities(key, v[key]), depth+1); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range v {
			if err := walkQuantities(e, fmt.Sprintf("%s[%d]", path, i), inside, depth+1); err != nil {
				return err
			}
		}
	case string:
		if inside {
			return checkQuantity(v, path)
		}
	case json.Number:
		if inside {
			return checkQuantity(v.String(), path)
		}
	}
	return nil
}

func checkQuantity(s, path string) error {
	if hugeExponent([]byte(s)) >= 0 {
		return fmt.Errorf("%s: %q: %w", path, short(s), errExponent)
	}
	if _, err := resource.ParseQuantity(s); err != nil {
		return fmt.Errorf("%s: %q is not a quantity: %w", path, short(s), err)
	}
	return nil
}

// holdsQuantities tells whether the strings in a field and below it are quantities. A claim has lists of requests for devices.
func holdsQuantities(key string, value any) bool {
	_, isList := value.([]any)
	return !isList && slices.Contains([]string{"requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources",
		"sizeLimit", "divisor", "maximumVolumeSize", "counters", "consumedCapacity"}, key)
}

func joinPath(path, key string, inside bool) string {
	switch {
	case inside:
		return path + "[" + short(key) + "]"
	case path == "":
		return short(key)
	}
	return path + "." + short(key)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
