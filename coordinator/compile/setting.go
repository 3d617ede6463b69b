package compile

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/selector"
)

// setting is all that a class depends on beside its plan: what the cluster says, and
// what of the pod's labels matters. Equal bytes, equal classes. It reuses its memory
// from pod to pod.
type setting struct {
	writing
	pod   *v1.Pod
	state ClusterState
	// mounts is what the pod's volumes are, and claims what its claims ask of devices.
	mounts *mounts
	claims PodClaims
	// spreads is what each of the pod's images adds to a node that has it.
	spreads []int64
	// defaults is the selector of the default constraints; nil: there are none.
	defaults *selector.Selector
	// match is the terms of other pods that match the pod; nil: none does.
	match *count.Match
	// matched is Class.Matched.
	matched []byte
	// selfSpread and selfAffinity tell which hard constraints and whether all required
	// affinity terms select the pod's own labels.
	selfSpread   []bool
	selfAffinity bool
	// alone tells of each required anti-affinity term whether it matches the pod itself.
	alone []bool
	// hard are the selectors of the hard constraints, once there is a query.
	hard []*selector.Selector
}

// take finds out a pod's setting.
func (s *setting) take(e *keptPlan, p *v1.Pod, w ClusterState) {
	pl := e.plan
	s.bytes, s.matched, s.pod, s.state, s.mounts = s.bytes[:0], s.matched[:0], p, w, e.mounts
	s.bytes = binary.AppendUvarint(s.bytes, e.revision)
	s.spreads = pl.images.spreads(w, s.spreads[:0])
	for _, v := range s.spreads {
		s.bytes = binary.AppendVarint(s.bytes, v)
	}
	s.takeSpread(pl)
	s.takeAffinity(pl)
	s.takeClaims(pl)
}

// takeSpread finds out what PodTopologySpread's constraints are about.
func (s *setting) takeSpread(pl *plan) {
	c := &pl.spread
	s.defaults, s.selfSpread = nil, s.selfSpread[:0]
	if len(c.hard)+len(c.soft) == 0 {
		return
	}
	if c.defaults {
		s.defaults = s.state.Cluster().DefaultSelector(s.pod)
		s.flag(s.defaults != nil)
		if s.defaults == nil {
			return
		}
		s.text(s.pod.Namespace)
		s.text(s.defaults.Text())
		if len(c.hard) > 0 {
			s.matched = append(s.matched, s.defaults.Text()...)
		}
	}
	for i := range c.hard {
		self := s.selector(&c.hard[i]).Matches(s.pod.Labels)
		s.selfSpread = append(s.selfSpread, self)
		s.flag(self)
	}
	for _, key := range c.matchKeys {
		value, ok := s.pod.Labels[key]
		s.flag(ok)
		s.text(value)
	}
	s.shape(&c.shape, c.keys, OwnKeys)
}

// selector is what a constraint selects, without its matchLabelKeys: these select the
// pod's own labels in any case.
func (s *setting) selector(c *constraint) *selector.Selector {
	if c.selector == nil {
		return s.defaults
	}
	return c.selector
}

// takeAffinity finds out what InterPodAffinity's terms are about.
func (s *setting) takeAffinity(pl *plan) {
	s.match = nil
	if !pl.nearby {
		return
	}
	cluster := s.state.Cluster()
	s.match = s.state.Counters().Matching(s.pod, cluster)
	if s.match != nil {
		s.bytes = binary.AppendUvarint(s.bytes, s.match.ID)
		s.matched = binary.AppendUvarint(s.matched, s.match.ID)
		s.shape(&s.match.Shape, s.match.Keys, len(s.match.Keys))
	} else {
		s.bytes = append(s.bytes, 0)
	}
	near := pl.near
	if near == nil {
		return
	}
	s.selfAffinity = !slices.ContainsFunc(near.Required, func(t count.AffinityTerm) bool { return !t.Selector.Matches(s.pod.Labels) })
	s.flag(s.selfAffinity)
	s.alone = s.alone[:0]
	for i := range near.Anti {
		self := near.Anti[i].Selector.Matches(s.pod.Labels)
		if self {
			about := within(&near.Anti[i], cluster)
			self = about.Has(s.pod.Namespace)
		}
		s.alone = append(s.alone, self)
		s.flag(self)
	}
	if pl.readsNamespaces {
		s.bytes = binary.AppendUvarint(s.bytes, cluster.NamespacesVersion())
	}
	s.shape(&pl.nearShape, pl.nearKeys, OwnKeys)
}

// shape writes what the nodes make of some keys, up to the one with which nodes have more than most of
// them. It is found out once for each version of the nodes' labels, not for each pod.
func (s *setting) shape(of *count.Shape, keys []string, most int) {
	if version := s.state.TopologyVersion(); of.Version != version {
		of.Version, of.Bytes = version, of.Bytes[:0]
		had := 0
		for _, key := range keys {
			made := s.state.Topology(key)
			of.Bytes = append(of.Bytes, byte(made))
			if made == Shared {
				of.Bytes = binary.AppendUvarint(of.Bytes, uint64(s.state.Domains(key))) // which newPinning reads
			}
			if made != Absent {
				had++
			}
			if had > most {
				break
			}
		}
	}
	s.bytes = append(s.bytes, of.Bytes...)
}

// absent tells whether no node has a label.
func (s *setting) absent(key string) bool { return s.state.Topology(key) == Absent }

// unique tells whether no two nodes share a value of a label.
func (s *setting) unique(key string) bool { return s.state.Topology(key) == Unique }
