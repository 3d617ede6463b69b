package manifest

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// step is one part of a field path: a key, or an index.
type step struct {
	key   string
	index int // -1: a key
}

// steps reads a path as field errors and strict decoding write it:
// spec.containers[0].resources.limits[nvidia.com/gpu].
func steps(path string) []step {
	var out []step
	for path != "" {
		path = strings.TrimPrefix(path, ".")
		if rest, ok := strings.CutPrefix(path, "["); ok {
			inner, after, _ := strings.Cut(rest, "]")
			if i, err := strconv.Atoi(inner); err == nil && i >= 0 {
				out = append(out, step{key: inner, index: i})
			} else {
				out = append(out, step{key: inner, index: -1})
			}
			path = after
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		if end > 0 {
			out = append(out, step{key: path[:end], index: -1})
		}
		path = path[end:]
	}
	return out
}

// find follows a path as far as it leads and returns the line of its last part
// that is there; 0: not even the first. For a key of a mapping that is the
// key's line.
func find(n *yaml.Node, path []step) int {
	line := 0
	for depth := 0; n != nil && depth < 1000; depth++ {
		switch {
		case n.Kind == yaml.AliasNode:
			n = n.Alias
		case n.Kind == yaml.DocumentNode && len(n.Content) == 1:
			n = n.Content[0]
			line = n.Line
		case len(path) == 0:
			return line
		case n.Kind == yaml.SequenceNode && path[0].index >= 0 && path[0].index < len(n.Content):
			n, path = n.Content[path[0].index], path[1:]
			line = n.Line
		case n.Kind == yaml.MappingNode:
			key, value, used := child(n, path)
			if key == nil {
				return line
			}
			line, n, path = key.Line, value, path[used:]
		default:
			return line
		}
	}
	return line
}

// child finds the key that a path goes on with. Strict decoding joins keys that
// have dots of their own with dots, so several parts may make up one key.
func child(n *yaml.Node, path []step) (key, value *yaml.Node, used int) {
	name := ""
	for used = 1; used <= len(path); used++ {
		if used > 1 {
			name += "."
		}
		name += path[used-1].key
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i], n.Content[i+1], used
			}
		}
	}
	return nil, nil, 0
}
