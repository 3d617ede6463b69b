package scorer

import (
	"maps"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// PluginName is upstream's name of a plugin, as reasons and metrics carry it.
func PluginName(p pb.Plugin) string {
	if p > 0 && int(p) < len(pluginNames) && pluginNames[p] != "" {
		return pluginNames[p]
	}
	return "Unknown"
}

// pluginNames are made of the names that the numbers have in query.proto: PLUGIN_NODE_NAME stands for NodeName.
var pluginNames = func() []string {
	names := make([]string, slices.Max(slices.Collect(maps.Keys(pb.Plugin_name)))+1)
	for number, name := range pb.Plugin_name {
		names[number] = camel(strings.TrimPrefix(name, "PLUGIN_"))
	}
	return names
}()

// camel writes A_NAME as AName. CEL is an abbreviation.
func camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if word != "CEL" {
			word = word[:1] + strings.ToLower(word[1:])
		}
		b.WriteString(word)
	}
	return b.String()
}

// ExtensionPointName is upstream's name of an extension point.
func ExtensionPointName(x pb.ExtensionPoint) string {
	switch x {
	case pb.ExtensionPoint_EXTENSION_POINT_FILTER:
		return "Filter"
	case pb.ExtensionPoint_EXTENSION_POINT_SCORE:
		return "Score"
	default:
		return "Unknown"
	}
}
