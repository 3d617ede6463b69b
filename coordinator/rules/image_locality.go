package rules

import (
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// ImageLocality is the plugin that prefers nodes which have the images of a pod.
const ImageLocality = "ImageLocality"

func imageLocality() *Rule {
	return &Rule{
		Name:   ImageLocality,
		Part:   compile.Part{Plugin: pb.Plugin_PLUGIN_IMAGE_LOCALITY},
		Points: []framework.Point{framework.Score},
		Weight: 1,
	}
}
