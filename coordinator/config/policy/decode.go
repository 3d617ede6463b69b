package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/shardsched/shardsched/coordinator/config"
)

// Bounds of what is read.
const (
	maxBytes  = 1 << 20 // as large as a ConfigMap can be
	maxValues = 100_000 // aliases counted as often as they are used
	maxErrors = 50
	maxText   = 200
)

// decoder reads a document's tree and gathers what is wrong with it.
type decoder struct {
	file   string
	after  int            // lines of the file before the document
	lines  map[string]int // by path
	values int
	list   []error
	more   int
	broken map[string]bool // paths with a problem that is listed
}

// value is a node of the document and where it is.
type value struct {
	node *yaml.Node
	path string
}

func (v *value) null() bool { return v.node.ShortTag() == "!!null" }

// fields is what an object may hold.
type fields map[string]func(*value)

// document parses the only document of a text. Tabs, which YAML does not take between JSON's tokens,
// become blanks: inside JSON's strings there can be none.
func (d *decoder) document(data []byte) (*yaml.Node, error) {
	if len(data) > maxBytes {
		return nil, &config.Error{File: d.file, Problem: fmt.Sprintf("larger than %d MiB", maxBytes>>20)}
	}
	if start := bytes.TrimSpace(data); len(start) > 0 && start[0] == '{' {
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	in := yaml.NewDecoder(bytes.NewReader(data))
	var first, next yaml.Node
	switch err := in.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, &config.Error{File: d.file, Problem: "empty; expected a Policy"}
	case err != nil:
		return nil, d.syntax(err)
	}
	for {
		err := in.Decode(&next)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, d.syntax(err)
		}
		if len(next.Content) > 0 && next.Content[0].ShortTag() != "!!null" {
			return nil, &config.Error{File: d.file, Line: d.after + next.Line, Problem: "expected one document, found a second"}
		}
	}
	return first.Content[0], nil
}

// syntax is a parser's error as ours.
func (d *decoder) syntax(err error) *config.Error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &config.Error{File: d.file, Problem: clip(text)}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, problem, found := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil && found {
			e.Line, e.Problem = d.after+n, clip(problem)
		}
	}
	return e
}

// accepted tells what a Policy begins with.
const accepted = "expected apiVersion v1 (or kubescheduler.config.k8s.io/v1) and kind Policy"

// header holds the document to be a Policy. Only the names themselves are looked at here.
func (d *decoder) header(root *yaml.Node) {
	root = d.resolve(root)
	if root.Kind != yaml.MappingNode {
		d.note(root.Line, "", "expected an object: "+accepted)
		return
	}
	got := map[string]string{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		got[root.Content[i].Value] = d.resolve(root.Content[i+1]).Value
	}
	version, kind := got["apiVersion"], got["kind"]
	switch {
	case kind == "ConfigMap":
		d.note(root.Line, "kind", `this is a ConfigMap; its key "`+ConfigMapKey+`" is to be read (convert policy --from-configmap)`)
	case kind == "KubeSchedulerConfiguration":
		d.note(root.Line, "kind", "this is a KubeSchedulerConfiguration, which --config takes")
	case kind != "Policy":
		d.note(root.Line, "kind", fmt.Sprintf("got %q; %s", clip(kind), accepted))
	case version != "v1" && version != "kubescheduler.config.k8s.io/v1":
		d.note(root.Line, "apiVersion", fmt.Sprintf("got %q; %s", clip(version), accepted))
	}
}

// object reads an object whose fields are spelt as they are here. null is an empty one.
func (d *decoder) object(n *yaml.Node, path string, known fields) {
	d.entries(n, path, known, func(name string) (string, bool) {
		_, ok := known[name]
		return name, ok
	})
}

// anyCase reads an object whose fields may be spelt in capitals.
func (d *decoder) anyCase(n *yaml.Node, path string, known fields) {
	names := slices.Sorted(maps.Keys(known))
	d.entries(n, path, known, func(name string) (string, bool) {
		i := slices.IndexFunc(names, func(k string) bool { return strings.EqualFold(k, name) })
		if i < 0 {
			return name, false
		}
		return names[i], true
	})
}

