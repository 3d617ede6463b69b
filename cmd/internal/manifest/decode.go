package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

func unmarshal(raw []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
}

// problem is what is wrong with one field.
type problem struct{ field, text string }

// decode fills obj from JSON, strictly. All unknown and repeated fields are told,
// or, which is fatal, the first value of a wrong type.
func decode(raw []byte, obj any) (problems []problem, fatal bool) {
	if absurd, found := absurdQuantity(raw); found {
		return []problem{absurd}, true
	}
	strict, err := kjson.UnmarshalStrict(raw, obj)
	if err != nil {
		return []problem{{locate(raw, obj, err), reword(err)}}, true
	}
	for _, s := range strict {
		problems = append(problems, strictProblem(s))
	}
	return problems, false
}

// strictProblem reads `unknown field "spec.foo"`.
func strictProblem(err error) problem {
	what, quoted, ok := strings.Cut(err.Error(), ` "`)
	if !ok {
		return problem{text: err.Error()}
	}
	return problem{field: Clip(strings.TrimSuffix(quoted, `"`)), text: what}
}

var (
	wrongType = regexp.MustCompile(`^json: cannot unmarshal (\w+)(?: \S+)? into Go .*of type (\S+)$`)
	notNumber = regexp.MustCompile(`^json: cannot unmarshal number (\S+) into`)
)

// reword says what the decoder means without Go's types.
func reword(err error) string {
	text := err.Error()
	if m := wrongType.FindStringSubmatch(text); m != nil {
		if typed := new(json.UnmarshalTypeError); errors.As(err, &typed) && typed.Type.Kind() == reflect.String {
			m[2] = "string" // or a type that is one, such as v1.TaintEffect
		}
		if n := notNumber.FindStringSubmatch(text); n != nil {
			return fmt.Sprintf("expected %s, got %s", wanting(m[2]), Clip(n[1]))
		}
		text := fmt.Sprintf("expected %s, got %s %s", wanting(m[2]), article(m[1]), m[1])
		if m[1] == "bool" || m[1] == "number" {
			text += " (put it in quotes)"
		}
		return text
	}
	if strings.Contains(text, "quantities must match") || strings.Contains(text, "unable to parse quantity") {
		return "not a quantity such as 500m, 2 or 4Gi"
	}
	return Clip(strings.TrimPrefix(text, "json: "))
}

func article(noun string) string {
	if strings.IndexByte("aeiou", noun[0]) >= 0 {
		return "an"
	}
	return "a"
}

func wanting(goType string) string {
	switch t := strings.TrimLeft(goType, "*"); {
	case t == "string" || strings.HasSuffix(t, "v1.Time"):
		return "a string"
	case t == "bool":
		return "true or false"
	case strings.HasPrefix(t, "int") || strings.HasPrefix(t, "uint"):
		return "an integer"
	case strings.HasPrefix(t, "[]"):
		return "a list"
	case strings.HasPrefix(t, "map["), strings.Contains(t, "."):
		return "an object"
	default:
		return t
	}
}

// probeBytes bounds the work of locate: the JSON that it decodes in all.
const probeBytes = 256 << 20

// locate finds the first value that decoding stumbles over, whatever it is that
// stumbles: a path is taken to be at fault when the error goes away with it.
//
// At each level the children are taken out from the last to the first; the one
// that takes the error along is the first at fault, and is entered. What was
// taken out after it stays out, so that a second fault of the same wording does
// not hide the first.
func locate(raw []byte, obj any, first error) string {
	var root any
	if unmarshal(raw, &root) != nil {
		return ""
	}
	p := &prober{root: root, kind: reflect.TypeOf(obj).Elem(), want: first.Error(), budget: probeBytes}
	path, at := "", root
	for {
		name, next, ok := p.enter(at)
		if !ok {
			return strings.TrimPrefix(path, ".")
		}
		path, at = path+name, next
	}
}

type prober struct {
	root   any
	kind   reflect.Type
	want   string
	budget int
}

// fails tells whether the error is still there.
func (p *prober) fails() bool {
	raw, err := json.Marshal(p.root)
	if p.budget -= len(raw); err != nil || p.budget < 0 {
		return true
	}
	_, err = kjson.UnmarshalStrict(raw, reflect.New(p.kind).Interface())
	return err != nil && err.Error() == p.want
}

// enter finds the child of a value that is at fault; none: the value itself is.
func (p *prober) enter(at any) (name string, child any, ok bool) {
	switch at := at.(type) {
	case map[string]any:
		for _, key := range slices.Backward(slices.Sorted(maps.Keys(at))) {
			value := at[key]
			delete(at, key)
			if !p.fails() {
				at[key] = value
				return keyStep(key), value, true
			}
		}
	case []any:
		for i, value := range slices.Backward(at) {
			at[i] = nil
			if !p.fails() {
				at[i] = value
				return fmt.Sprintf("[%d]", i), value, true
			}
		}
	}
	return "", nil, false
}

// keyStep writes a key as field paths do.
func keyStep(key string) string {
	if strings.ContainsAny(key, "./[]") {
		return "[" + Clip(key) + "]"
	}
	return "." + Clip(key)
}
