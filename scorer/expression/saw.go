package expression

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// maxSaw is how many values are told of an expression, and maxShown how many bytes of each.
const maxSaw, maxShown = 8, 120

// Saw tells what the residual reads of a node, one value each, such as node.labels["disk"] is "hdd": no more than eight.
func (r *Residual) Saw(n Node) []string {
	var out []string
	node := &nodeValue{the(), n}
	for _, read := range r.reads[:min(len(r.reads), maxSaw)] {
		name, value := "node."+read.Field, getField(node, types.String(read.Field))
		if m, isMap := value.(*nodeMap); isMap && read.Keyed {
			name += "[" + strconv.Quote(read.Key) + "]"
			var has bool
			if value, has = m.Find(types.String(read.Key)); !has {
				out = append(out, "there is no "+name)
				continue
			}
		}
		out = append(out, name+" is "+shown(value))
	}
	return out
}

// shown writes a value for people.
func shown(v ref.Val) string {
	text := ""
	switch v := v.(type) {
	case types.String:
		text = strconv.Quote(string(v))
	case Quantity:
		text = v.String()
	case *object:
		words := make([]string, len(v.values))
		for i := range v.values {
			words[i] = v.kind.fields[i].name + ": " + shown(v.values[i])
		}
		text = "{" + strings.Join(words, ", ") + "}"
	case traits.Lister:
		var words []string
		for it := v.Iterator(); it.HasNext() == types.True && len(words) <= maxSaw; {
			words = append(words, shown(it.Next()))
		}
		text = "[" + strings.Join(words, ", ") + "]"
	case traits.Mapper:
		text = fmt.Sprintf("a map of %v", v.Size().Value())
	default:
		text = fmt.Sprint(v.Value())
	}
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}
