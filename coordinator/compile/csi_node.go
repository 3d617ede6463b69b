package compile

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// VolumeLimits lists how many volumes the drivers of a CSINode can attach, of those that
// say so: sorted by driver. Of a driver that is listed twice the last entry counts. A nil
// CSINode says nothing.
func VolumeLimits(n *storagev1.CSINode) []*pb.VolumeLimit {
	if n == nil {
		return nil
	}
	var out []*pb.VolumeLimit
	for i := range n.Spec.Drivers {
		d := &n.Spec.Drivers[i]
		if d.Allocatable == nil || d.Allocatable.Count == nil || d.Name == "" || !usable(d.Name) {
			continue
		}
		limit := &pb.VolumeLimit{Driver: d.Name, Volumes: max(0, int64(*d.Allocatable.Count))}
		byDriver := func(x *pb.VolumeLimit, name string) int { return strings.Compare(x.Driver, name) }
		at, found := slices.BinarySearchFunc(out, d.Name, byDriver)
		if found {
			out[at] = limit
		} else {
			out = slices.Insert(out, at, limit)
		}
	}
	return out
}

// MigratedPlugins lists the in-tree plugins whose volumes a CSI driver serves on the node
// of a CSINode, of those that upstream migrates: sorted, each once.
func MigratedPlugins(n *storagev1.CSINode) []string {
	if n == nil {
		return nil
	}
	var out []string
	for plugin := range strings.SplitSeq(n.Annotations[v1.MigratedPluginsAnnotationKey], ",") {
		if isMigrated(plugin) {
			out = append(out, plugin)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
