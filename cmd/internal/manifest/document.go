package manifest

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// document is one part of a source that stands by itself.
type document struct {
	file string
	line int // of the first byte of text
	text []byte
	json bool
	list listType // where the document was an item of a list

	once sync.Once // guards tree
	tree *yaml.Node
}

// listType is what a list says its items are.
type listType struct{ apiVersion, kind string }

// note takes over what a list's own field says.
func (l *listType) note(key any, raw json.RawMessage) {
	switch key {
	case "apiVersion":
		json.Unmarshal(raw, &l.apiVersion)
	case "kind":
		json.Unmarshal(raw, &l.kind)
	}
}

func (l listType) isList() bool { return strings.HasSuffix(l.kind, "List") }

// item is the kind of the list's items; empty where each says its own.
func (l listType) item() string { return strings.TrimSuffix(l.kind, "List") }

// position is where a field stands, or the nearest that is there above it; of an
// empty path, where the document begins.
func (d *document) position(path string) Position {
	p := Position{File: d.file, Line: d.line}
	if path == "" {
		return p
	}
	d.once.Do(func() {
		var tree yaml.Node
		if yaml.Unmarshal(d.text, &tree) == nil {
			d.tree = &tree
		}
	})
	if d.tree == nil {
		return p
	}
	if line := find(d.tree, steps(path)); line > 0 {
		p.Line = d.line + line - 1
	}
	return p
}

// toJSON is the document as JSON.
func (d *document) toJSON() ([]byte, *Error) {
	if d.json {
		return d.text, nil
	}
	raw, err := sigsyaml.YAMLToJSONStrict(d.text)
	if err == nil {
		return raw, nil
	}
	line, problem := yamlProblem(err)
	e := &Error{Position: Position{File: d.file, Line: d.line}, Problem: problem}
	if line > 0 {
		e.Position.Line += line - 1
	}
	if strings.Contains(string(d.text), "{{") {
		e.Problem += " (this looks like a Helm template: render it with `helm template` first)"
	}
	return nil, e
}

// yamlProblem takes the parser's message apart.
func yamlProblem(err error) (line int, problem string) {
	problem = err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:\n", " "} {
		problem = strings.TrimLeft(strings.TrimPrefix(problem, prefix), " ")
	}
	problem, _, _ = strings.Cut(problem, "\n")
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(problem); m != nil {
		line, _ = strconv.Atoi(m[1])
		problem = problem[len(m[0]):]
	}
	return line, Clip(problem)
}
