package scorer

import (
	"encoding/binary"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// trait is what a node says of its software: the features it declares, the extended resources that it reports and has
// none of, and what its CSINode says of volumes.
type trait struct {
	// features, migrated and zeros are sorted.
	features, migrated, zeros []string
	limits                    []volumeLimit // sorted by driver
}

// volumeLimit is how many volumes of a driver a node can hold.
type volumeLimit struct {
	driver  string
	volumes int64
}

// limit is how many volumes of a driver the node can hold; false: it does not say.
func (x *trait) limit(driver string) (volumes int64, ok bool) {
	i, ok := slices.BinarySearchFunc(x.limits, driver, func(l volumeLimit, d string) int { return strings.Compare(l.driver, d) })
	if !ok {
		return 0, false
	}
	return x.limits[i].volumes, true
}

// traitSets interns the traits of nodes: nodes of one kind have the same, and a rule
// decides once for all of them.
type traitSets struct {
	contents interned[trait]
	// ofRow is the trait of each row.
	ofRow   []uint32
	encoded []byte // scratch
}

func newTraitSets() traitSets { return traitSets{contents: newInterned[trait]()} }

// of is the row's trait.
func (s *traitSets) of(row uint32) *trait { return &s.contents.contents[s.ofRow[row]] }

// reportsNone tells whether the row's node reports 0 of an extended resource.
func (s *traitSets) reportsNone(row uint32, resource string) bool {
	_, found := slices.BinarySearch(s.of(row).zeros, resource)
	return found
}

// set gives a row what its node says.
func (s *traitSets) set(row uint32, n *pb.Node) {
	s.encoded = s.encoded[:0]
	if len(n.GetDeclaredFeatures())+len(n.GetMigratedPlugins())+len(n.GetVolumeLimits())+len(n.GetZeroResources()) > 0 {
		s.encode(n)
	}
	before := s.ofRow[row]
	s.ofRow[row] = s.contents.acquire(s.encoded, func() trait {
		x := trait{
			features: slices.Clone(n.GetDeclaredFeatures()), migrated: slices.Clone(n.GetMigratedPlugins()),
			zeros: slices.Clone(n.GetZeroResources()),
		}
		for _, l := range n.GetVolumeLimits() {
			x.limits = append(x.limits, volumeLimit{l.GetDriver(), l.GetVolumes()})
		}
		return x
	})
	s.contents.release(before)
}

func (s *traitSets) encode(n *pb.Node) {
	for _, list := range [][]string{n.GetDeclaredFeatures(), n.GetMigratedPlugins(), n.GetZeroResources()} {
		s.encoded = binary.AppendUvarint(s.encoded, uint64(len(list)))
		for _, text := range list {
			s.encoded = appendText(s.encoded, text)
		}
	}
	for _, l := range n.GetVolumeLimits() {
		s.encoded = appendText(s.encoded, l.GetDriver())
		s.encoded = binary.AppendUvarint(s.encoded, uint64(l.GetVolumes()))
	}
}

// appendTo writes what the row's node says into n.
func (s *traitSets) appendTo(row uint32, n *pb.Node) {
	x := s.of(row)
	n.DeclaredFeatures, n.MigratedPlugins, n.ZeroResources = slices.Clone(x.features), slices.Clone(x.migrated), slices.Clone(x.zeros)
	for _, l := range x.limits {
		n.VolumeLimits = append(n.VolumeLimits, &pb.VolumeLimit{Driver: l.driver, Volumes: l.volumes})
	}
}

func (s *traitSets) memory() int64 {
	const perTrait = 4*24 + 6*24 // the lists, with some entries each
	return s.contents.memory() + int64(len(s.contents.contents))*perTrait + int64(4*cap(s.ofRow))
}
