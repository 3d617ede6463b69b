package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// PluginName is upstream's name of a plugin, as reasons and metrics carry it.
func PluginName(p pb.Plugin) string {
	switch p {
	case pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE:
		return "NodeUnschedulable"
	case pb.Plugin_PLUGIN_NODE_NAME:
		return "NodeName"
	case pb.Plugin_PLUGIN_TAINT_TOLERATION:
		return "TaintToleration"
	case pb.Plugin_PLUGIN_NODE_AFFINITY:
		return "NodeAffinity"
	case pb.Plugin_PLUGIN_NODE_PORTS:
		return "NodePorts"
	case pb.Plugin_PLUGIN_NODE_RESOURCES_FIT:
		return "NodeResourcesFit"
	case pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION:
		return "NodeResourcesBalancedAllocation"
	case pb.Plugin_PLUGIN_IMAGE_LOCALITY:
		return "ImageLocality"
	case pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES:
		return "NodeDeclaredFeatures"
	case pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS:
		return "VolumeRestrictions"
	case pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS:
		return "NodeVolumeLimits"
	case pb.Plugin_PLUGIN_VOLUME_BINDING:
		return "VolumeBinding"
	case pb.Plugin_PLUGIN_VOLUME_ZONE:
		return "VolumeZone"
	case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD:
		return "PodTopologySpread"
	case pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
		return "InterPodAffinity"
	case pb.Plugin_PLUGIN_CEL_FILTER:
		return "CELFilter"
	case pb.Plugin_PLUGIN_CEL_SCORE:
		return "CELScore"
	default:
		return "Unknown"
	}
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
