package scorer

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// refVolumes is what the volume plugins and NodeDeclaredFeatures have against a row,
// written from upstream's rules one claim and one volume at a time.
func refVolumes(n *pb.Node, counters map[uint32]int64, q *pb.Query) []Reason {
	for _, p := range q.Filters {
		var why []Reason
		switch p {
		case pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS:
			if slices.ContainsFunc(q.VolumeRestrictions.Disks, func(id uint32) bool { return counters[id] > 0 }) {
				why = []Reason{{"VolumeRestrictions", "node(s) had no available disk", false}}
			}
		case pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS:
			why = refLimits(n, counters, q.VolumeLimits)
		case pb.Plugin_PLUGIN_VOLUME_BINDING:
			why = refBinding(n, q.VolumeBinding)
		case pb.Plugin_PLUGIN_VOLUME_ZONE:
			if !refZones(n, q.VolumeZones) {
				why = []Reason{{"VolumeZone", "node(s) had no available volume zone", true}}
			}
		case pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES:
			for _, f := range q.RequiredFeatures {
				if !slices.Contains(n.DeclaredFeatures, f) {
					why = []Reason{{"NodeDeclaredFeatures", "node(s) didn't match Pod's required features", true}}
				}
			}
		}
		if len(why) > 0 {
			return why
		}
	}
	return nil
}

func refLimits(n *pb.Node, counters map[uint32]int64, q *pb.VolumeLimitsQuery) []Reason {
	if q.MissingClaim != "" {
		return []Reason{{"NodeVolumeLimits", q.MissingClaim, true}}
	}
	for _, d := range q.Drivers {
		added := d.Volumes
		for _, id := range d.Shared {
			if counters[id] > 0 {
				added--
			}
		}
		for _, l := range n.VolumeLimits {
			if l.Driver == d.Driver && added > 0 && counters[d.Attached]+added > l.Volumes {
				return []Reason{{"NodeVolumeLimits", "node(s) exceed max volume count", false}}
			}
		}
	}
	return nil
}

func refZones(n *pb.Node, list []*pb.ZoneRequirement) bool {
	if !slices.ContainsFunc(n.Labels, func(l *pb.Label) bool { return isZoneLabel(l.Key) }) {
		return true
	}
	for _, z := range list {
		value, ok := refLabel(n, z.Key)
		if !ok && z.FallbackKey != "" {
			value, ok = refLabel(n, z.FallbackKey)
		}
		if !ok || !slices.Contains(z.Values, value) {
			return false
		}
	}
	return true
}

func isZoneLabel(key string) bool {
	labels := zoneLabels()
	return slices.Contains(labels[:], key)
}

// refSelector tells whether a selector matches a node; nil matches all.
func refSelector(n *pb.Node, s *pb.NodeSelector) bool {
	return s == nil || slices.ContainsFunc(s.Terms, func(t *pb.SelectorTerm) bool { return refTerm(n, t) })
}

func refCandidate(n *pb.Node, v *pb.CandidateVolume) bool {
	if v.Key == "" {
		return refSelector(n, v.NodeAffinity)
	}
	value, ok := refLabel(n, v.Key)
	return ok && value == v.Value
}

func refBinding(n *pb.Node, q *pb.VolumeBindingQuery) []Reason {
	const plugin = "VolumeBinding"
	boundOK := !slices.ContainsFunc(q.Bound, func(s *pb.NodeSelector) bool { return !refSelector(n, s) })
	for _, m := range q.Migratable {
		s := m.InTree
		if slices.Contains(n.MigratedPlugins, m.Plugin) {
			s = m.Csi
		}
		boundOK = boundOK && refSelector(n, s)
	}
	noVolume, noRoom := refClaims(n, q)
	var why []Reason
	if !boundOK {
		why = append(why, Reason{plugin, "node(s) didn't match PersistentVolume's node affinity", true})
	}
	if noVolume {
		why = append(why, Reason{plugin, "node(s) didn't find available persistent volumes to bind", true})
	}
	if noRoom {
		why = append(why, Reason{plugin, "node(s) did not have enough free storage", true})
	}
	if boundOK && q.MissingVolume {
		why = append(why, Reason{plugin, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", true})
	}
	return why
}

// refClaims serves the claims as upstream does: all selected nodes are looked at, then
// all volumes are chosen, then all that is left is provisioned.
func refClaims(n *pb.Node, q *pb.VolumeBindingQuery) (noVolume, noRoom bool) {
	for _, c := range q.Claims {
		if c.SelectedNode != "" && c.SelectedNode != n.Name {
			return true, false
		}
	}
	taken := map[uint32]bool{}
	var rest []*pb.UnboundClaim
	for _, c := range q.Claims {
		if v, ok := refChoose(n, q, c, taken); ok && c.SelectedNode == "" {
			taken[v] = true
		} else {
			rest = append(rest, c)
		}
	}
	for _, c := range rest {
		switch {
		case !c.Provision || !refSelector(n, c.Topologies):
			return true, false
		case c.CheckCapacity && !slices.ContainsFunc(c.Capacities, func(s *pb.NodeSelector) bool { return refSelector(n, s) }):
			return false, true
		}
	}
	return false, false
}

func refChoose(n *pb.Node, q *pb.VolumeBindingQuery, c *pb.UnboundClaim, taken map[uint32]bool) (uint32, bool) {
	for i, v := range c.Volumes {
		if taken[v] {
			continue
		}
		if i < int(c.Prebound) {
			return v, refCandidate(n, q.Volumes[v])
		}
		if refCandidate(n, q.Volumes[v]) {
			return v, true
		}
	}
	return 0, false
}
