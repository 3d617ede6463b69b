package scorer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// MaxKey is how many normalised plugins there are: the length of Key.Raw.
const MaxKey = 4

// Key is what the rows of a group have in common: all that the group part of a class
// looks at.
type Key struct {
	// Raw are the raw scores of the normalised plugins (TaintToleration, NodeAffinity, DynamicResources, CELScore), in
	// the order of Query.scores; Class.KeyLen of them count.
	Raw [MaxKey]int64
	// Domains are the values of Query.domain_keys. Missing tells which of the labels the
	// rows lack; Domains[i] is then empty.
	Domains []string
	Missing LabelSet
	// Values are those of Query.row_values; NoLabel where the rows lack the label.
	Values []int64
	// LateFilter is the index in Query.filters, plus one, of the late filter that refuses the
	// rows; 0: none does. Bit i of
	// LateReasons is its reason i. Only with Options.Diagnose.
	LateFilter  uint32
	LateReasons uint64
}

// Compare orders keys: the order of a result's groups.
func (k *Key) Compare(o *Key) int {
	for i := range k.Raw {
		if k.Raw[i] != o.Raw[i] {
			return cmp.Compare(k.Raw[i], o.Raw[i])
		}
	}
	if len(k.Domains) != len(o.Domains) {
		return cmp.Compare(len(k.Domains), len(o.Domains))
	}
	for i := range k.Domains {
		if x := k.Missing.has(i); x != o.Missing.has(i) {
			if x {
				return -1 // rows without the label stand first
			}
			return 1
		}
		if k.Domains[i] != o.Domains[i] {
			return strings.Compare(k.Domains[i], o.Domains[i])
		}
	}
	if c := slices.Compare(k.Values, o.Values); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(k.LateFilter, o.LateFilter),
		cmp.Compare(k.LateReasons, o.LateReasons),
		slices.Compare(k.Missing[:], o.Missing[:]))
}

// Equal tells whether two keys are the same group's.
func (k *Key) Equal(o *Key) bool {
	return k.Raw == o.Raw && k.Missing == o.Missing && k.LateFilter == o.LateFilter && k.LateReasons == o.LateReasons &&
		slices.Equal(k.Values, o.Values) && slices.Equal(k.Domains, o.Domains)
}

// set makes k a copy of o in k's own memory.
func (k *Key) set(o *Key) {
	*k = Key{
		Raw: o.Raw, Missing: o.Missing, LateFilter: o.LateFilter, LateReasons: o.LateReasons,
		Domains: append(k.Domains[:0], o.Domains...), Values: append(k.Values[:0], o.Values...),
	}
}

// reset empties the key and keeps its memory.
func (k *Key) reset() { *k = Key{Domains: k.Domains[:0], Values: k.Values[:0]} }

// lacks tells whether the rows lack the label of domain key i.
func (k *Key) lacks(i uint32) bool { return k.Missing.has(int(i)) }

// LabelSet is a set of domain keys by their indexes: a bit for each.
type LabelSet [pb.MaxDomainKeys / 64]uint64

func (s *LabelSet) has(i int) bool { return i < pb.MaxDomainKeys && s[i/64]>>(i%64)&1 != 0 }
func (s *LabelSet) add(i int)      { s[i/64] |= 1 << (i % 64) }

// setWords makes it the set of so many words; more than there may be are cut.
func (s *LabelSet) setWords(words []uint64) {
	*s = LabelSet{}
	copy(s[:], words)
}

// hash is equal for equal keys.
func (k *Key) hash() uint64 {
	h := uint64(0)
	mix := func(v uint64) {
		h = (h ^ v) * 0x9E3779B97F4A7C15
		h ^= h >> 32
	}
	for _, v := range k.Raw {
		mix(uint64(v))
	}
	for _, s := range k.Domains {
		mix(xxhash.Sum64String(s))
	}
	for _, v := range k.Missing {
		mix(v)
	}
	for _, v := range k.Values {
		mix(uint64(v))
	}
	mix(uint64(k.LateFilter))
	mix(k.LateReasons)
	return h
}

// keyIndex finds groups by key. It covers the first groups of a list that only grows.
type keyIndex struct {
	slots []int32 // group + 1; a power of two of them
	known int
}

func (x *keyIndex) reset() {
	clear(x.slots)
	x.known = 0
}

// find is the group with that key, -1 where there is none.
func (x *keyIndex) find(groups []Group, key *Key) int {
	x.extend(groups)
	mask := uint64(len(x.slots) - 1)
	for at := key.hash() & mask; ; at = (at + 1) & mask {
		switch i := int(x.slots[at]) - 1; {
		case i < 0:
			return -1
		case groups[i].Key.Equal(key):
			return i
		}
	}
}

// extend takes in the groups that were added since.
func (x *keyIndex) extend(groups []Group) {
	if x.known > len(groups) {
		x.reset()
	}
	if 2*len(groups) >= len(x.slots) {
		x.slots, x.known = make([]int32, max(16, 4*len(x.slots), nextPower(4*len(groups)))), 0
	}
	mask := uint64(len(x.slots) - 1)
	for ; x.known < len(groups); x.known++ {
		at := groups[x.known].Key.hash() & mask
		for x.slots[at] != 0 {
			at = (at + 1) & mask
		}
		x.slots[at] = int32(x.known + 1)
	}
}

// nextPower is the smallest power of two that is n or more.
func nextPower(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// lateMark is what the key says of late filters.
func (k *Key) lateMark() lateMark { return lateMark{k.LateFilter, k.LateReasons} }
