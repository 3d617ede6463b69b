package rules

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// VolumeZone is the plugin for volumes that nodes of some zones alone can reach.
const VolumeZone = "VolumeZone"

func volumeZone() *Rule {
	return &Rule{
		Name: VolumeZone,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_VOLUME_ZONE,
			FilterAsks: func(q *pb.Query) bool { return len(q.GetVolumeZones()) > 0 },
		},
		Points:       []framework.Point{framework.PreFilter, framework.Filter},
		RefusesEarly: true,
		Hints:        zoneHints,
		Words:        zoneWords(),
	}
}

// zoneHints waits for volumes and nodes in other zones, for the claim, and for its class.
func zoneHints(queue.Profiles) queue.Plugin {
	return queue.Plugin{
		Alike: queue.VolumeLikeness,
		Events: []queue.Registration{
			{Resource: queue.StorageClass, Actions: queue.Add, If: bindsLate},
			{Resource: queue.Node, Actions: queue.Add | queue.UpdateNodeLabel},
			{Resource: queue.PersistentVolumeClaim, Actions: queue.Add | queue.Update, Helps: queue.NamesGivenClaim},
			{Resource: queue.PersistentVolume, Actions: queue.Add},
			{Resource: queue.PersistentVolume, Actions: queue.Update, If: movesZone},
		},
	}
}

// bindsLate: volumes of the class are bound when a pod is scheduled that wants them.
func bindsLate(e *queue.Event) bool {
	_, class := objects[*storagev1.StorageClass](e)
	late, err := storage.BindsLate(class)
	return late && err == nil
}

// movesZone: the volume is in other zones or regions than before.
func movesZone(e *queue.Event) bool {
	old, now := objects[*v1.PersistentVolume](e)
	for _, key := range placeKeys() {
		if !slices.Equal(storage.Zones(old.Labels[key]), storage.Zones(now.Labels[key])) {
			return true
		}
	}
	return false
}

func zoneWords() *Words {
	return &Words{
		Says: []string{"node(s) had no available volume zone", "PersistentVolume", "persistentvolume"},
		Lacks: func(r *Refused) []string {
			var out []string
			for _, x := range claimsOf(r.Pod, r.Cluster) {
				if x.object == nil || x.object.Spec.VolumeName == "" {
					continue
				}
				volume := r.Cluster.Volume(x.object.Spec.VolumeName)
				if text := zoneLack(volume, r.Node); text != "" {
					out = append(out, "claim "+x.name+": "+text)
				}
			}
			return out
		},
		Wants: func(a *Asked) []Want {
			if problems := claimProblems(a.Pod, a.Cluster); len(problems) > 0 {
				return bindingWants(a)
			}
			var where []string
			for _, x := range claimsOf(a.Pod, a.Cluster) {
				if x.object == nil {
					continue
				}
				if place := placeOf(a.Cluster.Volume(x.object.Spec.VolumeName)); place != "" {
					where = append(where, fmt.Sprintf("claim %s: %s", x.name, place))
				}
			}
			return []Want{{Cause: "volumes are in other zones", Detail: listed(where), Help: "nodes in the zones of the volumes"}}
		},
	}
}

// placeKeys are the labels by which volumes are in zones and regions.
func placeKeys() []string {
	return []string{v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaRegion}
}

// placeOf words the zone or region of a volume, which may be nil; "": it has none.
func placeOf(volume *v1.PersistentVolume) string {
	if volume == nil {
		return ""
	}
	for _, key := range placeKeys() {
		if zones := storage.Zones(volume.Labels[key]); len(zones) > 0 {
			return domainText(key, strings.Join(zones, " or "))
		}
	}
	return ""
}

// zoneLack words which zone or region of a volume, which may be nil, a node is not in; "": none.
func zoneLack(volume *v1.PersistentVolume, n *v1.Node) string {
	if volume == nil {
		return ""
	}
	for _, key := range placeKeys() {
		if zones := storage.Zones(volume.Labels[key]); len(zones) > 0 && !slices.Contains(zones, n.Labels[key]) {
			return fmt.Sprintf("its volume %s is in %s, %s", volume.Name, domainText(key, strings.Join(zones, " or ")), labelOf(n, key))
		}
	}
	return ""
}
