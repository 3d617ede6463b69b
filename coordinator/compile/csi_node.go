package compile

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// AddCSINode adds to a row what the CSINode of its node says; nil says nothing.
func AddCSINode(row *pb.Node, n *storagev1.CSINode) {
	row.VolumeLimits, row.MigratedPlugins = nil, nil
	if n == nil {
		return
	}
	row.VolumeLimits = volumeLimits(n.Spec.Drivers)
	for plugin := range strings.SplitSeq(n.Annotations[v1.MigratedPluginsAnnotationKey], ",") {
		if migrates(plugin) {
			row.MigratedPlugins = append(row.MigratedPlugins, plugin)
		}
	}
	slices.Sort(row.MigratedPlugins)
	row.MigratedPlugins = slices.Compact(row.MigratedPlugins)
}

// volumeLimits lists the drivers that say how many volumes they can attach. Of a driver
// that is listed twice the last entry counts.
func volumeLimits(drivers []storagev1.CSINodeDriver) []*pb.VolumeLimit {
	var out []*pb.VolumeLimit
	for i := range drivers {
		d := &drivers[i]
		if d.Allocatable == nil || d.Allocatable.Count == nil || d.Name == "" || !usable(d.Name) {
			continue
		}
		out = slices.DeleteFunc(out, func(l *pb.VolumeLimit) bool { return l.Driver == d.Name })
		out = append(out, &pb.VolumeLimit{Driver: d.Name, Volumes: max(0, int64(*d.Allocatable.Count))})
	}
	slices.SortFunc(out, func(a, b *pb.VolumeLimit) int { return strings.Compare(a.Driver, b.Driver) })
	return out
}

// declaredFeatures are the features that a node declares, of those that pods may need.
// As upstream, a name that stands out of order is passed over.
func declaredFeatures(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	known := nodedeclaredfeatures.DefaultFramework
	out, err := known.Unmap(known.TryMap(names))
	if err != nil {
		panic(err) // the set is the framework's own
	}
	return out
}
