package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeDeclaredFeatures is the plugin for pods that need features of a node which not every kubelet has.
const NodeDeclaredFeatures = "NodeDeclaredFeatures"

func nodeDeclaredFeatures() *Rule {
	return &Rule{
		Name: NodeDeclaredFeatures, Plugin: pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES,
		Points: []framework.Point{framework.PreFilter, framework.Filter},
	}
}
