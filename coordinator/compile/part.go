package compile

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Part is what the catalogue of rules (package rules) tells of a plugin's part of queries.
type Part struct {
	// Plugin is the plugin's number in queries.
	Plugin pb.Plugin
	// FilterAsks and ScoreAsks tell whether a query asks anything of the plugin. One that asks nothing of it does without
	// it, as upstream does where PreFilter or PreScore says Skip; nil: each query asks something.
	FilterAsks, ScoreAsks func(*pb.Query) bool
	// Write writes the part for a pod. args are the plugin's arguments; nil: it takes none, or they have a field of their own
	// in ProfileConfig. Where Write is nil this package writes the part.
	Write func(q *pb.Query, p *v1.Pod, args runtime.Object)
	// Reads is all that Write reads of a pod, as a text, but for what signature.go has: pods that differ in it share no
	// query; nil: nothing.
	Reads func(*v1.Pod) string
}

// written is a part that Write makes, under the arguments of a profile.
type written struct {
	*Part
	args runtime.Object
}

// setParts looks up the parts of the profile's plugins.
func (p *Profile) setParts(c *ProfileConfig, parts []Part) {
	p.parts = make(map[pb.Plugin]*Part, len(parts))
	for i := range parts {
		part := &parts[i]
		p.parts[part.Plugin] = part
		if p.uses(part.Plugin) && part.Write != nil {
			p.written = append(p.written, written{part, c.Arguments[part.Plugin]})
		}
	}
}

// filterAsks tells whether a query asks something of a filter plugin.
func (p *Profile) filterAsks(plugin pb.Plugin, q *pb.Query) bool {
	part := p.parts[plugin]
	return part == nil || part.FilterAsks == nil || part.FilterAsks(q)
}

// scoreAsks is filterAsks for a score plugin.
func (p *Profile) scoreAsks(plugin pb.Plugin, q *pb.Query) bool {
	part := p.parts[plugin]
	return part == nil || part.ScoreAsks == nil || part.ScoreAsks(q)
}