func (d *decoder) entries(n *yaml.Node, path string, known fields, field func(string) (string, bool)) {
	n = d.resolve(n)
	if n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.note(n.Line, path, "expected an object")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		name, ok := field(key.Value)
		at := strings.TrimPrefix(path+"."+clip(name), ".")
		switch {
		case !ok:
			d.note(key.Line, at, "unknown field"+hint(name, known))
			continue
		case seen[name]:
			d.note(key.Line, at, "is there twice")
			continue
		}
		seen[name] = true
		d.lines[at] = d.after + key.Line
		if v := d.visit(n.Content[i+1], at); v != nil {
			known[name](v)
		}
	}
}

// hint is the right spelling of a field that differs in case only.
func hint(name string, known fields) string {
	for k := range known {
		if strings.EqualFold(k, name) {
			return ": it is spelt " + k
		}
	}
	return ""
}

// visit counts a value; nil: there are too many.
func (d *decoder) visit(n *yaml.Node, path string) *value {
	d.values++
	if d.values > maxValues {
		if d.values == maxValues+1 {
			d.note(n.Line, path, fmt.Sprintf("more than %d values", maxValues))
		}
		return nil
	}
	return &value{d.resolve(n), path}
}

// resolve follows an alias.
func (d *decoder) resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// list reads a list; nil stands for null.
func list[T any](d *decoder, v *value, item func(*value) T) []T {
	if v.null() {
		return nil
	}
	if v.node.Kind != yaml.SequenceNode {
		d.at(v, "", "expected a list")
		return nil
	}
	out := make([]T, 0, min(len(v.node.Content), 1000))
	for i, n := range v.node.Content {
		at := fmt.Sprintf("%s[%d]", v.path, i)
		below := d.visit(n, at)
		if below == nil {
			break
		}
		d.lines[at] = d.after + n.Line
		out = append(out, item(below))
	}
	return out
}

// scalar is the text of a scalar with a tag of these.
func (d *decoder) scalar(v *value, what string, tags ...string) (string, bool) {
	if v.node.Kind != yaml.ScalarNode || !slices.Contains(tags, v.node.ShortTag()) {
		d.at(v, "", "expected "+what)
		return "", false
	}
	return v.node.Value, true
}

func (d *decoder) text(v *value) string {
	if v.null() {
		return ""
	}
	s, _ := d.scalar(v, "a text", "!!str")
	return s
}

// boolean takes YAML 1.1's words too, as upstream's parser does.
func (d *decoder) boolean(v *value) bool {
	if v.null() {
		return false
	}
	if v.node.Kind == yaml.ScalarNode && v.node.Style == 0 {
		switch strings.ToLower(v.node.Value) {
		case "true", "yes", "on":
			return true
		case "false", "no", "off":
			return false
		}
	}
	d.at(v, "", "expected true or false")
	return false
}

func (d *decoder) integer(v *value, least, most int64) int64 {
	if v.null() {
		return 0
	}
	s, ok := d.scalar(v, "a whole number", "!!int")
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		d.at(v, "", "expected a whole number")
		return 0
	case n < least || n > most:
		d.at(v, "", fmt.Sprintf("Invalid value: %d: not in valid range [%d-%d]", n, least, most))
		return 0
	}
	return n
}

// at notes a problem with a value, or with a field of it.
func (d *decoder) at(v *value, field, problem string) {
	path, line := v.path, v.node.Line
	if field != "" {
		path += "." + field
		if n, ok := d.lines[path]; ok {
			line = n - d.after
		}
	}
	d.note(line, path, problem)
}

func (d *decoder) note(line int, path, problem string) {
	if len(d.list) == maxErrors {
		d.more++
		return
	}
	d.broken[path] = true
	d.list = append(d.list, &config.Error{File: d.file, Line: d.after + line, Field: path, Problem: problem})
}

// failed tells whether something at or below a path is wrong.
func (d *decoder) failed(path string) bool {
	for at := range d.broken {
		if at == path || strings.HasPrefix(at, path+".") {
			return true
		}
	}
	return false
}

func (d *decoder) err() error {
	list := d.list
	if d.more > 0 {
		list = append(list[:len(list):len(list)], &config.Error{File: d.file, Problem: fmt.Sprintf("and %d more", d.more)})
	}
	return errors.Join(list...)
}

// clip shortens a text for an error.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
