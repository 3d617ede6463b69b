package shadow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// verdictOf is what an explanation tells of a node; nil: nothing.
func verdictOf(e *pb.ExplainResponse, node string) *pb.NodeVerdict {
	for _, v := range e.GetVerdicts() {
		if v.GetNode() == node {
			return v
		}
	}
	return nil
}

// refusalOf tells which plugin refuses a node, and why.
func refusalOf(e *pb.ExplainResponse, node string) string {
	v := verdictOf(e, node)
	switch r := v.GetRefused(); {
	case r != nil:
		text := r.GetPlugin() + ": " + strings.Join(r.GetReasons(), ", ")
		if lacks := r.GetShortfalls(); len(lacks) > 0 {
			text += " (" + strings.Join(lacks, ", ") + ")"
		}
		return text
	case v.GetNote() != "":
		return v.GetNote()
	}
	return cmp.Or(e.GetNote(), "we would refuse it, and can't tell why")
}

// against tells which plugins have our node above theirs.
func against(e *pb.ExplainResponse, theirs, ours string) string {
	low, high := verdictOf(e, theirs).GetScored(), (*pb.ScoredNode)(nil)
	for _, n := range e.GetTop() {
		if n.GetNode() == ours {
			high = n
		}
	}
	var list []string
	for _, h := range high.GetPlugins() {
		i := slices.IndexFunc(low.GetPlugins(), func(l *pb.PluginScore) bool { return l.GetPlugin() == h.GetPlugin() })
		if i < 0 {
			continue
		}
		if by := h.GetWeight() * (h.GetNormalised() - low.GetPlugins()[i].GetNormalised()); by != 0 {
			list = append(list, fmt.Sprintf("%s %+d", h.GetPlugin(), by))
		}
	}
	return strings.Join(list, ", ")
}
