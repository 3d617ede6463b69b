package scorer

import (
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// What golden scripts say of volumes and features. Of a node:
//
//	feature:NAME limit:DRIVER=N migrated:PLUGIN
//
// Of a pod, or a VolumeAttachment that comes and goes like one: count:COUNTER=N. Of a query:
//
//	feature NAME
//	disks COUNTER …
//	attach DRIVER N [attached=COUNTER] [shared=COUNTER,…]      missing TEXT
//	reach TERM                       migratable PLUGIN TERM | TERM      gone
//	volume KEY=VALUE | TERM | any    the next candidate; the first has the place 0
//	claim PLACE,… [prebound=N] [node=NAME] [provision] [sized]
//	within TERM | segment TERM       of the last claim: a topology, a capacity
//	zone KEY[,FALLBACK] VALUE,…
//
// Where TERM can be several, they are joined by " or "; "nothing" matches nothing and "any"
// everything.

func parseTrait(n *pb.Node, kind, rest string) bool {
	switch kind {
	case "feature":
		n.DeclaredFeatures = append(n.DeclaredFeatures, rest)
	case "migrated":
		n.MigratedPlugins = append(n.MigratedPlugins, rest)
	case "zero":
		n.ZeroResources = append(n.ZeroResources, rest)
	case "limit":
		driver, volumes, _ := strings.Cut(rest, "=")
		n.VolumeLimits = append(n.VolumeLimits, &pb.VolumeLimit{Driver: driver, Volumes: number(volumes)})
	default:
		return false
	}
	return true
}

func parseSelector(text string) *pb.NodeSelector {
	if text == "any" {
		return nil
	}
	s := &pb.NodeSelector{}
	if text == "nothing" {
		return s
	}
	for term := range strings.SplitSeq(text, " or ") {
		s.Terms = append(s.Terms, parseTerm(term))
	}
	return s
}

func numbers(text string) []uint32 {
	var out []uint32
	for s := range strings.SplitSeq(text, ",") {
		if s != "" {
			out = append(out, uint32(number(s)))
		}
	}
	return out
}

// parseVolumes understands the directives above; false: it is none of them.
func parseVolumes(q *pb.Query, word, rest string) bool {
	b := q.VolumeBinding
	if b == nil {
		b = &pb.VolumeBindingQuery{}
	}
	var last *pb.UnboundClaim
	if n := len(b.Claims); n > 0 {
		last = b.Claims[n-1]
	}
	switch word {
	case "feature":
		q.RequiredFeatures = append(q.RequiredFeatures, rest)
		return true
	case "disks":
		q.VolumeRestrictions = &pb.VolumeRestrictionsQuery{Disks: numbers(strings.ReplaceAll(rest, " ", ","))}
		return true
	case "attach", "missing":
		parseLimits(q, word, rest)
		return true
	case "zone":
		q.VolumeZones = append(q.VolumeZones, parseZone(rest))
		return true
	case "reach":
		b.Bound = append(b.Bound, parseSelector(rest))
	case "gone":
		b.MissingVolume = true
	case "migratable":
		plugin, terms, _ := strings.Cut(rest, " ")
		inTree, csi, _ := strings.Cut(terms, " | ")
		b.Migratable = append(b.Migratable, &pb.MigratableVolume{Plugin: plugin, InTree: parseSelector(inTree), Csi: parseSelector(csi)})
	case "volume":
		b.Volumes = append(b.Volumes, parseCandidate(rest))
	case "claim":
		b.Claims = append(b.Claims, parseClaim(rest))
	case "within":
		last.Topologies = parseSelector(rest)
	case "segment":
		last.Capacities = append(last.Capacities, parseSelector(rest))
	default:
		return false
	}
	q.VolumeBinding = b
	return true
}

func parseLimits(q *pb.Query, word, rest string) {
	if q.VolumeLimits == nil {
		q.VolumeLimits = &pb.VolumeLimitsQuery{}
	}
	if word == "missing" {
		q.VolumeLimits.MissingClaim = rest
		return
	}
	f := strings.Fields(rest)
	d := &pb.DriverVolumes{Driver: f[0], Volumes: number(f[1])}
	for _, w := range f[2:] {
		switch key, value, _ := strings.Cut(w, "="); key {
		case "attached":
			d.Attached = uint32(number(value))
		case "shared":
			d.Shared = numbers(value)
		}
	}
	q.VolumeLimits.Drivers = append(q.VolumeLimits.Drivers, d)
}

func parseZone(rest string) *pb.ZoneRequirement {
	keys, list, _ := strings.Cut(rest, " ")
	key, fallback, _ := strings.Cut(keys, ",")
	return &pb.ZoneRequirement{Key: key, FallbackKey: fallback, Values: strings.Split(list, ",")}
}

func parseCandidate(rest string) *pb.CandidateVolume {
	if key, value, ok := strings.Cut(rest, "="); ok {
		return &pb.CandidateVolume{Key: key, Value: value}
	}
	return &pb.CandidateVolume{NodeAffinity: parseSelector(rest)}
}

func parseClaim(rest string) *pb.UnboundClaim {
	c := &pb.UnboundClaim{}
	for _, w := range strings.Fields(rest) {
		switch key, value, _ := strings.Cut(w, "="); key {
		case "prebound":
			c.Prebound = uint32(number(value))
		case "node":
			c.SelectedNode = value
		case "provision":
			c.Provision = true
		case "sized":
			c.CheckCapacity = true
		default:
			c.Volumes = numbers(w)
		}
	}
	return c
}
