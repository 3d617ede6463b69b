package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TaintToleration is the plugin for taints of nodes and tolerations of pods.
const TaintToleration = "TaintToleration"

func taintToleration() *Rule {
	return &Rule{
		Name: TaintToleration, Plugin: pb.Plugin_PLUGIN_TAINT_TOLERATION,
		Points: []framework.Point{framework.Filter, framework.PreScore, framework.Score},
		Weight: 3,
	}
}
