package compile

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/count"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// mounts is what the volume plugins make of a pod's volumes at one moment. For a pod
// without volumes that they look at it is nil, and they all skip.
type mounts struct {
	// version is that of the storage, and keyed the registry's counters of disks and
	// claims: for as long as both hold, so does the rest.
	storage  Volumes
	version  uint64
	registry *count.Registry
	keyed    []uint32
	// volatile tells that placing other pods may change it.
	volatile bool

	// refusing is the plugin whose PreFilter refused; the plugins behind it have not run.
	refusing pb.Plugin
	refusal  *unfit

	disks, claims, named []uint32
	limits               *pb.VolumeLimitsQuery
	binding              *pb.VolumeBindingQuery
	zones                []*pb.ZoneRequirement
	// failing is the plugin whose Filter cannot be run.
	failing pb.Plugin
	failure error
}

// hold tells whether they are still what newMounts would find.
func (m *mounts) hold(w ClusterState) bool {
	if m == nil {
		return true
	}
	s := storageOf(w)
	return m.storage == s && m.version == s.Version() && m.registry == w.Counters() && m.registry.Use(m.keyed)
}

// storageOf is the cluster's storage, or an empty one.
func storageOf(w ClusterState) Volumes {
	if s := w.Volumes(); s != nil {
		return s
	}
	return noVolumes{}
}

func (m *mounts) isVolatile() bool { return m != nil && m.volatile }

// mountsStorage tells whether a volume plugin looks at a volume.
func mountsStorage(v *v1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.ISCSI != nil || v.RBD != nil || IsMigratedInline(&v.VolumeSource)
}

// newMounts runs the PreFilters of a profile's volume plugins, in order.
func newMounts(p *v1.Pod, prof *Profile, w ClusterState, kept *affinities) *mounts {
	if !slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return mountsStorage(&v) }) {
		return nil
	}
	s := storageOf(w)
	m := &mounts{storage: s, version: s.Version(), registry: w.Counters()}
	claims := podClaims(p, s)
	for _, f := range prof.filters {
		var no *unfit
		switch f {
		case pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS:
			no = m.restrict(p, claims, s, w.Counters())
		case pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS:
			m.limit(p, s)
		case pb.Plugin_PLUGIN_VOLUME_BINDING:
			no = m.bind(p, claims, s, kept)
		case pb.Plugin_PLUGIN_VOLUME_ZONE:
			m.zones, no = zoneRequirements(claims, s)
		}
		if no != nil {
			m.refusing, m.refusal = f, no
			break
		}
	}
	return m
}

// restrict runs VolumeRestrictions' PreFilter.
func (m *mounts) restrict(p *v1.Pod, claims []podClaim, s Volumes, counters *count.Registry) *unfit {
	for i := range p.Spec.Volumes {
		for _, k := range count.Disk(&p.Spec.Volumes[i].VolumeSource) {
			m.disks = append(m.disks, counters.Keyed(k))
		}
	}
	slices.Sort(m.disks)
	m.disks = slices.Compact(m.disks)
	names, no := claimsForOne(claims)
	for _, name := range names {
		m.claims = append(m.claims, counters.Keyed(count.Claim(p.Namespace, name)))
		m.named = append(m.named, counters.KeyedIn(count.ClaimName(name), s.NamespacesOf(name)))
	}
	slices.Sort(m.named)
	m.keyed = slices.Concat(m.disks, m.claims, m.named)
	return no
}

// limit works out what NodeVolumeLimits' Filter asks.
func (m *mounts) limit(p *v1.Pod, s Volumes) {
	q, settled, err := limitsQuery(p, s)
	m.limits = q
	m.volatile = m.volatile || !settled
	m.fails(pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS, err)
}

// bind runs VolumeBinding's PreFilter.
func (m *mounts) bind(p *v1.Pod, claims []podClaim, s Storage, kept *affinities) *unfit {
	if no := checkClaims(p, claims); no != nil || len(claims) == 0 {
		return no
	}
	bound, unbound, no := boundAndUnbound(claims, s)
	if no != nil {
		return no
	}
	m.volatile = m.volatile || len(unbound) > 0
	q, err := bindingQuery(bound, unbound, s, kept)
	m.fails(pb.Plugin_PLUGIN_VOLUME_BINDING, err)
	m.binding = q
	return nil
}

// fails keeps the first Filter's error.
func (m *mounts) fails(f pb.Plugin, err error) {
	if err != nil && m.failure == nil {
		m.failing, m.failure = f, err
	}
}

func asksNothing(q *pb.VolumeBindingQuery) bool {
	return len(q.Bound)+len(q.Migratable)+len(q.Claims) == 0 && !q.MissingVolume
}

// refuses is a plugin's PreFilter answer, where it is not success: a rejection or an
// error.
func (m *mounts) refuses(f pb.Plugin) (*Rejection, error) {
	if m == nil || m.refusal == nil || m.refusing != f {
		return nil, nil
	}
	name := scorer.PluginName(f)
	if err := m.refusal.err; err != nil {
		return nil, fmt.Errorf("running PreFilter plugin %q: %w", name, err)
	}
	return &Rejection{Plugins: []string{name}, Message: m.refusal.message, Unresolvable: true}, nil
}

// filterError is the error of the first Filter that cannot be run.
//
// Differs from upstream: it counts even where every node is refused by a filter before
// it, or is one on which upstream's Filter would not come upon it.
func (m *mounts) filterError() error {
	if m == nil || m.failure == nil {
		return nil
	}
	return fmt.Errorf("running %q filter plugin: %w", scorer.PluginName(m.failing), m.failure)
}

// fill writes the volume plugins' parts of a query.
func (m *mounts) fill(q *pb.Query) {
	if m == nil {
		return
	}
	if len(m.disks)+len(m.claims) > 0 {
		q.VolumeRestrictions = &pb.VolumeRestrictionsQuery{Disks: m.disks, Named: m.named}
		for _, id := range m.claims {
			// Pods that use the claim, all over the cluster.
			q.VolumeRestrictions.Claims = append(q.VolumeRestrictions.Claims, uint32(len(q.Measures)))
			q.Measures = append(q.Measures, &pb.Measure{By: pb.Breakdown_BREAKDOWN_TOTAL, Counters: counters(id)})
		}
	}
	q.VolumeLimits, q.VolumeZones = m.limits, m.zones
	if m.binding != nil && !asksNothing(m.binding) {
		q.VolumeBinding = m.binding
	}
}
