package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// document is a file's only document: as JSON for decoding, and as a tree for lines.
type document struct {
	file string
	json []byte
	tree *yaml.Node // nil: lines can't be told
}

// newDocument reads YAML or JSON. Repeated keys of YAML are an error each; those of JSON are left
// to the decoder.
func newDocument(file string, data []byte) (*document, error) {
	d := &document{file: file}
	if err := d.readTree(data); err != nil {
		return nil, err
	}
	if start := bytes.TrimSpace(data); len(start) > 0 && start[0] == '{' {
		d.json = start
		return d, nil
	}
	found := problems{doc: d}
	found.repeated(d.tree, "", 0)
	if err := found.err(); err != nil {
		return nil, err
	}
	var err error
	if d.json, err = sigsyaml.YAMLToJSONStrict(data); err != nil {
		return nil, d.syntax(err)
	}
	return d, nil
}

// readTree parses for lines. What it can't parse is left to the parser proper, whose
// word counts, unless that would not see it: a second document.
func (d *document) readTree(data []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, next yaml.Node
	if decoder.Decode(&first) != nil {
		return nil
	}
	d.tree = &first
	for {
		err := decoder.Decode(&next)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return d.syntax(err)
		}
		if !empty(&next) {
			return &Error{File: d.file, Line: next.Line, Problem: "expected one document, found a second"}
		}
	}
}

// empty tells whether a document holds nothing.
func empty(n *yaml.Node) bool {
	return n.Kind == yaml.DocumentNode && (len(n.Content) == 0 || n.Content[0].Tag == "!!null")
}

// syntax is a parser's error as ours: the line taken out, the prefixes dropped.
func (d *document) syntax(err error) *Error {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:"} {
		text = strings.TrimSpace(strings.TrimPrefix(text, prefix))
	}
	text, _, _ = strings.Cut(text, "\n")
	e := &Error{File: d.file, Problem: clip(text)}
	if m := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Problem = clip(m[2])
	}
	return e
}

// maxDepth is how deep a document is looked into; more than any configuration needs.
const maxDepth = 100

// repeated notes each key that a mapping has twice.
func (p *problems) repeated(n *yaml.Node, path string, depth int) {
	if n == nil || depth > maxDepth {
		return
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			p.repeated(c, path, depth+1)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			p.repeated(c, fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			below := strings.TrimPrefix(path+"."+key.Value, ".")
			if seen[key.Value] && key.Tag != "!!merge" {
				p.note("", Error{Line: key.Line, Field: below, Problem: fmt.Sprintf("key %q already set in map", clip(key.Value))})
			}
			seen[key.Value] = true
			p.repeated(n.Content[i+1], below, depth+1)
		}
	}
}

// line is where the field at path stands, or else the nearest thing above it.
func (d *document) line(path string) int {
	n, line := d.tree, 0
	for range 2 * maxDepth {
		switch {
		case n == nil:
			return line
		case n.Kind == yaml.DocumentNode && len(n.Content) == 1:
			n = n.Content[0]
			line = n.Line
		case n.Kind == yaml.AliasNode:
			n = n.Alias
		case path == "":
			return line
		case n.Kind == yaml.SequenceNode:
			index, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
			i, err := strconv.Atoi(index)
			if err != nil || i < 0 || i >= len(n.Content) {
				return line
			}
			n, path = n.Content[i], rest
			line = n.Line
		case n.Kind == yaml.MappingNode:
			key, value, rest := child(n, path)
			if key == nil {
				return line
			}
			n, path, line = value, rest, key.Line
		default:
			return line
		}
	}
	return line
}

// child is the entry of a mapping that a path goes on with: of the keys that the path
// begins with the longest, for keys may have dots of their own; of equal ones the last.
func child(n *yaml.Node, path string) (key, value *yaml.Node, rest string) {
	path = strings.TrimPrefix(path, ".")
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		after, found := strings.CutPrefix(path, k.Value)
		if !found || after != "" && after[0] != '.' && after[0] != '[' {
			continue
		}
		if key == nil || len(k.Value) >= len(key.Value) {
			key, value, rest = k, n.Content[i+1], after
		}
	}
	return key, value, rest
}

// maxText is how long a text in an error may be.
const maxText = 400

// clip shortens a text for an error.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// sets tells whether the document has a field.
func (d *document) sets(path string) bool {
	n := d.tree
	for range maxDepth {
		switch {
		case n == nil:
			return false
		case path == "":
			return true
		case n.Kind == yaml.DocumentNode && len(n.Content) == 1:
			n = n.Content[0]
		case n.Kind == yaml.AliasNode:
			n = n.Alias
		case n.Kind == yaml.MappingNode:
			_, n, path = child(n, path)
		default:
			return false
		}
	}
	return false
}
